//! What happens to an answer, told on stderr as its records come.

use crate::format;
use crate::line::Line;
use std::fmt;
use std::time::Duration;
use streamkeep::proto::journal::{AttemptEnded, AttemptKind, AttemptStarted, Control, FailureNote};
use streamkeep::proto::model::{Phase, Usage};
use tokio::time::Instant;

/// The story of one answer so far.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    host: String,
    attempt: Option<Attempt>,
    attempts: u32,
    chars: u64,
    tools: Vec<String>,
    /// Milliseconds from the first record to the first output.
    first_output_ms: Option<u64>,
    first_at_ms: Option<u64>,
    last_at_ms: u64,
    /// What the attempts cost together, as far as the provider said.
    usage: Usage,
    waiting: Waiting,
}

#[derive(Debug)]
struct Attempt {
    number: u32,
    at_ms: u64,
    has_output: bool,
}

/// What the live line says.
#[derive(Debug)]
enum Waiting {
    Nothing,
    /// For the first output of an attempt.
    Output(Instant),
    /// For the time of the next attempt.
    Pause {
        what: String,
        since: Instant,
        time: Duration,
    },
    /// For more.
    More,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            host: String::new(),
            attempt: None,
            attempts: 0,
            chars: 0,
            tools: Vec::new(),
            first_output_ms: None,
            first_at_ms: None,
            last_at_ms: 0,
            usage: Usage::default(),
            waiting: Waiting::Nothing,
        }
    }

    /// Takes the next record; returns what there is to say about it.
    pub(crate) fn see(&mut self, line: &Line) -> Vec<String> {
        let first_at = *self.first_at_ms.get_or_insert(line.at_ms);
        self.last_at_ms = line.at_ms;
        self.chars = self.chars.saturating_add(line.chars);
        let mut said = Vec::new();
        if line.output {
            self.waiting = Waiting::More;
            self.first_output_ms
                .get_or_insert_with(|| line.at_ms.saturating_sub(first_at));
            if let Some(attempt) = self.attempt.as_mut().filter(|attempt| !attempt.has_output) {
                attempt.has_output = true;
                let after = format::millis(line.at_ms.saturating_sub(attempt.at_ms));
                said.push(format!(
                    "attempt {}: first output after {after}",
                    attempt.number
                ));
            }
        }
        if let Some(tool) = &line.tool {
            self.tools.push(tool.clone());
        }
        match line.control() {
            Some(Control::Opened(opened)) => host(&opened.url).clone_into(&mut self.host),
            Some(Control::AttemptStarted(started)) => said.push(self.started(&started, line.at_ms)),
            Some(Control::AttemptEnded(ended)) => said.extend(self.ended(&ended)),
            Some(Control::Anchored(anchored)) if anchored.resumable => {
                said.push(format!(
                    "the provider can resume this answer ({})",
                    anchored.response_id
                ));
            }
            Some(Control::Spliced(spliced)) => {
                said.push(format!(
                    "attempt {} goes on with the answer ({})",
                    spliced.attempt,
                    spliced.kind.as_str()
                ));
            }
            _ => {}
        }
        said
    }

    fn started(&mut self, started: &AttemptStarted, at_ms: u64) -> String {
        self.attempts = self.attempts.saturating_add(1);
        self.attempt = Some(Attempt {
            number: started.attempt,
            at_ms,
            has_output: false,
        });
        self.waiting = Waiting::Output(Instant::now());
        let to = if self.host.is_empty() {
            String::new()
        } else {
            format!(" to {}", self.host)
        };
        let what = match (started.kind, started.after) {
            (AttemptKind::Resume, Some(after)) => format!(" after the provider's event {after}"),
            _ => String::new(),
        };
        format!(
            "attempt {} ({}){to}{what}",
            started.attempt,
            started.kind.as_str()
        )
    }

    fn ended(&mut self, ended: &AttemptEnded) -> Option<String> {
        self.usage.add(&ended.usage);
        self.waiting = Waiting::Nothing;
        let next = decision(ended);
        if ended.delay_ms > 0 {
            self.waiting = Waiting::Pause {
                what: ended.decision.clone(),
                since: Instant::now(),
                time: Duration::from_millis(ended.delay_ms),
            };
        }
        match &ended.failure {
            Some(failure) => Some(format!(
                "attempt {} {}: {}; {next}",
                ended.attempt,
                how_far(ended.phase),
                label(failure)
            )),
            None if ended.decision == AttemptKind::Poll.as_str() => Some(format!(
                "attempt {}: the response is not done yet; {next}",
                ended.attempt
            )),
            None => None,
        }
    }

    /// The live line.
    pub(crate) fn status(&self) -> Status<'_> {
        Status(self)
    }

    /// Upstream exchanges seen.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Tokens of output seen, estimated at four characters each.
    pub(crate) fn tokens(&self) -> u64 {
        self.chars.div_ceil(4)
    }

    /// What was seen of it cost: attempts, times and tokens, for the end line.
    /// `total` is the usage of the answer as its end tells it, for a reader that
    /// saw no attempt.
    pub(crate) fn cost(&self, total: &Usage) -> String {
        let mut parts = Vec::new();
        if self.attempts > 0 {
            parts.push(format::count(u64::from(self.attempts), "attempt"));
            if let Some(first) = self.first_output_ms {
                parts.push(format!("first output after {}", format::millis(first)));
            }
            let began = self.first_at_ms.unwrap_or(self.last_at_ms);
            let took = self.last_at_ms.saturating_sub(began);
            parts.push(format!("{} in all", format::millis(took)));
        }
        let usage = if self.usage.is_empty() {
            total
        } else {
            &self.usage
        };
        match format::usage(usage) {
            Some(usage) => parts.push(format!("tokens: {usage}")),
            None if self.chars > 0 => parts.push(format!(
                "about {} of output",
                format::count(self.tokens(), "token")
            )),
            None => {}
        }
        if !self.tools.is_empty() {
            parts.push(format!(
                "tool calls: {} (--json shows them)",
                self.tools.join(", ")
            ));
        }
        parts.join("; ")
    }
}

