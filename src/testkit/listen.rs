//! Listening on loopback, and ending every task with the server.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections a server holds at the same time; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 1024;

/// The tasks of one server. All end when the server is dropped.
#[derive(Clone, Default)]
pub(crate) struct Tasks(Arc<Mutex<Set>>);

#[derive(Default)]
struct Set {
    tasks: JoinSet<()>,
    closed: bool,
}

impl Tasks {
    /// Runs `task` until it ends or the server does.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while set.tasks.try_join_next().is_some() {}
        if !set.closed {
            set.tasks.spawn(task);
        }
    }

    fn close(&self) -> JoinSet<()> {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        set.closed = true;
        let mut tasks = std::mem::take(&mut set.tasks);
        tasks.abort_all();
        tasks
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tasks")
    }
}

/// A listener on `127.0.0.1` with a handler per connection.
#[derive(Debug)]
pub(crate) struct Listening {
    address: SocketAddr,
    tasks: Tasks,
}

impl Listening {
    /// Binds a free port and hands each connection to `handle`.
    pub(crate) async fn start<H, F>(tasks: Tasks, handle: H) -> io::Result<Self>
    where
        H: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let spawner = tasks.clone();
        tasks.spawn(async move {
            loop {
                let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                    return;
                };
                let Ok((stream, _)) = listener.accept().await else {
                    // Out of file descriptors, say: give the others time to end.
                    sleep(Duration::from_millis(10)).await;
                    continue;
                };
                // Small events must leave at once, not wait for an
                // acknowledgement (Nagle's algorithm).
                let _ = stream.set_nodelay(true);
                let connection = handle(stream);
                spawner.spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
        });
        Ok(Self { address, tasks })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends every task and waits until all have ended.
    pub(crate) async fn stop(self) {
        let mut tasks = self.tasks.close();
        while tasks.join_next().await.is_some() {}
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(self.tasks.close());
    }
}

/// Closes with a FIN. What the client still sends is read and thrown away for a
/// while: closing a socket with unread bytes makes the kernel send a RST, which
/// is another fault than the one that was asked for.
pub(crate) async fn close_with_fin(mut stream: TcpStream) {
    const MOST: usize = 1024 * 1024;
    if stream.shutdown().await.is_err() {
        return;
    }
    let drain = async {
        let mut scrap = [0_u8; 4096];
        let mut read = 0_usize;
        while read < MOST {
            match stream.read(&mut scrap).await {
                Ok(n) if n > 0 => read = read.saturating_add(n),
                _ => return,
            }
        }
    };
    let _ = timeout(Duration::from_secs(2), drain).await;
}

/// Closes with a RST. Bytes written before have reached the peer's kernel if the
/// peer's window had room for them, which on loopback it has at once.
pub(crate) fn close_with_rst(stream: TcpStream) {
    let _ = stream.set_zero_linger();
    drop(stream);
}
