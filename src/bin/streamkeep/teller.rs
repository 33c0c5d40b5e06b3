//! Tells an answer as it comes: data to stdout, talk to stderr.

use crate::complaint;
use crate::context::Context;
use crate::control::Gone;
use crate::exit::Exit;
use crate::hints::{self, Hints};
use crate::line::Line;
use crate::out::Out;
use crate::progress::{Progress, label};
use crate::report::ABANDONED;
use crate::store::Lines;
use crate::talk::Talk;
use crate::verdict::Verdict;
use std::time::Duration;
use streamkeep::proto::journal::{Control, End};
use streamkeep::{Cursor, Key, Result};
use tokio::time::{MissedTickBehavior, interval};

/// How often the live line is rewritten: often enough for its tenths of a
/// second to look alive.
const REDRAW: Duration = Duration::from_millis(200);

/// Tells an answer as it comes.
#[derive(Debug)]
pub(crate) struct Teller {
    talk: Talk,
    json: bool,
    out: Out,
    progress: Progress,
    /// How the answer stands, as far as the records so far say.
    rests: Option<Verdict>,
    cursor: Option<Cursor>,
}

impl Teller {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            talk: context.talk.clone(),
            json: context.json,
            out: Out::new(&context.talk),
            progress: Progress::new(),
            rests: None,
            cursor: None,
        }
    }

    /// Behind which record the reader stands.
    pub(crate) fn cursor(&self) -> Option<Cursor> {
        self.cursor
    }

    /// How the answer stands, as far as the records so far say.
    pub(crate) fn rests(&self) -> Option<Verdict> {
        self.rests.clone()
    }

    /// Whether nobody reads stdout any more.
    pub(crate) fn is_unread(&self) -> bool {
        self.out.is_closed()
    }

    /// Tells lines to their end, or until nobody reads stdout any more. Then the
    /// rest can be told too: it goes nowhere.
    pub(crate) async fn tell(&mut self, lines: &mut Lines) -> Result<(), Gone> {
        let was_unread = self.is_unread();
        let mut redraw = interval(REDRAW);
        redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while was_unread || !self.is_unread() {
            tokio::select! {
                biased;
                line = lines.next() => match line? {
                    Some(line) => self.line(&line).await,
                    None => break,
                },
                _ = redraw.tick(), if self.talk.is_live() => {
                    self.talk.status(self.progress.status());
                }
            }
        }
        self.talk.clear();
        Ok(())
    }

    async fn line(&mut self, line: &Line) {
        self.cursor = line.cursor().or(self.cursor);
        match line.control() {
            Some(Control::AttemptStarted(_)) => self.rests = None,
            Some(control) => {
                self.rests = Verdict::of_control(&control).or_else(|| self.rests.take());
            }
            None => {}
        }
        let said = self.progress.see(line);
        for said in said {
            self.talk.say(said);
        }
        if self.json {
            self.out.json(line).await;
        } else if !line.text.is_empty() || !line.refusal.is_empty() {
            self.out.text(&line.text).await;
            self.out.text(&line.refusal).await;
        }
    }

    /// Tells how it ended, and what can be done about it.
    ///
    /// # Errors
    ///
    /// A storage kind when the answer is whole, but stdout did not take it.
    pub(crate) async fn end(mut self, verdict: &Verdict, key: &Key, hints: &Hints) -> Result<Exit> {
        if self.json {
            let cursor = self.cursor.map(|cursor| cursor.to_string());
            self.out.json(&verdict.line(key, cursor, hints)).await;
        } else {
            self.out.end_line().await;
        }
        self.talk.clear();
        let cost = self.progress.cost(&verdict.usage);
        let outcome = match &verdict.stop {
            Some(stop) => format!("{} ({})", verdict.outcome, stop.as_str()),
            None => verdict.outcome.clone(),
        };
        if verdict.is(End::Complete) || verdict.is(End::Claimed) {
            self.talk.say(with(&outcome, ": ", &cost));
            for warning in &verdict.warnings {
                self.talk
                    .say(format_args!("warning: {}", warning_text(warning)));
            }
            return self.out.finish().map(|()| verdict.exit());
        }
        if verdict.is(End::Failed) || verdict.outcome == "store_failed" {
            self.talk
                .must_say(complaint::failed(verdict, self.progress.attempts()));
            return Ok(verdict.exit());
        }
        let why = verdict
            .failure
            .as_ref()
            .filter(|_| !verdict.is(End::Cancelled));
        let why = why
            .map(|failure| format!(": {}: {}", label(failure), failure.message))
            .unwrap_or_default();
        self.talk.must_say(format_args!("{outcome}{why}"));
        let place = self
            .cursor
            .map(|cursor| format!(", up to cursor {cursor}"))
            .unwrap_or_default();
        let tokens = crate::format::count(self.progress.tokens(), "token");
        let kept = format!("  kept: about {tokens} of output{place}");
        self.talk.must_say(with(&kept, "; ", &cost));
        if verdict.is(End::Cancelled) {
            self.talk.must_say(format_args!(
                "  {}  # prints what was kept",
                hints.read("follow", key)
            ));
        }
        for (option, command) in verdict
            .options
            .iter()
            .zip(hints.options(&verdict.options, key))
        {
            self.talk
                .must_say(format_args!("  {command}  # {}", hints::meaning(*option)));
        }
        if verdict.outcome == ABANDONED {
            self.talk.must_say(
                "  or the same `streamkeep send` with this --key, which does what is right",
            );
        }
        Ok(verdict.exit())
    }
}

/// One part, and another one if it says something.
fn with(one: &str, between: &str, other: &str) -> String {
    if other.is_empty() {
        one.to_owned()
    } else {
        format!("{one}{between}{other}")
    }
}

fn warning_text(warning: &str) -> &str {
    match warning {
        "missing_stop_reason" => "the end marker came without a stop reason; the answer may be cut",
        "unknown_stop_reason" => "the answer stopped for a reason this version does not know",
        other => other,
    }
}