/// The live line of a [`Progress`].
#[derive(Debug)]
pub(crate) struct Status<'a>(&'a Progress);

impl fmt::Display for Status<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = self.0;
        match &progress.waiting {
            Waiting::Nothing => write!(f, "{}", format::time(progress.began.elapsed())),
            Waiting::Output(since) => {
                let number = progress
                    .attempt
                    .as_ref()
                    .map_or(0, |attempt| attempt.number);
                write!(
                    f,
                    "attempt {number}: waiting for output, {}",
                    format::time(since.elapsed())
                )
            }
            Waiting::Pause { what, since, time } => {
                write!(
                    f,
                    "{what} in {}",
                    format::time(time.saturating_sub(since.elapsed()))
                )
            }
            Waiting::More => write!(
                f,
                "about {}, {}",
                format::count(progress.tokens(), "token"),
                format::time(progress.began.elapsed())
            ),
        }
    }
}

/// What a failure is, in a few words: `overloaded (529)`.
pub(crate) fn label(failure: &FailureNote) -> String {
    let detail = failure
        .status
        .map(|status| status.to_string())
        .or_else(|| failure.provider_type.clone())
        .or_else(|| failure.provider_code.clone());
    match detail {
        Some(detail) => format!("{} ({detail})", failure.kind),
        None => failure.kind.clone(),
    }
}

/// How far an attempt had come when it failed.
fn how_far(phase: Phase) -> &'static str {
    match phase {
        Phase::PreSend => "could not be sent",
        Phase::PreStream => "failed before output",
        Phase::MidStream => "failed after output",
    }
}

/// What follows an attempt: `retry in 1.2 s`.
pub(crate) fn decision(ended: &AttemptEnded) -> String {
    match ended.decision.as_str() {
        "finish" => "the answer is whole".to_owned(),
        "stop" => "no further attempt".to_owned(),
        "interrupt" => "what arrived is kept".to_owned(),
        next if ended.delay_ms == 0 => format!("{next} at once"),
        next => format!("{next} in {}", format::millis(ended.delay_ms)),
    }
}

/// The host of a URL, with its port.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(
        failure: Option<FailureNote>,
        phase: Phase,
        decision: &str,
        delay_ms: u64,
    ) -> AttemptEnded {
        AttemptEnded {
            failure,
            delay_ms,
            took_ms: 40,
            ..AttemptEnded::new(1, phase, decision)
        }
    }

    fn overloaded() -> FailureNote {
        FailureNote {
            kind: "overloaded".to_owned(),
            message: "provider answered with status 529".to_owned(),
            status: Some(529),
            provider_type: Some("overloaded_error".to_owned()),
            provider_code: None,
            retry_after_ms: None,
            http_equivalent: None,
        }
    }

    #[test]
    fn a_failed_attempt_is_told_with_its_reason_and_what_follows() {
        let mut progress = Progress::new();
        let tell = |progress: &mut Progress, ended| progress.ended(&ended);
        assert_eq!(
            tell(
                &mut progress,
                ended(Some(overloaded()), Phase::PreStream, "retry", 1234)
            )
            .unwrap(),
            "attempt 1 failed before output: overloaded (529); retry in 1.2 s"
        );
        assert_eq!(
            tell(
                &mut progress,
                ended(Some(overloaded()), Phase::MidStream, "interrupt", 0)
            )
            .unwrap(),
            "attempt 1 failed after output: overloaded (529); what arrived is kept"
        );
        assert_eq!(
            tell(&mut progress, ended(None, Phase::PreStream, "poll", 1000)).unwrap(),
            "attempt 1: the response is not done yet; poll in 1.0 s"
        );
        assert_eq!(
            tell(&mut progress, ended(None, Phase::MidStream, "finish", 0)),
            None
        );
    }

    #[test]
    fn the_host_is_all_that_is_told_of_a_url() {
        assert_eq!(
            host("https://api.example:8443/v1/x?version=1"),
            "api.example:8443"
        );
        assert_eq!(host(""), "");
    }
}
