//! A TCP proxy that cuts and stalls in front of any real server.

use super::gate::Gate;
use super::listen::{Listening, Tasks, close_with_fin, close_with_rst};
use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Connections whose figures are kept; later ones are served and forgotten.
const MAX_RECORDED: usize = 10_000;

/// Bytes moved at once.
const BLOCK: usize = 16 * 1024;

/// What happens to one connection's response. Bytes are counted from the first
/// byte of the connection's response direction, heads and framing included.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Cut {
    /// Everything passes.
    #[default]
    Pass,
    /// A FIN to the client after exactly so many bytes.
    Fin(u64),
    /// A RST to the client after exactly so many bytes.
    Rst(u64),
    /// Silence after exactly so many bytes, until the client leaves.
    Stall(u64),
    /// Silence after exactly so many bytes, until the gate lets it through; then
    /// the rest passes.
    Hold(u64, Gate),
}

/// Which connection of a [`ByteProxy`] is cut where.
#[derive(Clone, Debug, Default)]
pub struct ProxyPlan {
    cuts: BTreeMap<usize, Cut>,
    otherwise: Cut,
}

impl ProxyPlan {
    /// Everything passes.
    pub fn new() -> Self {
        Self::default()
    }

    /// What happens to connection `n`, from 1 in order of arrival.
    pub fn on(mut self, n: usize, cut: Cut) -> Self {
        self.cuts.insert(n, cut);
        self
    }

    /// What happens to every other connection.
    pub fn otherwise(mut self, cut: Cut) -> Self {
        self.otherwise = cut;
        self
    }
}

/// One connection through a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyConnection {
    /// Order of arrival, from 1.
    pub number: usize,
    /// Bytes the client sent that went on to the server.
    pub to_server: u64,
    /// Bytes the server sent that went on to the client.
    pub to_client: u64,
    /// Who ended it; `None` while it runs.
    pub ended: Option<ProxyEnd>,
}

/// Who ended a connection through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyEnd {
    /// The proxy's own cut.
    Cut,
    /// The server closed.
    Server,
    /// The client left.
    Client,
    /// The server could not be reached.
    Unreachable,
}

/// A proxy on loopback in front of one server.
///
/// All its tasks end when it is dropped.
#[derive(Debug)]
pub struct ByteProxy {
    listening: Listening,
    log: Arc<Log>,
}

impl ByteProxy {
    /// Starts a proxy in front of `server`: `host:port`, or a URL with `http://`,
    /// of which the path is not used.
    ///
    /// # Errors
    ///
    /// When no port can be had. A server that cannot be reached shows at each
    /// connection.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when the future is dropped.
    pub async fn start(server: &str, plan: ProxyPlan) -> io::Result<Self> {
        let server: Arc<str> = authority(server).into();
        let plan = Arc::new(plan);
        let log = Arc::new(Log::default());
        let listening = Listening::start(Tasks::default(), {
            let log = Arc::clone(&log);
            move |client| {
                let (server, plan, entry) =
                    (Arc::clone(&server), Arc::clone(&plan), log.connected());
                async move {
                    let cut = plan.cuts.get(&entry.number).unwrap_or(&plan.otherwise);
                    let end = forward(&server, client, cut, &entry).await;
                    entry.end(end);
                }
            }
        })
        .await?;
        Ok(Self { listening, log })
    }

    /// The URL to use in place of the server's: `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// The connections so far, in order of arrival.
    pub fn connections(&self) -> Vec<ProxyConnection> {
        self.log.lock().iter().map(|e| e.snapshot()).collect()
    }

    /// Waits until `n` connections were made.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn wait_for_connections(&self, n: usize) {
        self.log
            .wait(|entries| (entries.len() >= n).then_some(()))
            .await;
    }

    /// Waits until connection `n` has ended; returns its figures. Connections
    /// beyond the 10,000th are not recorded: `None` for those and for 0.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn wait_until_ended(&self, n: usize) -> Option<ProxyConnection> {
        if n == 0 || n > MAX_RECORDED {
            return None;
        }
        self.log
            .wait(|entries| {
                entries
                    .get(n.saturating_sub(1))
                    .map(|entry| entry.snapshot())
                    .filter(|connection| connection.ended.is_some())
                    .map(Some)
            })
            .await
    }

    /// Ends every connection and task and waits until all have ended.
    ///
    /// # Cancel safety
    ///
    /// A future dropped halfway has already told every task to end.
    pub async fn stop(self) {
        self.listening.stop().await;
    }
}

fn authority(server: &str) -> &str {
    let rest = server.strip_prefix("http://").unwrap_or(server);
    rest.split('/').next().unwrap_or(rest)
}

