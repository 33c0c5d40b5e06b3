//! A stream is cut twice; the provider replays too much, and then nothing at all.

use super::super::reader::Reader;
use super::super::requests::request;
use super::super::stage::{Performance, Stage, answer};
use std::time::Duration;
use streamkeep::proto::operation::ResumePolicy;
use streamkeep::testkit::{Fault, Replay, Scenario};
use streamkeep::{Dialect, Result};

pub(super) async fn play(stage: &mut Stage) -> Result<Performance> {
    let words = answer();
    let (third, twice) = (words.len() / 3, words.len() * 2 / 3);
    let scenario = Scenario::openai_responses()
        .text(words.clone())
        .replay(Replay::FromStart)
        .on(1, Fault::reset().after_event(third))
        .on(2, Fault::reset().after_event(twice))
        .on(3, Fault::window_closed());
    let upstream = stage.upstream(scenario).await?;
    let client = stage.journals.client(None).await?;
    let handle = client
        .call(request(Dialect::OpenAiResponses, &upstream.url())?)
        .key(stage.key("resumed")?)
        .retry(stage.retry())
        .resume(ResumePolicy {
            poll_interval: stage.pace.saturating_mul(10).max(Duration::from_millis(10)),
            ..ResumePolicy::default()
        })
        .start()
        .await?;
    let mut reader = Reader::new("reader", &handle);
    stage.watch(&mut reader).await?;
    let requests = upstream.requests();
    for request in requests.iter().filter(|request| request.method == "GET") {
        stage.note(&format!(
            "in the provider's log: GET {}, {} events sent",
            request.target, request.events_sent
        ));
    }
    Ok(Performance::new(handle, words, &upstream).read_by(reader))
}
