//! Secrets, prompts and outputs: where each may be, and that it is nowhere else.
//!
//! One run of many stories, with a secret of its own planted in each, while
//! everything is caught that the crate tells or keeps: every traced span and
//! event, every metric, every record and every byte of the store's folder, every
//! error with the levels below it, every `Debug` output, and what the command
//! prints. All of that is then searched for each secret in every form in which it
//! could stand there.
#![cfg(all(feature = "cli", feature = "prometheus", feature = "testkit"))]
#![cfg(test)] // else the lints take the helpers for production code

#[path = "redaction/command.rs"]
mod command;
#[path = "support/ear.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod ear;
#[path = "support/events.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod events;
#[path = "redaction/mistakes.rs"]
mod mistakes;
#[path = "redaction/needle.rs"]
mod needle;
#[path = "redaction/sockets.rs"]
mod sockets;
#[path = "redaction/stories.rs"]
mod stories;

use needle::{forms, holds};
use std::error::Error as StdError;
use std::fmt::{Debug, Display, Write};
use std::path::Path;
use streamkeep::client::telling::Recorder;
use tokio::sync::OnceCell;

/// What was planted.
#[derive(Clone, Debug)]
struct Planted {
    /// Where: the story, and the place in it.
    story: String,
    text: String,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Secret,
    Prompt,
    Output,
}

/// What was caught, and where.
#[derive(Debug)]
struct Caught {
    place: Place,
    story: String,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Records, and the files of the store: prompts and outputs belong there.
    Journal,
    /// What `send` and `follow` print is the answer.
    Stdout,
    Stderr,
    Trace,
    Metric,
    /// An error with the levels below it, as both `Display` and `Debug`.
    Error,
    /// The `Debug` output of a public value.
    Debug,
}

/// Everything that one run planted and caught.
#[derive(Debug, Default)]
struct Run {
    planted: Vec<Planted>,
    caught: Vec<Caught>,
}

impl Run {
    /// A new text to be planted, like nothing else in the run.
    fn plant(&mut self, what: What, story: &str, shape: Shape) -> String {
        let number = self.planted.len();
        // Both halves are like nothing else, so that half of it is found too.
        let [head, tail] = [0, 1].map(|half| unlike(number * 2 + half));
        let text = match (what, shape) {
            (What::Secret, Shape::Key) => format!("sk-{head}{tail}"),
            // As AWS and some gateways make them: nothing tells that it is a key.
            (What::Secret, Shape::Opaque) => format!("w+{head}/{tail}="),
            (What::Prompt, _) => format!("p{head}-{tail}"),
            (What::Output, _) => format!("o{head}-{tail}"),
        };
        self.planted.push(Planted {
            story: story.to_owned(),
            text: text.clone(),
            what,
        });
        text
    }

    fn secret(&mut self, story: &str) -> String {
        self.plant(What::Secret, story, Shape::Key)
    }

    fn opaque(&mut self, story: &str) -> String {
        self.plant(What::Secret, story, Shape::Opaque)
    }

    fn prompt(&mut self, story: &str) -> String {
        self.plant(What::Prompt, story, Shape::Key)
    }

    fn output(&mut self, story: &str) -> String {
        self.plant(What::Output, story, Shape::Key)
    }

    fn catch(&mut self, place: Place, story: &str, bytes: impl Into<Vec<u8>>) {
        self.caught.push(Caught {
            place,
            story: story.to_owned(),
            bytes: bytes.into(),
        });
    }

    fn debug(&mut self, story: &str, value: &dyn Debug) {
        self.catch(Place::Debug, story, format!("{value:?}\n{value:#?}"));
    }

    /// An error, and every level below it.
    fn error(&mut self, story: &str, error: &(dyn StdError + 'static)) {
        let mut text = String::new();
        let mut level: Option<&dyn StdError> = Some(error);
        while let Some(error) = level {
            writeln!(text, "{error}\n{error:#}\n{error:?}\n{error:#?}").unwrap();
            level = error.source();
        }
        self.catch(Place::Error, story, text);
    }

    fn text(&mut self, story: &str, error: &impl Display) {
        self.catch(Place::Error, story, error.to_string());
    }

    /// Every file below a folder.
    fn folder(&mut self, story: &str, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.folder(story, &path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                self.catch(Place::Journal, story, bytes);
            }
        }
    }

