//! Goes on with an interrupted answer later, by its key.
//!
//! `cargo run --example later --features testkit` runs it against a provider on
//! this machine that has no cursor and is cut in the middle. The store is closed
//! in between, as it would be by a restart.

use std::io::Write as _;
use streamkeep::proto::journal::RecoveryOption;
use streamkeep::store::SledStore;
use streamkeep::testkit::{Fault, Scenario, Upstream};
use streamkeep::{Client, Dialect, Key, Request};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("streamkeep-later-{}", std::process::id()));
    let provider = Upstream::start(
        Scenario::anthropic()
            .text("The first half was shown. The second half comes after the restart.")
            .continues_partial_answers()
            .on(1, Fault::reset().after_event(8)),
    )
    .await?;
    let key: Key = "letter-7".parse()?;
    let mut out = std::io::stdout();

    // Today.
    let store = std::sync::Arc::new(SledStore::open(&folder).await?);
    let client = Client::builder().shared_store(store.clone()).build()?;
    let body = r#"{"model": "claude-opus-4-6", "max_tokens": 100,
                   "messages": [{"role": "user", "content": "Write the letter."}]}"#;
    let request = Request::new(
        Dialect::AnthropicMessages,
        format!("{}/v1/messages", provider.url()),
        body,
    )?;
    let answer = client.call(request).key(key.clone()).start().await?;
    if let Err(unfinished) = answer.complete().await {
        writeln!(out, "shown so far: {}", unfinished.partial.text())?;
        writeln!(out, "what happened: {}", unfinished.error)?;
        assert!(unfinished.options.contains(&RecoveryOption::Continue));
    }
    drop((answer, client));
    store.close().await;

    // Another day, another process: the key is all there is.
    let store = std::sync::Arc::new(SledStore::open(&folder).await?);
    let client = Client::builder().shared_store(store.clone()).build()?;
    let answer = client.continue_answer(&key, None).await?;
    writeln!(out, "whole: {}", answer.complete().await?.text())?;
    drop((answer, client));
    store.close().await;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
