//! One answer, cut on the way, and three readers: live, slow, and late.

use super::super::reader::Reader;
use super::super::requests::request;
use super::super::stage::{Performance, Stage, answer, count};
use streamkeep::client::Attached;
use streamkeep::testkit::{Fault, Scenario};
use streamkeep::{Dialect, Error, ErrorKind, Result};
use tokio::sync::watch;

/// How far the live reader is.
#[derive(Clone, Copy, Default)]
struct Progress {
    tokens: usize,
    at_the_end: bool,
}

pub(super) async fn play(stage: &mut Stage) -> Result<Performance> {
    let words = answer();
    let scenario = Scenario::openai_responses()
        .text(words.clone())
        .on(1, Fault::reset().after_event(words.len() / 2));
    let upstream = stage.upstream(scenario).await?;
    let client = stage.journals.client(None).await?;
    let asked = request(Dialect::OpenAiResponses, &upstream.url())?;
    let key = stage.key("readers")?;
    let call = client.call(asked.clone()).key(key.clone());
    let handle = call.retry(stage.retry()).start().await?;

    let (progress, seen) = watch::channel(Progress::default());
    let slow = tokio::spawn(read_slowly(Reader::new("slow reader", &handle), seen));
    let mut live = Reader::new("live reader", &handle);
    stage
        .watch_and(&mut live, |live| {
            progress.send_modify(|progress| progress.tokens = live.tokens());
        })
        .await?;
    progress.send_modify(|progress| progress.at_the_end = true);
    let mut slow = slow.await.map_err(|error| {
        Error::new(ErrorKind::Internal, "expected the slow reader to end well").with_source(error)
    })??;

    stage.act(&format!(
        "the slow reader has {} when the answer ends; its connection is dropped, and it comes \
         back with the cursor {}",
        count(slow.tokens(), "token"),
        slow.cursor()
    ));
    slow.reconnect(&handle);
    stage.watch_text(&mut slow).await?;

    let again = client.call(asked).key(key).start().await?;
    let mut late = Reader::new("late reader", &again);
    while late.next().await?.is_some() {}
    let mut performance = Performance::new(handle, words, &upstream);
    if again.attached() == Attached::Existing {
        stage.act(&format!(
            "the same request comes again under the same key: it is attached to the answer that \
             is there, nothing is sent, and its reader gets {}",
            count(late.tokens(), "token")
        ));
    } else {
        let problem = "the same request under the same key was not attached to its answer";
        performance.problems.push(problem.to_owned());
    }
    Ok(performance.read_by(live).read_by(slow).read_by(late))
}

/// Takes one record for every three tokens of the live reader, until that one is at
/// the end.
async fn read_slowly(mut slow: Reader, mut live: watch::Receiver<Progress>) -> Result<Reader> {
    let mut taken = 0_usize;
    loop {
        let wanted = taken.saturating_add(1).saturating_mul(3);
        // The live reader gone means that the story failed: then this one ends too.
        let goes_on = live
            .wait_for(|live| live.at_the_end || live.tokens >= wanted)
            .await
            .is_ok_and(|live| !live.at_the_end);
        if !goes_on {
            return Ok(slow);
        }
        slow.next().await?;
        taken = taken.saturating_add(1);
    }
}
