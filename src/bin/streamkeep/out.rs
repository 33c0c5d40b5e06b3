//! stdout: data, and nothing else.

use crate::talk::Talk;
use serde::Serialize;
use std::io::{self, ErrorKind, IsTerminal};
use streamkeep::{Error, Result};
use tokio::io::AsyncWriteExt;

/// stdout. Each piece is flushed, and a reader that went away is no error: what
/// is being written stands in the journal too.
#[derive(Debug)]
pub(crate) struct Out {
    stdout: tokio::io::Stdout,
    is_terminal: bool,
    state: State,
    talk: Talk,
}

#[derive(Debug)]
enum State {
    Open,
    /// The reader went away, as `head` does.
    Closed,
    Failed(io::Error),
}

impl Out {
    pub(crate) fn new(talk: &Talk) -> Self {
        Self {
            stdout: tokio::io::stdout(),
            is_terminal: io::stdout().is_terminal(),
            state: State::Open,
            talk: talk.clone(),
        }
    }

    /// Whether the reader went away.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Writes a piece. On a terminal, control characters are shown instead of
    /// obeyed: a model's text must not move the cursor or set the clipboard.
    pub(crate) async fn text(&mut self, text: &str) {
        if self.is_terminal && text.chars().any(is_unsafe) {
            self.write(&printable(text)).await;
        } else {
            self.write(text).await;
        }
    }

    /// Writes one value as one line of JSON.
    pub(crate) async fn json(&mut self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(mut line) => {
                line.push('\n');
                self.write(&line).await;
            }
            Err(error) => self.state = State::Failed(error.into()),
        }
    }

    /// Ends a half-written line on a terminal. Elsewhere the text stays exact.
    pub(crate) async fn end_line(&mut self) {
        if self.talk.is_mid_line() {
            self.write("\n").await;
        }
    }

    /// Whether everything was written, as far as there was somebody to read it.
    ///
    /// # Errors
    ///
    /// A storage kind when stdout failed, such as a file on a full disk.
    pub(crate) fn finish(self) -> Result<()> {
        match self.state {
            State::Open | State::Closed => Ok(()),
            State::Failed(error) => Err(Error::new(
                streamkeep::ErrorKind::StoreFull,
                "expected to write the answer to stdout, but that failed; the store has all of it",
            )
            .with_source(error)),
        }
    }

    async fn write(&mut self, text: &str) {
        if text.is_empty() || !matches!(self.state, State::Open) {
            return;
        }
        self.talk.clear();
        let written = match self.stdout.write_all(text.as_bytes()).await {
            Ok(()) => self.stdout.flush().await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) if self.is_terminal => self.talk.set_mid_line(!text.ends_with('\n')),
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.state = State::Closed,
            Err(error) => self.state = State::Failed(error),
        }
    }
}

/// The text with control characters written out.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
}

fn is_unsafe(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_a_terminal_is_written_out() {
        assert_eq!(
            printable("a\u{1b}[2Jb\r\n\tc\u{9b}"),
            "a\\u{1b}[2Jb\\u{d}\n\tc\\u{9b}"
        );
        assert_eq!(printable("grün ✓ 日本"), "grün ✓ 日本");
    }
}
