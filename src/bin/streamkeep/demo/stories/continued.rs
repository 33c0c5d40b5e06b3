//! A live answer without a cursor is cut, and continued later by its key.

use super::super::reader::Reader;
use super::super::requests::request;
use super::super::stage::{Performance, Stage, answer};
use streamkeep::proto::journal::RecoveryOption;
use streamkeep::proto::operation::Outcome;
use streamkeep::testkit::{Fault, Scenario};
use streamkeep::{Dialect, Result};

pub(super) async fn play(stage: &mut Stage) -> Result<Performance> {
    let words = answer();
    let scenario = Scenario::anthropic()
        .text(words.clone())
        .continues_partial_answers()
        .on(1, Fault::reset().after_event(words.len() / 2));
    let upstream = stage.upstream(scenario).await?;
    let key = stage.key("continued")?;
    let client = stage.journals.client(None).await?;
    let handle = client
        .call(request(Dialect::AnthropicMessages, &upstream.url())?)
        .key(key.clone())
        .retry(stage.retry())
        .start()
        .await?;
    let mut reader = Reader::new("reader", &handle);
    stage.watch(&mut reader).await?;
    let may_continue = match handle.outcome().await? {
        Outcome::Interrupted(interrupted) => {
            interrupted.options.contains(&RecoveryOption::Continue)
        }
        _ => false,
    };
    if !may_continue {
        // The verdict says how it ended.
        return Ok(Performance::new(handle, words, &upstream).read_by(reader));
    }

    stage.journals.close().await;
    stage.act("the store is closed and opened again: what follows knows the key and the journal, and nothing else");
    let client = stage.journals.client(None).await?;
    let handle = client.continue_answer(&key, None).await?;
    reader.reconnect(&handle);
    stage.watch(&mut reader).await?;
    Ok(Performance::new(handle, words, &upstream).read_by(reader))
}
