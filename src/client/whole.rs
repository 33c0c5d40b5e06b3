//! The whole answer, or the truth.

use super::Handle;
use crate::error::{Error, ErrorKind, Result};
use crate::proto::journal::{End, RecoveryOption};
use crate::proto::model::Answer;
use crate::proto::operation::Outcome;
use serde::de::DeserializeOwned;
use std::fmt;

/// Why there is no whole answer, with what there is of it.
pub struct Unfinished {
    /// Why.
    pub error: Error,
    /// What arrived.
    pub partial: Answer,
    /// What can be done about it.
    pub options: Vec<RecoveryOption>,
}

impl Handle {
    /// Waits for the whole answer.
    ///
    /// # Errors
    ///
    /// [`Unfinished`] with the partial answer when it was cut, refused, filtered,
    /// cancelled, interrupted or failed; none of these is ever a success here.
    ///
    /// # Cancel safety
    ///
    /// Safe: the operation runs on its own.
    pub async fn complete(&self) -> Result<Answer, Box<Unfinished>> {
        let bare = |error| {
            Box::new(Unfinished {
                error,
                partial: Answer::default(),
                options: Vec::new(),
            })
        };
        let (recovered, told) = self.recovered().await.map_err(bare)?;
        let partial = recovered.answer().clone();
        let unfinished = |error, options| {
            Err(Box::new(Unfinished {
                error,
                partial: partial.clone(),
                options,
            }))
        };
        if let Some(told) = told {
            return unfinished(told, recovered.options());
        }
        let ended = match recovered.outcome() {
            Some(Outcome::Ended(ended)) => ended,
            Some(Outcome::Interrupted(interrupted)) => {
                return unfinished(interrupted.failure.to_error(), interrupted.options);
            }
            Some(Outcome::StoreFailed(failure)) => {
                return unfinished(failure.to_error(), Vec::new());
            }
            None => {
                let error = Error::new(ErrorKind::Truncated, "the answer has no end");
                return unfinished(error, Vec::new());
            }
        };
        let (kind, what) = match ended.end {
            End::Complete | End::Claimed => return Ok(partial),
            End::Truncated => (ErrorKind::Incomplete, "a limit cut the answer"),
            End::Refused => (ErrorKind::ContentPolicy, "the model refused"),
            End::Filtered => (
                ErrorKind::ContentPolicy,
                "a content filter stopped the answer",
            ),
            End::Failed | End::Cancelled => {
                let error = ended.failure.map_or_else(
                    || Error::new(ErrorKind::Internal, "the answer failed without a reason"),
                    |failure| failure.to_error(),
                );
                return unfinished(error, vec![RecoveryOption::Regenerate]);
            }
        };
        unfinished(Error::new(kind, what), vec![RecoveryOption::Regenerate])
    }

    /// Waits for the whole answer and reads its text as one JSON document.
    ///
    /// The text is taken as it is: no search for something that looks like JSON
    /// inside it.
    ///
    /// # Errors
    ///
    /// As [`Handle::complete`]; [`NotJson`](ErrorKind::NotJson) when the text is
    /// not one document of this type. The document's text is in the partial
    /// answer, not in the message.
    pub async fn json<T: DeserializeOwned>(&self) -> Result<T, Box<Unfinished>> {
        let answer = self.complete().await?;
        serde_json::from_str(answer.text().trim()).map_err(|error| {
            let place = format!(
                "expected one JSON document of the type asked for, but line {} column {} does not fit",
                error.line(),
                error.column()
            );
            Box::new(Unfinished {
                error: Error::new(ErrorKind::NotJson, place),
                partial: answer,
                options: vec![RecoveryOption::Regenerate],
            })
        })
    }
}

impl fmt::Debug for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The partial answer is the model's text: not for logs.
        f.debug_struct("Unfinished")
            .field("error", &self.error)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Unfinished {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}

impl From<Box<Unfinished>> for Error {
    fn from(unfinished: Box<Unfinished>) -> Self {
        unfinished.error
    }
}
