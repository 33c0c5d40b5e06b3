//! Exit codes, and what to do about each kind of error: one table.

use std::fmt::Write;
use std::process::ExitCode;
use streamkeep::ErrorKind;
use streamkeep::proto::journal::End;

/// How the process ends. The numbers are part of the public contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The answer is whole, or the command did what it was asked.
    Complete,
    /// The command line, the request file or the key is wrong.
    Usage,
    /// The provider turned the request down, and will again.
    Caller,
    /// The network failed before any output.
    Network,
    /// The provider failed before any output.
    Provider,
    /// The answer stopped halfway; what arrived is kept.
    Interrupted,
    /// The answer ended, but is cut, refused or filtered.
    Incomplete,
    /// The store, or stdout, could not be used.
    Storage,
    /// A defect of this program.
    Internal,
    /// Somebody stopped it.
    Cancelled,
}

impl Exit {
    pub(crate) const ALL: &'static [Self] = &[
        Self::Complete,
        Self::Usage,
        Self::Caller,
        Self::Network,
        Self::Provider,
        Self::Interrupted,
        Self::Incomplete,
        Self::Storage,
        Self::Internal,
        Self::Cancelled,
    ];

    /// The number the shell sees. 70 is `EX_SOFTWARE` of sysexits, 130 is what
    /// shells report for a process that SIGINT ended.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Usage => 2,
            Self::Caller => 3,
            Self::Network => 4,
            Self::Provider => 5,
            Self::Interrupted => 6,
            Self::Incomplete => 7,
            Self::Storage => 8,
            Self::Internal => 70,
            Self::Cancelled => 130,
        }
    }

    /// What it means, for `--help` and the docs.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Complete => "complete, or the command did what it was asked",
            Self::Usage => "usage: the command line, the request, the key or the cursor is wrong",
            Self::Caller => {
                "caller: rejected, auth, quota, context, policy, key conflict, deadline"
            }
            Self::Network => "network: it failed before any output",
            Self::Provider => "provider: it failed before any output",
            Self::Interrupted => "interrupted: the partial answer is kept, with what can be done",
            Self::Incomplete => "incomplete: cut by a limit, refused or filtered",
            Self::Storage => {
                "storage: the store is in use or failed, or stdout could not be written"
            }
            Self::Internal => "internal: a defect of streamkeep, please report it",
            Self::Cancelled => "cancelled: Ctrl-C, SIGTERM or `streamkeep cancel`",
        }
    }

    /// For an error of this kind.
    pub(crate) fn of_kind(kind: ErrorKind) -> Self {
        row(kind).map_or(Self::Internal, |row| row.1)
    }

    /// For the kind with this code, as a journal tells it.
    pub(crate) fn of_code(code: &str) -> Self {
        ErrorKind::from_code(code).map_or(Self::Internal, Self::of_kind)
    }

    /// For an answer that ended this way; `failure` is the code of its failure.
    pub(crate) fn of_end(end: End, failure: Option<&str>) -> Self {
        match end {
            End::Complete | End::Claimed => Self::Complete,
            End::Truncated | End::Refused | End::Filtered => Self::Incomplete,
            End::Cancelled => Self::Cancelled,
            End::Failed => failure.map_or(Self::Internal, Self::of_code),
            // A later version's word for an end is not one to call a success.
            _ => Self::Internal,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The exit codes as `--help` lists them.
pub(crate) fn help() -> String {
    let mut text = String::from("Exit codes:\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "  {:>3}  {}", exit.code(), exit.meaning());
    }
    text.push_str(
        "\nNothing secret is ever a flag: name an environment variable with --credential-env.",
    );
    text
}

/// What to do about an error of this kind.
pub(crate) fn advice(kind: ErrorKind) -> &'static str {
    row(kind).map_or("please report this", |row| row.2)
}

fn row(kind: ErrorKind) -> Option<&'static (ErrorKind, Exit, &'static str)> {
    ROWS.iter().find(|row| row.0 == kind)
}