async fn forward(server: &str, mut client: TcpStream, cut: &Cut, entry: &Entry) -> ProxyEnd {
    let Ok(mut upstream) = TcpStream::connect(server).await else {
        close_with_rst(client);
        return ProxyEnd::Unreachable;
    };
    let _ = upstream.set_nodelay(true);
    let end = {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = upstream.split();
        let (left, client_left) = watch::channel(false);
        let request = async {
            // An error and an end are the same here: the client sends no more.
            let _ = copy(&mut from_client, &mut to_server, u64::MAX, &entry.to_server).await;
            let _ = to_server.shutdown().await;
            let _ = left.send(true);
            pending::<()>().await;
        };
        let response = respond(
            &mut from_server,
            &mut to_client,
            cut,
            client_left,
            &entry.to_client,
        );
        tokio::select! {
            end = response => end,
            () = request => ProxyEnd::Client,
        }
    };
    // The server learns of the end first: it stops working for nobody.
    drop(upstream);
    match (end, cut) {
        (ProxyEnd::Cut, Cut::Rst(_)) => close_with_rst(client),
        (ProxyEnd::Cut, _) => {
            // The cut is over for the one who waits for it before the client has
            // taken note.
            entry.end(end);
            close_with_fin(client).await;
        }
        _ => {}
    }
    end
}

async fn respond<R, W>(
    from: &mut R,
    to: &mut W,
    cut: &Cut,
    mut client_left: watch::Receiver<bool>,
    count: &AtomicU64,
) -> ProxyEnd
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let limit = match cut {
        Cut::Pass => u64::MAX,
        Cut::Fin(n) | Cut::Rst(n) | Cut::Stall(n) | Cut::Hold(n, _) => *n,
    };
    match copy(from, to, limit, count).await {
        Copied::All => {}
        Copied::Broken => return ProxyEnd::Client,
        Copied::Limit => match cut {
            Cut::Fin(_) | Cut::Rst(_) => return ProxyEnd::Cut,
            Cut::Stall(_) => {
                let _ = client_left.wait_for(|left| *left).await;
                return ProxyEnd::Client;
            }
            Cut::Hold(_, gate) => {
                tokio::select! {
                    () = gate.pass() => {}
                    _ = client_left.wait_for(|left| *left) => return ProxyEnd::Client,
                }
                if let Copied::Broken = copy(from, to, u64::MAX, count).await {
                    return ProxyEnd::Client;
                }
            }
            Cut::Pass => {}
        },
    }
    if to.shutdown().await.is_ok() {
        let _ = client_left.wait_for(|left| *left).await;
    }
    ProxyEnd::Server
}

/// How a copy ended.
enum Copied {
    /// At the end of the source.
    All,
    /// At the limit.
    Limit,
    /// The sink takes no more.
    Broken,
}

async fn copy<R, W>(from: &mut R, to: &mut W, limit: u64, count: &AtomicU64) -> Copied
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut block = vec![0_u8; BLOCK];
    let mut left = limit;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(BLOCK);
        let room = block.get_mut(..most).unwrap_or_default();
        let n = match from.read(room).await {
            Ok(n) if n > 0 => n,
            _ => return Copied::All,
        };
        if to
            .write_all(block.get(..n).unwrap_or_default())
            .await
            .is_err()
        {
            return Copied::Broken;
        }
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        count.fetch_add(n, Ordering::Relaxed);
        left = left.saturating_sub(n);
    }
    Copied::Limit
}

#[derive(Debug, Default)]
struct Log {
    entries: Mutex<Vec<Arc<Entry>>>,
    made: AtomicU64,
    changed: Arc<watch::Sender<u64>>,
}

#[derive(Debug)]
struct Entry {
    number: usize,
    to_server: AtomicU64,
    to_client: AtomicU64,
    ended: Mutex<Option<ProxyEnd>>,
    changed: Arc<watch::Sender<u64>>,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connected(&self) -> Arc<Entry> {
        let entry = {
            let mut entries = self.lock();
            let made = self.made.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            let entry = Arc::new(Entry {
                number: usize::try_from(made).unwrap_or(usize::MAX),
                to_server: AtomicU64::new(0),
                to_client: AtomicU64::new(0),
                ended: Mutex::new(None),
                changed: Arc::clone(&self.changed),
            });
            if entries.len() < MAX_RECORDED {
                entries.push(Arc::clone(&entry));
            }
            entry
        };
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
        entry
    }

    async fn wait<T>(&self, mut ready: impl FnMut(&[Arc<Entry>]) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(value) = ready(&self.lock()) {
                return value;
            }
            // The sender lives as long as `self`.
            let _ = changed.changed().await;
        }
    }
}

impl Entry {
    fn snapshot(&self) -> ProxyConnection {
        ProxyConnection {
            number: self.number,
            to_server: self.to_server.load(Ordering::Relaxed),
            to_client: self.to_client.load(Ordering::Relaxed),
            ended: *self.ended.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Only the first call counts.
    fn end(&self, by: ProxyEnd) {
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(by);
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }
}
