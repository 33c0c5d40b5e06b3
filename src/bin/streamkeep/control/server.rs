//! The process that has the store open answers for it.

use super::lines::{self, LineReader};
use super::protocol::{Answer, Hello, MAX_REQUEST, Refusal, Request, SOCKET, VERSION};
use crate::feed::{Feed, Wish};
use crate::report;
use crate::verdict::Verdict;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use streamkeep::{Client, Error, ErrorKind, Key};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Connections at a time: some terminals of one person.
const MAX_CONNECTIONS: usize = 16;

/// How long a client may take to say what it wants.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// How long a client may take to accept one line. One that is paused for longer
/// is let go, and comes back with its cursor.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// How long connections may take to come to their end when the process has.
const GRACE: Duration = Duration::from_secs(2);

/// Answers on the control socket until it is stopped.
#[derive(Debug)]
pub(crate) struct Server {
    socket: PathBuf,
    key: Arc<OnceLock<Key>>,
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
    is_removed: bool,
}

#[derive(Clone, Debug)]
struct Host {
    client: Client,
    doing: &'static str,
    key: Arc<OnceLock<Key>>,
}

impl Server {
    /// Begins to answer. To be called while this process has the store open: a
    /// socket that is left over from another one is replaced.
    ///
    /// # Errors
    ///
    /// When the socket cannot be made, such as where the folder's path is longer
    /// than a socket's may be (about 100 bytes).
    pub(crate) fn start(folder: &Path, client: &Client, doing: &'static str) -> io::Result<Self> {
        let socket = folder.join(SOCKET);
        let listener = bind(folder, &socket)?;
        let key = Arc::new(OnceLock::new());
        let host = Host {
            client: client.clone(),
            doing,
            key: Arc::clone(&key),
        };
        let (stop, stopping) = watch::channel(());
        let task = tokio::spawn(accept(listener, host, stopping));
        Ok(Self {
            socket,
            key,
            stop,
            task,
            is_removed: false,
        })
    }

    /// Says for which key this process works.
    pub(crate) fn names(&self, key: &Key) {
        let _ = self.key.set(key.clone());
    }

    /// The socket, for whoever has to end the process in a hurry.
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone()
    }

    /// Removes the socket, and gives connections a moment to come to their end.
    /// To be called before the store is closed: after that the next process may
    /// have made a socket of its own.
    pub(crate) async fn stop(mut self) {
        self.remove();
        self.stop.send_replace(());
        let _ = (&mut self.task).await;
    }

    fn remove(&mut self) {
        if !self.is_removed {
            let _ = fs::remove_file(&self.socket);
            self.is_removed = true;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.remove();
        self.task.abort();
    }
}

/// Makes the socket, for the owner alone from its first moment: it is made in a
/// folder of its own that nobody else can enter, and moved into place.
fn bind(folder: &Path, socket: &Path) -> io::Result<UnixListener> {
    let nest = folder.join(format!(".c{}", std::process::id()));
    let _ = fs::remove_dir_all(&nest);
    fs::DirBuilder::new().mode(0o700).create(&nest)?;
    let made = nest.join("s");
    let bound = UnixListener::bind(&made).and_then(|listener| {
        fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
        fs::rename(&made, socket)?;
        Ok(listener)
    });
    let _ = fs::remove_dir_all(&nest);
    bound
}

async fn accept(listener: UnixListener, host: Host, mut stopping: watch::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stopping.changed() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() < MAX_CONNECTIONS => {
                    connections.spawn(serve(stream, host.clone()));
                }
                Ok((stream, _)) => turn_away(&stream),
                // Out of file descriptors, say: it may pass.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    // Whoever follows the answer is told its end. The rest is cut off.
    let _ = timeout(GRACE, async {
        while connections.join_next().await.is_some() {}
    })
    .await;
}

fn turn_away(stream: &UnixStream) {
    let error = Error::new(
        ErrorKind::Busy,
        format!("expected at most {MAX_CONNECTIONS} commands at a time, but found one more"),
    );
    if let Ok(mut line) = serde_json::to_vec(&Answer::Error(Refusal::new(&error))) {
        line.push(b'\n');
        // A fresh socket has room for a line.
        let _ = stream.try_write(&line);
    }
}

async fn serve(stream: UnixStream, host: Host) {
    let (reader, mut writer) = stream.into_split();
    let hello = Answer::Hello(Hello {
        protocol: VERSION,
        pid: std::process::id(),
        doing: host.doing.to_owned(),
        key: host.key.get().cloned(),
    });
    if tell(&mut writer, &hello).await.is_err() {
        return;
    }
    let mut requests = LineReader::new(reader, MAX_REQUEST);
    let request = match timeout(REQUEST_LIMIT, requests.next::<Request>()).await {
        Ok(Ok(Some(request))) => request,
        Ok(Ok(None)) | Err(_) => return,
        Ok(Err(error)) => {
            let error = Error::new(ErrorKind::InvalidRequest, error.to_string());
            let _ = tell(&mut writer, &Answer::Error(Refusal::new(&error))).await;
            // To close on what was not read would take the error back.
            let _ = writer.shutdown().await;
            let _ = timeout(GRACE, requests.closed()).await;
            return;
        }
    };
    let answered = tokio::select! {
        biased;
        answered = answer(&host.client, request, &mut writer) => answered,
        // Whoever asked went away.
        () = requests.closed() => return,
    };
    let last = match answered {
        Ok(()) => Answer::Done {},
        Err(Unanswered::Failed(error)) => Answer::Error(Refusal::new(&error)),
        Err(Unanswered::Left) => return,
    };
    let _ = tell(&mut writer, &last).await;
}

/// Why a request was not answered to its end.
enum Unanswered {
    Failed(Error),
    /// The client went away, or takes too long.
    Left,
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Unanswered {
    fn from(_: io::Error) -> Self {
        Self::Left
    }
}

async fn answer(
    client: &Client,
    request: Request,
    writer: &mut OwnedWriteHalf,
) -> Result<(), Unanswered> {
    match request {
        Request::List => {
            for entry in report::entries(client, false).await? {
                tell(writer, &Answer::Entry(entry)).await?;
            }
        }
        Request::Show(wanted) => {
            let report = report::report(client, &wanted, false).await?;
            tell(writer, &Answer::Report(Box::new(report))).await?;
        }
        Request::Follow { key, after, prompt } => {
            let after = after.map(|after| after.parse()).transpose()?;
            let mut feed = Feed::open(client, &Wish { key, after, prompt }, false).await?;
            while let Some(line) = feed.next().await? {
                tell(writer, &Answer::Record(Box::new(line))).await?;
            }
        }
        Request::Cancel { key } => {
            let outcome = client.cancel(&key).await?;
            tell(
                writer,
                &Answer::Outcome(Box::new(Verdict::of_outcome(&outcome))),
            )
            .await?;
        }
    }
    Ok(())
}

async fn tell(writer: &mut OwnedWriteHalf, answer: &Answer) -> io::Result<()> {
    lines::write(writer, answer, WRITE_LIMIT).await
}