const RETRY_LATER: &str = "nothing was shown, so the same command with the same --key tries again";
const CHECK_NETWORK: &str =
    "check the URL and the network, then run the same command with the same --key";

/// Every kind: how the process ends, and what to do about it.
const ROWS: &[(ErrorKind, Exit, &str)] = &[
    (
        ErrorKind::Config,
        Exit::Usage,
        "correct the setting; `streamkeep help` lists all of them",
    ),
    (
        ErrorKind::InvalidRequest,
        Exit::Usage,
        "correct the request or the flag; nothing was sent",
    ),
    (
        ErrorKind::InvalidCursor,
        Exit::Usage,
        "take the cursor from `follow --json` or from the end line of a run",
    ),
    (
        ErrorKind::CursorAhead,
        Exit::Usage,
        "leave --after out to read from the start",
    ),
    (
        ErrorKind::OldGeneration,
        Exit::Usage,
        "leave --after out to read the current answer",
    ),
    (
        ErrorKind::NotFound,
        Exit::Usage,
        "`streamkeep list` shows the keys in this store; --store names another",
    ),
    (
        ErrorKind::Expired,
        Exit::Usage,
        "the journal is gone; send the request again",
    ),
    (
        ErrorKind::KeyConflict,
        Exit::Caller,
        "use another --key, or send exactly the request this key was first used with",
    ),
    (
        ErrorKind::Busy,
        Exit::Storage,
        "wait for it, stop it with `streamkeep cancel KEY`, or give --store another folder",
    ),
    (
        ErrorKind::NotPossible,
        Exit::Usage,
        "`streamkeep show KEY` lists what can be done with this answer",
    ),
    (
        ErrorKind::Cancelled,
        Exit::Cancelled,
        "`streamkeep follow KEY` prints what was kept",
    ),
    (ErrorKind::Dns, Exit::Network, CHECK_NETWORK),
    (ErrorKind::Connect, Exit::Network, CHECK_NETWORK),
    (
        ErrorKind::Tls,
        Exit::Network,
        "check the URL; the certificate must chain to a public root",
    ),
    (ErrorKind::ConnectionClosed, Exit::Network, RETRY_LATER),
    (ErrorKind::Reset, Exit::Network, RETRY_LATER),
    (ErrorKind::BodyFraming, Exit::Network, RETRY_LATER),
    (
        ErrorKind::Decode,
        Exit::Network,
        "a proxy compresses what should not be; ask for `identity` there",
    ),
    (
        ErrorKind::Truncated,
        Exit::Network,
        "run `streamkeep show KEY` to see how far it came",
    ),
    (ErrorKind::ConnectTimeout, Exit::Network, CHECK_NETWORK),
    (
        ErrorKind::FirstTokenTimeout,
        Exit::Provider,
        "for a model that thinks for minutes use --reasoning, or a longer --first-token",
    ),
    (
        ErrorKind::IdleTimeout,
        Exit::Network,
        "use a longer --idle if the provider sends no keep-alives",
    ),
    (
        ErrorKind::ProgressTimeout,
        Exit::Provider,
        "for a model that thinks for minutes use --reasoning, or a longer --progress",
    ),
    (
        ErrorKind::DeadlineExceeded,
        Exit::Caller,
        "use a longer --deadline",
    ),
    (
        ErrorKind::Auth,
        Exit::Caller,
        "check the key in the variable that --credential-env names",
    ),
    (
        ErrorKind::RateLimited,
        Exit::Provider,
        "wait, or use --retry batch, which waits longer",
    ),
    (
        ErrorKind::QuotaExhausted,
        Exit::Caller,
        "raise the limit at the provider; waiting does not help",
    ),
    (
        ErrorKind::Overloaded,
        Exit::Provider,
        "wait, or use --retry batch, which waits longer",
    ),
    (ErrorKind::ServerError, Exit::Provider, RETRY_LATER),
    (ErrorKind::UpstreamTimeout, Exit::Provider, RETRY_LATER),
    (
        ErrorKind::Rejected,
        Exit::Caller,
        "correct the request as the provider says",
    ),
    (
        ErrorKind::ContextLength,
        Exit::Caller,
        "shorten the prompt, or use a model with a larger context",
    ),
    (
        ErrorKind::ContentPolicy,
        Exit::Caller,
        "change the prompt; it is not sent elsewhere",
    ),
    (
        ErrorKind::Protocol,
        Exit::Provider,
        "check that --dialect fits the URL",
    ),
    (
        ErrorKind::EventTooLarge,
        Exit::Provider,
        "the provider sent one event over 16 MiB; ask for less at once",
    ),
    (
        ErrorKind::JournalFull,
        Exit::Storage,
        "the answer is over 64 MiB; ask for less at once",
    ),
    (
        ErrorKind::EmptyResponse,
        Exit::Provider,
        "check that --dialect and the URL fit; then try again",
    ),
    (
        ErrorKind::ContinuationMismatch,
        Exit::Provider,
        "`streamkeep regenerate KEY` asks for a new answer",
    ),
    (
        ErrorKind::Incomplete,
        Exit::Incomplete,
        "raise the token limit in the request",
    ),
    (
        ErrorKind::NotJson,
        Exit::Incomplete,
        "`streamkeep regenerate KEY` asks for a new answer",
    ),
    (
        ErrorKind::BudgetExhausted,
        Exit::Provider,
        "the retry budget is spent; wait before trying again",
    ),
    (
        ErrorKind::CircuitOpen,
        Exit::Provider,
        "the endpoint fails too often to be asked now; wait before trying again",
    ),
    (
        ErrorKind::Saturated,
        Exit::Provider,
        "too many requests wait for the endpoint; send less at a time",
    ),
    (ErrorKind::ShuttingDown, Exit::Cancelled, "start it again"),
    (
        ErrorKind::StoreUnavailable,
        Exit::Storage,
        "check the store's folder, or give --store another one",
    ),
    (
        ErrorKind::StaleLease,
        Exit::Storage,
        "another writer took this answer over; `streamkeep show KEY` tells how it stands",
    ),
    (
        ErrorKind::WrongSequence,
        Exit::Internal,
        "please report this",
    ),
    (
        ErrorKind::StoreCorrupt,
        Exit::Storage,
        "keep a copy of the store's folder, and give --store another one",
    ),
    (
        ErrorKind::StoreFull,
        Exit::Storage,
        "make room on the disk, or run `streamkeep gc`",
    ),
    (ErrorKind::Internal, Exit::Internal, "please report this"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_kind_has_one_row_with_advice() {
        for kind in ErrorKind::ALL {
            let rows: Vec<_> = ROWS.iter().filter(|row| row.0 == *kind).collect();
            assert_eq!(rows.len(), 1, "{kind}");
            assert!(!rows[0].2.is_empty(), "{kind}");
            assert_ne!(rows[0].1, Exit::Complete, "{kind} is no success");
        }
        assert_eq!(ROWS.len(), ErrorKind::ALL.len());
    }

    #[test]
    fn every_end_has_its_exit_code() {
        let mapped = [
            (End::Complete, None, 0),
            (End::Claimed, None, 0),
            (End::Truncated, None, 7),
            (End::Refused, None, 7),
            (End::Filtered, None, 7),
            (End::Cancelled, Some("cancelled"), 130),
            (End::Failed, Some("overloaded"), 5),
            (End::Failed, Some("connect"), 4),
            (End::Failed, Some("auth"), 3),
            (End::Failed, Some("store_full"), 8),
            (End::Failed, Some("a_later_kind"), 70),
            (End::Failed, None, 70),
        ];
        for (end, failure, code) in mapped {
            assert_eq!(
                Exit::of_end(end, failure).code(),
                code,
                "{end:?} {failure:?}"
            );
        }
    }

    #[test]
    fn the_help_and_the_docs_list_every_exit_code() {
        let docs = include_str!("../../../docs/cli.md");
        for exit in Exit::ALL {
            assert!(help().contains(exit.meaning()));
            let row = format!("| {} | {} |", exit.code(), exit.meaning());
            assert!(docs.contains(&row), "docs/cli.md lacks: {row}");
        }
    }
}
