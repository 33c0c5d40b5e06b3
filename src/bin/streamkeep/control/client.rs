//! Asking the process that has the store open.

use super::Gone;
use super::lines::{self, LineReader};
use super::protocol::{Answer, Hello, MAX_ANSWER, Request, SOCKET, VERSION};
use crate::feed::Wish;
use crate::line::Line;
use crate::report::{Entry, Report, Wanted};
use crate::verdict::Verdict;
use std::path::Path;
use std::time::Duration;
use streamkeep::{Error, ErrorKind, Key, Result};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

/// How long the other process may take to greet. One that is stopped by a
/// debugger does not hold up others for longer.
const HELLO_LIMIT: Duration = Duration::from_secs(2);

/// How long it may take for the next line of an answer that is not live.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A connection to the process that has the store open.
#[derive(Debug)]
pub(crate) struct Connection {
    hello: Hello,
    answers: LineReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Connection {
    /// Connects; `None` when nobody answers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`] when somebody answers who speaks another version, or
    /// has no room.
    pub(crate) async fn open(folder: &Path) -> Result<Option<Self>> {
        let Ok(Ok(stream)) = timeout(HELLO_LIMIT, UnixStream::connect(folder.join(SOCKET))).await
        else {
            return Ok(None);
        };
        let (reader, writer) = stream.into_split();
        let mut answers = LineReader::new(reader, MAX_ANSWER);
        let hello = match timeout(HELLO_LIMIT, answers.next()).await {
            Ok(Ok(Some(Answer::Hello(hello)))) => hello,
            Ok(Ok(Some(Answer::Error(refusal)))) => return Err(refusal.into_error()),
            _ => return Ok(None),
        };
        if hello.protocol != VERSION {
            return Err(Error::new(
                ErrorKind::Busy,
                format!(
                    "the store is in use by process {} of another version: expected control protocol {VERSION}, but found {}",
                    hello.pid, hello.protocol
                ),
            ));
        }
        Ok(Some(Self {
            hello,
            answers,
            writer,
        }))
    }

    /// Says who has the store open.
    pub(crate) fn in_use(&self, folder: &Path) -> Error {
        let hello = &self.hello;
        let key = hello
            .key
            .as_ref()
            .map(|key| format!(" for key {key}"))
            .unwrap_or_default();
        Error::new(
            ErrorKind::Busy,
            format!(
                "the store in {} is in use by process {}: `streamkeep {}`{key} runs there, and one process at a time can write",
                folder.display(),
                hello.pid,
                hello.doing
            ),
        )
    }

    pub(crate) async fn list(mut self) -> Result<Vec<Entry>> {
        self.ask(&Request::List).await?;
        let mut entries = Vec::new();
        loop {
            match self.answer().await? {
                Answer::Entry(entry) => entries.push(entry),
                Answer::Done {} => return Ok(entries),
                _ => return Err(out_of_turn()),
            }
        }
    }

    pub(crate) async fn show(mut self, wanted: Wanted) -> Result<Report> {
        self.ask(&Request::Show(wanted)).await?;
        match self.answer().await? {
            Answer::Report(report) => Ok(*report),
            _ => Err(out_of_turn()),
        }
    }

    pub(crate) async fn cancel(mut self, key: &Key) -> Result<Verdict> {
        self.ask(&Request::Cancel { key: key.clone() }).await?;
        match self.answer().await? {
            Answer::Outcome(verdict) => Ok(*verdict),
            _ => Err(out_of_turn()),
        }
    }

    pub(crate) async fn follow(mut self, wish: &Wish) -> Result<Following> {
        let request = Request::Follow {
            key: wish.key.clone(),
            after: wish.after.map(|after| after.to_string()),
            prompt: wish.prompt,
        };
        self.ask(&request).await?;
        Ok(Following(self))
    }

    async fn ask(&mut self, request: &Request) -> Result<()> {
        lines::write(&mut self.writer, request, ANSWER_LIMIT)
            .await
            .map_err(|error| lost().with_source(error))
    }

    async fn answer(&mut self) -> Result<Answer> {
        match timeout(ANSWER_LIMIT, self.answers.next()).await {
            Ok(Ok(Some(Answer::Error(refusal)))) => Err(refusal.into_error()),
            Ok(Ok(Some(answer))) => Ok(answer),
            Ok(Ok(None)) => Err(lost()),
            Ok(Err(error)) => Err(lost().with_source(error)),
            Err(elapsed) => Err(lost().with_source(elapsed)),
        }
    }
}

/// The records of an answer, live from the process that writes it.
#[derive(Debug)]
pub(crate) struct Following(Connection);

impl Following {
    /// The next line; `None` after the last one.
    ///
    /// # Cancel safety
    ///
    /// A future dropped before it was ready loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Line>, Gone> {
        match self.0.answers.next().await {
            Ok(Some(Answer::Record(line))) => Ok(Some(*line)),
            Ok(Some(Answer::Done {})) => Ok(None),
            Ok(Some(Answer::Error(refusal))) => Err(Gone::Failed(refusal.into_error())),
            Ok(Some(_)) => Err(Gone::Failed(out_of_turn())),
            Ok(None) => Err(Gone::Lost),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(Gone::Failed(out_of_turn().with_source(error)))
            }
            Err(_) => Err(Gone::Lost),
        }
    }
}

fn lost() -> Error {
    Error::new(
        ErrorKind::StoreUnavailable,
        "expected an answer from the process that has the store open, but it went away; run the command again",
    )
}

fn out_of_turn() -> Error {
    Error::new(
        ErrorKind::StoreUnavailable,
        "expected an answer from the process that has the store open, but found one to another question",
    )
}