    /// Where a text was caught in any of its forms.
    fn found(&self, text: &str) -> Vec<(Place, String, String)> {
        let forms = forms(text);
        let mut found = Vec::new();
        for caught in &self.caught {
            let form = forms.iter().find(|(_, form)| holds(&caught.bytes, form));
            if let Some((form, _)) = form {
                found.push((caught.place, caught.story.clone(), form.clone()));
            }
        }
        found.sort();
        found.dedup();
        found
    }
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Key,
    Opaque,
}

/// Twenty letters and digits that no other number has.
fn unlike(number: usize) -> String {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut state = (number as u64)
        .wrapping_add(1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..20)
        .map(|_| {
            // xorshift64, and a multiplication (Marsaglia; Vigna).
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let drawn = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
            char::from(ALPHABET[usize::try_from(drawn).unwrap() % ALPHABET.len()])
        })
        .collect()
}

/// The one run that all tests look at.
async fn run() -> &'static Run {
    static RUN: OnceCell<Run> = OnceCell::const_new();
    RUN.get_or_init(|| async {
        ear::listen();
        let recorder = Recorder::install().unwrap();
        let mut run = Run::default();
        Box::pin(stories::play(&mut run)).await;
        Box::pin(sockets::play(&mut run)).await;
        mistakes::play(&mut run);
        Box::pin(command::play(&mut run)).await;
        run.catch(Place::Trace, "all", ear::text());
        run.catch(Place::Metric, "all", recorder.render());
        run
    })
    .await
}

#[tokio::test]
async fn a_secret_is_nowhere() {
    let run = run().await;
    let mut leaks = Vec::new();
    let secrets = run.planted.iter().filter(|p| p.what == What::Secret);
    for secret in secrets.clone() {
        let found = run.found(&secret.text);
        leaks.extend(found.iter().map(|(place, story, form)| {
            format!("{}: in {place:?} of {story}, {form}", secret.story)
        }));
    }
    assert!(
        secrets.count() > 25,
        "a run that plants nothing finds nothing"
    );
    assert!(leaks.is_empty(), "\n{}\n", leaks.join("\n"));
}

#[tokio::test]
async fn prompts_and_outputs_are_in_journals_and_nowhere_else() {
    let run = run().await;
    let mut wrong = Vec::new();
    for text in run.planted.iter().filter(|p| p.what != What::Secret) {
        let found = run.found(&text.text);
        if !found.iter().any(|(place, ..)| *place == Place::Journal) {
            wrong.push(format!("{}: {:?} is in no journal", text.story, text.what));
        }
        let elsewhere = found.iter().filter(|(place, ..)| {
            let is_the_answer = *place == Place::Stdout && text.what == What::Output;
            *place != Place::Journal && !is_the_answer
        });
        wrong.extend(elsewhere.map(|(place, story, form)| {
            format!(
                "{}: {:?} in {place:?} of {story}, {form}",
                text.story, text.what
            )
        }));
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// A search that looks at nothing finds nothing.
#[tokio::test]
async fn the_search_looks_where_things_are() {
    let run = run().await;
    for (place, least, told) in [
        (Place::Trace, 20_000, "attempt ended"),
        (Place::Metric, 5_000, "streamkeep_attempts_total"),
        (Place::Journal, 50_000, "attempt_ended"),
        (Place::Error, 2_000, "expected"),
        (Place::Debug, 2_000, "Client"),
        (Place::Stderr, 2_000, "error: "),
        (Place::Stdout, 500, "attempts"),
    ] {
        let its = run.caught.iter().filter(|caught| caught.place == place);
        let bytes: Vec<u8> = its
            .flat_map(|caught| caught.bytes.iter().copied())
            .collect();
        assert!(bytes.len() > least, "{place:?}: only {} bytes", bytes.len());
        assert!(
            holds(&bytes, told.as_bytes()),
            "{place:?} does not say {told:?}"
        );
    }
    let trace = ear::text();
    for target in ["streamkeep::client", "hyper_util", "reqwest"] {
        assert!(trace.contains(target), "nothing of {target} was heard");
    }
}
