//! What is said on the control socket: lines of JSON.
//!
//! The server greets; the client asks once; the server answers with any number
//! of lines, the last of which is `done` or `error`, and closes.

use crate::line::Line;
use crate::report::{Entry, Report, Wanted};
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};
use streamkeep::{Error, ErrorKind, Key};

/// The version of this protocol. Another one is not spoken to.
pub(super) const VERSION: u32 = 1;

/// The socket's name in the store's folder.
pub(super) const SOCKET: &str = "control.sock";

/// The longest request line. A key and a cursor are all it holds.
pub(super) const MAX_REQUEST: usize = 4 * 1024;

/// The longest line of an answer. A record holds at most one event of 16 MiB,
/// and JSON writes a byte with six at worst.
pub(super) const MAX_ANSWER: usize = 128 << 20;

/// The greeting.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) protocol: u32,
    pub(super) pid: u32,
    /// The command that runs there.
    pub(super) doing: String,
    /// The key it runs for, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<Key>,
}

/// What a client asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Request {
    List,
    Show(Wanted),
    Follow {
        key: Key,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
        #[serde(default)]
        prompt: bool,
    },
    Cancel {
        key: Key,
    },
}

/// One line of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Hello(Hello),
    Entry(Entry),
    Report(Box<Report>),
    Record(Box<Line>),
    Outcome(Box<Verdict>),
    Error(Refusal),
    Done {},
}

/// An error as it crosses the socket.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Refusal {
    kind: String,
    message: String,
}

impl Refusal {
    pub(super) fn new(error: &Error) -> Self {
        // The levels below would be lost otherwise.
        Self {
            kind: error.kind().code().to_owned(),
            message: crate::complaint::chain(error),
        }
    }

    pub(super) fn into_error(self) -> Error {
        let kind = ErrorKind::from_code(&self.kind).unwrap_or(ErrorKind::Internal);
        Error::new(kind, self.message)
    }
}
