//! A provider that is down, then overloaded, before the first token.

use super::super::reader::Reader;
use super::super::requests::request;
use super::super::stage::{Performance, Stage, answer};
use streamkeep::testkit::{Failure, Fault, Scenario};
use streamkeep::{Dialect, Result};

pub(super) async fn play(stage: &mut Stage) -> Result<Performance> {
    let words = answer();
    let scenario = Scenario::openai_chat()
        .text(words.clone())
        .on(1, stage.asking_to_wait(Fault::failure(Failure::Overloaded)))
        .on(2, Fault::error(Failure::Overloaded));
    let upstream = stage.upstream(scenario).await?;
    let client = stage.journals.client(None).await?;
    let handle = client
        .call(request(Dialect::OpenAiChat, &upstream.url())?)
        .key(stage.key("retried")?)
        .retry(stage.retry())
        .start()
        .await?;
    let mut reader = Reader::new("reader", &handle);
    stage.watch(&mut reader).await?;
    Ok(Performance::new(handle, words, &upstream).read_by(reader))
}
