//! Takes a whole JSON document or an error, never half of one.
//!
//! `cargo run --example whole --features testkit` runs it against a provider on
//! this machine that is cut in the middle of its first answer. Nothing had been
//! shown, so the request goes out again.

use serde::Deserialize;
use std::io::Write as _;
use streamkeep::proto::operation::Hold;
use streamkeep::testkit::{Fault, Scenario, Upstream};
use streamkeep::{Client, Dialect, Request};

#[derive(Debug, Deserialize)]
struct Invoice {
    number: String,
    total_cents: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = Upstream::start(
        Scenario::openai_chat()
            .text(r#"{"number": "2026-117", "total_cents": 129900}"#)
            .on(1, Fault::reset().after_event(4)),
    )
    .await?;

    let client = Client::builder().build()?;
    let body = r#"{"model": "gpt-5", "response_format": {"type": "json_object"},
                   "messages": [{"role": "user", "content": "The invoice as JSON, please."}]}"#;
    let url = format!("{}/v1/chat/completions", provider.url());
    let request = Request::new(Dialect::OpenAiChat, url, body)?;

    let answer = client
        .call(request)
        .hold(Hold::UntilComplete)
        .start()
        .await?;
    let mut out = std::io::stdout();
    match answer.json::<Invoice>().await {
        Ok(invoice) => writeln!(out, "{}: {} cents", invoice.number, invoice.total_cents)?,
        Err(unfinished) => writeln!(
            out,
            "{}; {} bytes arrived; what can be done: {:?}",
            unfinished.error,
            unfinished.partial.text().len(),
            unfinished.options,
        )?,
    }
    Ok(())
}
