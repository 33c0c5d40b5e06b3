//! Streams one answer to the terminal and keeps it.
//!
//! `cargo run --example stream --features testkit` runs it against a provider on
//! this machine that fails twice before its first token: the reader sees one answer.

use std::io::Write as _;
use streamkeep::store::MemoryStore;
use streamkeep::testkit::{Failure, Fault, Scenario, Upstream};
use streamkeep::{Client, Dialect, Request};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = Upstream::start(
        Scenario::openai_chat()
            .text("Every token once, in order, whatever happened on the way.")
            .on(1, Fault::failure(Failure::Overloaded))
            .on(2, Fault::error(Failure::Overloaded).after_event(1)),
    )
    .await?;

    let client = Client::builder().store(MemoryStore::new()).build()?;
    let body = r#"{"model": "gpt-5", "messages": [{"role": "user", "content": "Hello!"}]}"#;
    let url = format!("{}/v1/chat/completions", provider.url());
    let request = Request::new(Dialect::OpenAiChat, url, body)?;

    let answer = client
        .call(request)
        .key("chat-42-turn-7".parse()?)
        .start()
        .await?;
    let mut reader = answer.subscribe();
    let mut out = std::io::stdout();
    while let Some(text) = reader.next_text().await? {
        write!(out, "{text}")?;
        out.flush()?;
    }
    writeln!(out, "\n\nafter {} requests", provider.requests().len())?;
    Ok(())
}
