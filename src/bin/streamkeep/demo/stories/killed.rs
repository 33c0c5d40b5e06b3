//! The writer is killed in the middle of the answer; another process goes on.

use super::super::child::{Child, Task};
use super::super::reader::Reader;
use super::super::requests::{body, path};
use super::super::stage::{Performance, Stage, answer, count, no_port};
use super::super::verify::{Seen, Transcript};
use crate::format;
use std::process::ExitStatus;
use std::time::Duration;
use streamkeep::proto::journal::Record;
use streamkeep::proto::model::WallTime;
use streamkeep::store::StoreExt;
use streamkeep::testkit::{Gate, Scenario, Upstream};
use streamkeep::{Client, Cursor, Dialect, Error, ErrorKind, Key, Result};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The child is killed when it has been acknowledged so many tokens.
const TOKENS: usize = 16;

/// Events the provider lets go before the kill: the first five carry no token, and
/// the answer has far more, so the child cannot have come to its end.
const EVENTS: usize = 26;

pub(super) async fn play(stage: &mut Stage) -> Result<Performance> {
    let dialect = Dialect::OpenAiResponses;
    let words = answer();
    let gate = Gate::new();
    let scenario = Scenario::openai_responses().text(words.clone()).gate(&gate);
    let upstream = Upstream::start(scenario).await.map_err(no_port)?;
    let key = stage.key("killed")?;

    // One process at a time has the store open.
    stage.journals.close().await;
    let mut child = Child::start(&Task {
        folder: stage.journals.folder().to_owned(),
        key: key.clone(),
        dialect,
        url: format!("{}{}", upstream.url(), path(dialect)),
        body: body(dialect).to_owned(),
    })
    .await?;
    stage.act(&format!(
        "process {} writes; what it was acknowledged is shown here, token by token",
        child.id()
    ));
    let (had, rest) = watch_it_die(stage, &mut child, &gate).await?;

    let client = stage.journals.client(None).await?;
    let journal = client.store().read_all(&key, Cursor::START).await?;
    tell_what_is_kept(stage, &journal, &had, &rest);
    outlive(stage, &client, &key).await?;

    let _generating = let_go(&gate, usize::MAX, stage.pace);
    let handle = client.resume(&key).await?;
    let mut reader = Reader::back("reader", &handle, had.clone(), &journal);
    stage.act(&format!(
        "a reader comes back with its cursor {} and gets exactly what follows",
        reader.cursor()
    ));
    stage.watch(&mut reader).await?;
    let dead = Transcript {
        reader: "killed process",
        after: 0,
        seen: [had, rest].concat(),
        to_the_end: false,
    };
    let mut performance = Performance::new(handle, words, &upstream).read_by(reader);
    performance.readers.push(dead);
    Ok(performance)
}

/// Shows what the child is acknowledged, and kills it in the middle. Gives what was
/// seen before the kill, and what it had said beyond that.
async fn watch_it_die(
    stage: &mut Stage,
    child: &mut Child,
    gate: &Gate,
) -> Result<(Vec<Seen>, Vec<Seen>)> {
    let _generating = let_go(gate, EVENTS, stage.pace);
    let mut had = Vec::new();
    let mut tokens = 0_usize;
    while tokens < TOKENS {
        let Some(seen) = child.next().await? else {
            let message =
                format!("expected {TOKENS} tokens of the child, but it ended after {tokens}");
            return Err(Error::new(ErrorKind::Internal, message));
        };
        tokens = tokens.saturating_add(usize::from(!seen.text.is_empty()));
        stage.screen.token(&seen.text);
        had.push(seen);
    }
    let status = child.kill().await?;
    stage.act(&format!(
        "kill -9: process {} {}",
        child.id(),
        cause(status)
    ));
    if status.code().is_some_and(|_| cfg!(unix)) {
        let message =
            format!("expected the child to die of a signal, but it ended itself: {status}");
        return Err(Error::new(ErrorKind::Internal, message));
    }
    let mut rest = Vec::new();
    while let Some(seen) = child.next().await? {
        rest.push(seen);
    }
    Ok((had, rest))
}

/// Lets so many events go, one by one at the stage's pace. Ends with the value.
fn let_go(gate: &Gate, events: usize, pace: Duration) -> Generating {
    let gate = gate.clone();
    Generating(tokio::spawn(async move {
        if pace.is_zero() {
            return gate.permit(events);
        }
        for _ in 0..events {
            gate.permit(1);
            sleep(pace).await;
        }
    }))
}

struct Generating(JoinHandle<()>);

impl Drop for Generating {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn tell_what_is_kept(stage: &mut Stage, journal: &[Record], had: &[Seen], rest: &[Seen]) {
    let acknowledged: Vec<u64> = had.iter().chain(rest).map(|seen| seen.seq).collect();
    let kept = |seq: &&u64| journal.iter().any(|record| record.seq.get() == **seq);
    let kept = acknowledged.iter().filter(kept).count();
    stage.note(&format!(
        "the journal holds {}; of the {} that were acknowledged to the process it holds {kept}",
        count(journal.len(), "record"),
        acknowledged.len()
    ));
}

/// Waits until the claim of the dead process has run out.
async fn outlive(stage: &mut Stage, client: &Client, key: &Key) -> Result<()> {
    let journal = client.state(key).await?;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let now = WallTime::from_millis(0).after(now);
    let left = journal
        .leased_until
        .map_or(Duration::ZERO, |until| until.since(now));
    stage.note(&format!(
        "its status is {}, and the dead writer's claim runs for {} more; until then nobody else \
         may write",
        journal.status.as_str(),
        format::time(left)
    ));
    sleep(left.saturating_add(Duration::from_millis(1))).await;
    Ok(())
}

#[cfg(unix)]
fn cause(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(signal) => format!("died of signal {signal}"),
        None => format!("had ended by itself ({status})"),
    }
}

#[cfg(not(unix))]
fn cause(status: ExitStatus) -> String {
    format!("is gone ({status})")
}
