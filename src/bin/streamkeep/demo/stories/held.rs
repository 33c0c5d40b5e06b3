//! A held-back answer is cut in the middle, and asked for again.

use super::super::reader::Reader;
use super::super::requests::request;
use super::super::stage::{Performance, Stage, answer};
use streamkeep::proto::operation::Hold;
use streamkeep::testkit::{Fault, Scenario};
use streamkeep::{Dialect, Result};

pub(super) async fn play(stage: &mut Stage) -> Result<Performance> {
    let words = answer();
    let scenario = Scenario::openai_chat()
        .text(words.clone())
        .on(1, Fault::close().after_event(words.len() / 2));
    let upstream = stage.upstream(scenario).await?;
    let client = stage.journals.client(None).await?;
    let handle = client
        .call(request(Dialect::OpenAiChat, &upstream.url())?)
        .key(stage.key("held")?)
        .retry(stage.retry())
        .hold(Hold::UntilComplete)
        .start()
        .await?;
    let mut reader = Reader::new("reader", &handle);
    stage.watch(&mut reader).await?;
    Ok(Performance::new(handle, words, &upstream).read_by(reader))
}
