//! The process that is killed: this program again, as a writer.
//!
//! It gets its task as one line of JSON on stdin, writes the answer to the store, and
//! prints a line for each record that the store acknowledged. It ends when stdin
//! closes, so it does not outlive the process that started it.

use super::journals::LEASE;
use super::verify::{Seen, text_of};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use streamkeep::store::SledStore;
use streamkeep::{Client, Dialect, Error, ErrorKind, Key, Request, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// The longest wait for the child to say or do something.
const LIMIT: Duration = Duration::from_secs(30);

/// What the child is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) folder: PathBuf,
    pub(super) key: Key,
    pub(super) dialect: Dialect,
    pub(super) url: String,
    pub(super) body: String,
}

/// The child, as its parent holds it. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Child {
    process: tokio::process::Child,
    id: u32,
    lines: Lines<BufReader<ChildStdout>>,
    /// Open for as long as the child shall live.
    _stdin: ChildStdin,
}

impl Child {
    /// Starts this program again, with a task.
    pub(super) async fn start(task: &Task) -> Result<Self> {
        let program =
            std::env::current_exe().map_err(|error| failed("find this program", error))?;
        let mut process = Command::new(program)
            .args(["demo", "--child"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed("start a child process", error))?;
        let pipes = (process.stdin.take(), process.stdout.take(), process.id());
        let (Some(mut stdin), Some(stdout), Some(id)) = pipes else {
            return Err(Error::new(
                ErrorKind::Internal,
                "expected a child with pipes, but got none",
            ));
        };
        let mut line = serde_json::to_vec(task)
            .map_err(|error| failed("write the child's task", error.into()))?;
        line.push(b'\n');
        let sent = async {
            stdin.write_all(&line).await?;
            stdin.flush().await
        };
        timeout(LIMIT, sent)
            .await
            .map_err(|_| late("take its task"))?
            .map_err(|error| failed("write the child's task", error))?;
        Ok(Self {
            process,
            id,
            lines: BufReader::new(stdout).lines(),
            _stdin: stdin,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// The next record that the child was acknowledged; `None` when it says no more.
    pub(super) async fn next(&mut self) -> Result<Option<Seen>> {
        let line = timeout(LIMIT, self.lines.next_line())
            .await
            .map_err(|_| late("say something"))?
            .map_err(|error| failed("read what the child says", error))?;
        // The last line of one that was killed may be half a line: not said.
        Ok(line.and_then(|line| serde_json::from_str(&line).ok()))
    }

    /// Kills it with SIGKILL, and waits until it is dead. What it had said before can
    /// still be read.
    pub(super) async fn kill(&mut self) -> Result<ExitStatus> {
        self.process
            .start_kill()
            .map_err(|error| failed("kill the child", error))?;
        timeout(LIMIT, self.process.wait())
            .await
            .map_err(|_| late("die"))?
            .map_err(|error| failed("wait for the child", error))
    }
}

/// What the child does: takes its task, and writes until it is killed.
pub(super) async fn write() -> Result<()> {
    let task = task()?;
    end_with_stdin();
    let store = SledStore::open(&task.folder).await?;
    let client = Client::builder().store(store).lease(LEASE).build()?;
    let request = Request::new(task.dialect, task.url, task.body)?;
    let handle = client.call(request).key(task.key).start().await?;
    let mut subscription = handle.subscribe();
    let mut state = None;
    while let Some(record) = subscription.next().await? {
        let seen = Seen {
            seq: record.seq.get(),
            text: text_of(&record, &mut state),
        };
        let mut line =
            serde_json::to_vec(&seen).map_err(|error| failed("write a line", error.into()))?;
        line.push(b'\n');
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&line).and_then(|()| stdout.flush());
        written.map_err(|error| failed("write to the parent", error))?;
    }
    Ok(())
}

fn task() -> Result<Task> {
    let mut line = String::new();
    let mut stdin = io::stdin().lock();
    stdin
        .read_line(&mut line)
        .map_err(|error| failed("read the task", error))?;
    serde_json::from_str(&line).map_err(|error| {
        Error::new(
            ErrorKind::Config,
            "expected a task on stdin: this is started by the demo alone",
        )
        .with_source(error)
    })
}

/// Ends this process when stdin closes. On a thread of its own, so that nothing the
/// rest does can keep it from that.
fn end_with_stdin() {
    std::thread::spawn(|| {
        let mut rest = [0_u8; 64];
        while io::stdin().lock().read(&mut rest).is_ok_and(|n| n > 0) {}
        std::process::exit(1);
    });
}

fn failed(what: &str, error: io::Error) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("expected to {what}, but could not"),
    )
    .with_source(error)
}

fn late(what: &str) -> Error {
    let message = format!("expected the child to {what} within {} s", LIMIT.as_secs());
    Error::new(ErrorKind::Internal, message)
}
