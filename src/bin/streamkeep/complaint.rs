//! Errors for people: one block, nothing lost, no debug output.

use crate::exit;
use crate::progress::label;
use crate::verdict::Verdict;
use serde::Serialize;
use std::error::Error as _;
use std::fmt::Write;
use streamkeep::proto::journal::FailureNote;
use streamkeep::{Error, ErrorKind};

/// The block for an error: what happened, what caused it, what to do.
pub(crate) fn block(error: &Error) -> String {
    let mut block = format!("error: {error}");
    for cause in causes(error) {
        let _ = write!(block, "\n  cause: {cause}");
    }
    let _ = write!(block, "\n  to do: {}", exit::advice(error.kind()));
    block
}

/// The block for an answer that failed before any output.
pub(crate) fn failed(verdict: &Verdict, attempts: u32) -> String {
    let Some(failure) = &verdict.failure else {
        return "error: expected an answer, but it failed without a reason\n  to do: please report this".to_owned();
    };
    let after = crate::format::count(u64::from(attempts), "attempt");
    let mut block = format!(
        "error: expected an answer, but found {} after {after}",
        label(failure)
    );
    let _ = write!(block, "\n  cause: {}", failure.message);
    if let Some(wait) = failure.retry_after_ms {
        let _ = write!(
            block,
            "\n  the provider asks to wait {}",
            crate::format::millis(wait)
        );
    }
    let _ = write!(block, "\n  to do: {}", advice(failure));
    block
}

/// What to do about a failure that a journal tells of.
pub(crate) fn advice(failure: &FailureNote) -> &'static str {
    exit::advice(ErrorKind::from_code(&failure.kind).unwrap_or(ErrorKind::Internal))
}

/// The message with those of the levels below, in one line.
pub(crate) fn chain(error: &Error) -> String {
    let mut line = error.message().to_owned();
    for cause in causes(error) {
        let _ = write!(line, ": {cause}");
    }
    line
}

/// The levels below, without those that only repeat the one above.
fn causes(error: &Error) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    let mut above = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        if !above.contains(&text) {
            causes.push(text.clone());
            above = text;
        }
        source = error.source();
    }
    causes
}

/// An error as a line of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    error: Told,
}

#[derive(Debug, Serialize)]
struct Told {
    kind: &'static str,
    class: &'static str,
    message: String,
    to_do: &'static str,
    exit_code: u8,
}

impl Line {
    pub(crate) fn new(error: &Error) -> Self {
        let kind = error.kind();
        Self {
            error: Told {
                kind: kind.code(),
                class: crate::report::class(kind.code()),
                message: chain(error),
                to_do: exit::advice(kind),
                exit_code: exit::Exit::of_kind(kind).code(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_told_once() {
        let error = Error::new(
            ErrorKind::StoreUnavailable,
            "expected a store, but found none",
        )
        .with_source(
            Error::new(ErrorKind::Internal, "the middle")
                .with_source(std::io::Error::other("the bottom")),
        );
        assert_eq!(
            block(&error),
            "error: store_unavailable: expected a store, but found none\n  cause: internal: the middle\n  \
             cause: the bottom\n  to do: check the store's folder, or give --store another one"
        );
        assert_eq!(
            chain(&error),
            "expected a store, but found none: internal: the middle: the bottom"
        );
    }
}
