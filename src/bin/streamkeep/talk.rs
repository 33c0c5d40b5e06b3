//! stderr: talk for people.

use crate::out::printable;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// stderr. A reader that went away is no reason to stop. Clones share what is
/// known of the screen.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    quiet: bool,
    is_terminal: bool,
    live: bool,
    screen: Arc<Screen>,
}

/// What stands in the line of the cursor, where stdout and stderr are one screen.
#[derive(Debug, Default)]
struct Screen {
    /// A live line, which may be overwritten.
    has_status: AtomicBool,
    /// Text of the answer, which may not.
    has_text: AtomicBool,
}

const ERASE_LINE: &str = "\r\x1b[K";

impl Talk {
    pub(crate) fn new(quiet: bool) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            quiet,
            is_terminal,
            live: is_terminal && !quiet && !dumb,
            screen: Arc::default(),
        }
    }

    /// Whether a line that rewrites itself makes sense now.
    pub(crate) fn is_live(&self) -> bool {
        self.live && !self.is_mid_line()
    }

    /// Whether a line of the answer is half written on the terminal.
    pub(crate) fn is_mid_line(&self) -> bool {
        self.screen.has_text.load(Ordering::Relaxed)
    }

    /// Says whether a line of the answer is half written on the terminal.
    pub(crate) fn set_mid_line(&self, yes: bool) {
        self.screen.has_text.store(yes, Ordering::Relaxed);
    }

    /// Says one line, unless told to be quiet.
    pub(crate) fn say(&self, line: impl fmt::Display) {
        if !self.quiet {
            self.must_say(line);
        }
    }

    /// Says one line, quiet or not: errors, and what to do about them.
    pub(crate) fn must_say(&self, line: impl fmt::Display) {
        self.clear();
        let lead = if self.is_terminal && self.screen.has_text.swap(false, Ordering::Relaxed) {
            "\n"
        } else {
            ""
        };
        let _ = writeln!(io::stderr(), "{lead}{}", printable(&line.to_string()));
    }

    /// Rewrites the live line.
    pub(crate) fn status(&self, line: impl fmt::Display) {
        if self.is_live() {
            self.screen.has_status.store(true, Ordering::Relaxed);
            let _ = write!(io::stderr(), "{ERASE_LINE}{}", printable(&line.to_string()));
            let _ = io::stderr().flush();
        }
    }

    /// Removes the live line, if there is one.
    pub(crate) fn clear(&self) {
        if self.screen.has_status.swap(false, Ordering::Relaxed) {
            let _ = write!(io::stderr(), "{ERASE_LINE}");
            let _ = io::stderr().flush();
        }
    }
}
