//! How an answer stands at the end of a run, for people and for programs.

use crate::exit::Exit;
use crate::hints::Hints;
use crate::report::ABANDONED;
use serde::{Deserialize, Serialize};
use streamkeep::proto::journal::{Control, End, Ended, FailureNote, Interrupted, RecoveryOption};
use streamkeep::proto::model::{StopReason, Usage};
use streamkeep::proto::operation::Outcome;
use streamkeep::{ErrorKind, Key};

/// How an answer stands at the end of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// `complete`, `interrupted`, `store_failed`, ...
    pub(crate) outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<StopReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<FailureNote>,
    /// What can be done, when it was interrupted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) options: Vec<RecoveryOption>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    #[serde(default)]
    pub(crate) usage: Usage,
    pub(crate) exit_code: u8,
}

impl Verdict {
    /// From what a run of this process came to.
    pub(crate) fn of_outcome(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Ended(ended) => Self::of_ended(ended),
            Outcome::Interrupted(interrupted) => Self::of_interrupted(interrupted),
            Outcome::StoreFailed(failure) => Self {
                exit_code: Exit::of_code(&failure.kind).code(),
                failure: Some(failure.clone()),
                ..Self::bare("store_failed")
            },
            _ => Self {
                exit_code: Exit::Internal.code(),
                ..Self::bare("unknown")
            },
        }
    }

    /// From the record at which the journal rests, if it rests.
    pub(crate) fn of_control(control: &Control) -> Option<Self> {
        match control {
            Control::Ended(ended) => Some(Self::of_ended(ended)),
            Control::Interrupted(interrupted) => Some(Self::of_interrupted(interrupted)),
            _ => None,
        }
    }

    pub(crate) fn of_ended(ended: &Ended) -> Self {
        let failure = ended.failure.as_ref().map(|failure| failure.kind.as_str());
        let options = match ended.end {
            End::Complete | End::Claimed => Vec::new(),
            _ => vec![RecoveryOption::Regenerate],
        };
        Self {
            exit_code: Exit::of_end(ended.end, failure).code(),
            stop: ended.stop.clone(),
            failure: ended.failure.clone(),
            options,
            warnings: ended.warnings.clone(),
            usage: ended.usage,
            ..Self::bare(ended.end.as_str())
        }
    }

    pub(crate) fn of_interrupted(interrupted: &Interrupted) -> Self {
        Self {
            exit_code: Exit::Interrupted.code(),
            failure: Some(interrupted.failure.clone()),
            options: interrupted.options.clone(),
            ..Self::bare("interrupted")
        }
    }

    /// For a journal whose writer died: it rests, without a record of it.
    pub(crate) fn abandoned(options: Vec<RecoveryOption>) -> Self {
        Self {
            failure: Some(FailureNote {
                kind: ErrorKind::Truncated.code().to_owned(),
                message: "the process that wrote this answer ended before the answer did"
                    .to_owned(),
                status: None,
                http_equivalent: None,
                provider_type: None,
                provider_code: None,
                retry_after_ms: None,
            }),
            options,
            exit_code: Exit::Interrupted.code(),
            ..Self::bare(ABANDONED)
        }
    }

    fn bare(outcome: &str) -> Self {
        Self {
            outcome: outcome.to_owned(),
            stop: None,
            failure: None,
            options: Vec::new(),
            warnings: Vec::new(),
            usage: Usage::default(),
            exit_code: 0,
        }
    }

    /// How the process ends.
    pub(crate) fn exit(&self) -> Exit {
        Exit::ALL
            .iter()
            .copied()
            .find(|exit| exit.code() == self.exit_code)
            .unwrap_or(Exit::Internal)
    }

    /// Whether it has the outcome of this end.
    pub(crate) fn is(&self, end: End) -> bool {
        self.outcome == end.as_str()
    }

    /// The last line of `--json`.
    pub(crate) fn line<'a>(
        &'a self,
        key: &'a Key,
        cursor: Option<String>,
        hints: &Hints,
    ) -> Last<'a> {
        Last {
            verdict: self,
            key,
            cursor,
            commands: hints.options(&self.options, key),
        }
    }
}

/// The last line of `--json`: the verdict, and the commands to type next.
#[derive(Debug, Serialize)]
pub(crate) struct Last<'a> {
    #[serde(flatten)]
    verdict: &'a Verdict,
    key: &'a Key,
    /// Where the reader stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
}
