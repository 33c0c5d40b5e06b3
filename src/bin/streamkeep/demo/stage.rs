//! What every story works with.

use super::journals::Journals;
use super::reader::{Reader, Step};
use super::screen::{Screen, Tone};
use super::tell::tell;
use super::verify::Transcript;
use crate::format;
use std::sync::Arc;
use std::time::Duration;
use streamkeep::client::Handle;
use streamkeep::proto::journal::Control;
use streamkeep::proto::retry::RetryPolicy;
use streamkeep::testkit::{Fault, Scenario, Upstream, Words};
use streamkeep::{Error, ErrorKind, Key, Result};

/// How many words each answer has: two to three lines on the screen.
const WORDS: usize = 48;

/// The time of a token, for somebody who watches.
const TOKEN: Duration = Duration::from_millis(35);

/// What every story works with.
pub(super) struct Stage {
    pub(super) screen: Screen,
    pub(super) journals: Arc<Journals>,
    /// Time of a token; zero when nobody watches.
    pub(super) pace: Duration,
    /// Part of every key, so that a store that is kept takes many runs.
    run: String,
}

/// What a story leaves behind, for the verdict.
pub(super) struct Performance {
    pub(super) handle: Handle,
    pub(super) words: Option<Words>,
    pub(super) readers: Vec<Transcript>,
    /// Requests the provider saw, where it can be asked.
    pub(super) requests: Option<usize>,
    /// What went otherwise than it should, beyond what can be counted.
    pub(super) problems: Vec<String>,
}

impl Stage {
    pub(super) fn new(screen: Screen, journals: Arc<Journals>, fast: bool) -> Self {
        let id = uuid::Uuid::now_v7().simple().to_string();
        Self {
            screen,
            journals,
            pace: if fast { Duration::ZERO } else { TOKEN },
            // The end of a version 7 UUID is its random part.
            run: id.chars().skip(26).collect(),
        }
    }

    /// The key of this story's answer in this run.
    pub(super) fn key(&self, story: &str) -> Result<Key> {
        Key::new(format!("demo-{}-{story}", self.run))
    }

    /// Starts the provider, at the stage's pace.
    pub(super) async fn upstream(&self, scenario: Scenario) -> Result<Upstream> {
        let scenario = if self.pace.is_zero() {
            scenario
        } else {
            scenario.pace(self.pace)
        };
        Upstream::start(scenario).await.map_err(no_port)
    }

    /// Shorter delays than by default: a person watches.
    pub(super) fn retry(&self) -> RetryPolicy {
        RetryPolicy {
            base: self.pace.saturating_mul(4),
            ..RetryPolicy::INTERACTIVE
        }
    }

    /// The wait a provider asks for.
    pub(super) fn asking_to_wait(&self, fault: Fault) -> Fault {
        if self.pace.is_zero() {
            fault.retry_after_ms(20)
        } else {
            fault.retry_after(1)
        }
    }

    /// Reads on until nothing more comes, and tells all of it.
    pub(super) async fn watch(&mut self, reader: &mut Reader) -> Result<()> {
        self.watch_and(reader, |_| {}).await
    }

    /// As [`watch`](Self::watch); calls `after` behind every record.
    pub(super) async fn watch_and(
        &mut self,
        reader: &mut Reader,
        after: impl Fn(&Reader),
    ) -> Result<()> {
        while let Some(step) = reader.next().await? {
            match step {
                Step::Text(text) => self.screen.token(&text),
                Step::Control(control) => {
                    tell(&mut self.screen, &control);
                    if let Control::AttemptEnded(ended) = control.as_ref()
                        && ended.failure.is_some()
                    {
                        let tokens = count(reader.tokens(), "token");
                        self.note(&format!("the reader has {tokens}"));
                    }
                }
            }
            after(reader);
        }
        self.screen.end_tokens();
        Ok(())
    }

    /// Reads on until nothing more comes, and shows the text alone.
    pub(super) async fn watch_text(&mut self, reader: &mut Reader) -> Result<()> {
        while let Some(step) = reader.next().await? {
            if let Step::Text(text) = step {
                self.screen.token(&text);
            }
        }
        self.screen.end_tokens();
        Ok(())
    }

    /// Says what happens beside the journal.
    pub(super) fn note(&mut self, text: &str) {
        self.screen.say(Tone::Quiet, "   . ", text);
    }

    /// Says what the demo itself does.
    pub(super) fn act(&mut self, text: &str) {
        self.screen.say(Tone::Title, "   * ", text);
    }
}

impl Performance {
    /// Of a story whose provider was the test kit.
    pub(super) fn new(handle: Handle, words: Words, upstream: &Upstream) -> Self {
        Self {
            handle,
            words: Some(words),
            readers: Vec::new(),
            requests: Some(upstream.requests().len()),
            problems: Vec::new(),
        }
    }

    pub(super) fn read_by(mut self, reader: Reader) -> Self {
        self.readers.push(reader.into_transcript());
        self
    }
}

/// The text of an answer: numbered words prove themselves.
pub(super) fn answer() -> Words {
    Words::numbered(WORDS)
}

/// `1 token`, `2 tokens`.
pub(super) fn count(number: usize, one: &str) -> String {
    format::count(u64::try_from(number).unwrap_or(u64::MAX), one)
}

pub(super) fn no_port(error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Internal,
        "expected a free port of 127.0.0.1, but got none",
    )
    .with_source(error)
}
