//! One connection to one server, shared by everybody.

use super::fault::{Fault, config, connecting};
use super::scripts::Request;
use super::target::Endpoint;
use crate::error::{ErrorKind, Result};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, Value, cmd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How connections are made.
#[derive(Clone)]
pub(super) struct Dialing {
    /// User, password and database.
    pub(super) login: RedisConnectionInfo,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
}

trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Socket for T {}

/// Requests that wait to be written. Beyond it their senders wait.
const QUEUE: usize = 1024;

/// Bytes that are gathered before they are written, while others wait to be.
const WRITE_BUFFER: usize = 256 << 10;

impl Dialing {
    async fn dial(&self, endpoint: &Endpoint) -> Result<Box<dyn Socket>, Fault> {
        match endpoint {
            Endpoint::Tcp { host, port } => {
                let tcp = TcpStream::connect((host.as_str(), *port))
                    .await
                    .map_err(|error| connecting(&error))?;
                // An append is one write, and somebody waits for it.
                let _ = tcp.set_nodelay(true);
                let Some(tls) = &self.tls else {
                    return Ok(Box::new(tcp));
                };
                let name = ServerName::try_from(host.clone()).map_err(|_| {
                    Fault::Refused(
                        ErrorKind::Config,
                        "expected a host that a certificate can name, but found another one"
                            .to_owned(),
                    )
                })?;
                let connector = TlsConnector::from(Arc::clone(tls));
                let stream = connector.connect(name, tcp).await;
                Ok(Box::new(stream.map_err(|error| connecting(&error))?))
            }
            #[cfg(unix)]
            Endpoint::Unix(path) => {
                let socket = tokio::net::UnixStream::connect(path).await;
                Ok(Box::new(socket.map_err(|error| connecting(&error))?))
            }
            #[cfg(not(unix))]
            Endpoint::Unix(_) => Err(Fault::Refused(
                ErrorKind::Config,
                "expected a host, but found a socket's path, which this system has not".to_owned(),
            )),
        }
    }

    async fn in_time<T>(&self, making: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        timeout(self.connect_timeout, making)
            .await
            .unwrap_or_else(|_| Err(Fault::Broken("no connection in time".to_owned())))
    }

    /// A connection for requests.
    pub(super) async fn line(&self, endpoint: &Endpoint) -> Result<Line, Fault> {
        self.in_time(async {
            let socket = self.dial(endpoint).await?;
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(Some(self.response_timeout))
                .set_pipeline_buffer_size(QUEUE)
                .set_write_backpressure_boundary(WRITE_BUFFER);
            let (connection, driver) =
                MultiplexedConnection::new_with_config(&self.login, socket, config)
                    .await
                    .map_err(|error| Fault::of(&error))?;
            Ok(Line {
                endpoint: endpoint.clone(),
                connection,
                driver: tokio::spawn(driver),
                broken: AtomicBool::new(false),
                arrivals: AtomicU64::new(0),
                replicated: tokio::sync::Mutex::default(),
            })
        })
        .await
    }

    /// A connection for wake-ups.
    pub(super) async fn ear(&self, endpoint: &Endpoint) -> Result<PubSub, Fault> {
        self.in_time(async {
            let socket = self.dial(endpoint).await?;
            PubSub::new(&self.login, socket)
                .await
                .map_err(|error| Fault::of(&error))
        })
        .await
    }
}

impl fmt::Debug for Dialing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialing")
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

/// One connection to one server. Closed with its last handle.
pub(super) struct Line {
    endpoint: Endpoint,
    connection: MultiplexedConnection,
    driver: JoinHandle<()>,
    broken: AtomicBool,
    /// Of those who want their writes to be at replicas.
    arrivals: AtomicU64,
    replicated: tokio::sync::Mutex<Replicated>,
}

/// The last time that replicas were waited for.
#[derive(Debug, Default)]
struct Replicated {
    /// Whoever came up to here had written before it began.
    covers: u64,
    replicas: u64,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Line {
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.broken.load(Ordering::Relaxed) && !self.driver.is_finished()
    }

    /// Sends a request and gives an answer for each of its commands.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the request may take effect yet.
    pub(super) async fn send(&self, request: &Request, asking: bool) -> Result<Vec<Value>, Fault> {
        let answers = match request.only() {
            Some(command) if !asking => Ok(vec![self.ask(command).await?]),
            _ => self.ask_all(request, false, asking).await,
        };
        self.noted(answers)
    }

    /// The same with the text of the script.
    pub(super) async fn send_in_full(
        &self,
        request: &Request,
        asking: bool,
    ) -> Result<Vec<Value>, Fault> {
        let answers = self.ask_all(request, true, asking).await;
        self.noted(answers)
    }

    /// One command's answer.
    pub(super) async fn ask(&self, command: &Cmd) -> Result<Value, Fault> {
        let mut connection = self.connection.clone();
        let answer = connection.send_packed_command(command).await;
        let answer = answer.and_then(Value::extract_error);
        self.noted(answer.map_err(|error| Fault::of(&error)))
    }

    async fn ask_all(
        &self,
        request: &Request,
        with_text: bool,
        asking: bool,
    ) -> Result<Vec<Value>, Fault> {
        let pipeline = request.to_send(with_text, asking);
        let per_command = if asking { 2 } else { 1 };
        let around = if request.is_transaction { 2 } else { 0 };
        let count = request
            .len()
            .saturating_mul(per_command)
            .saturating_add(around);
        let mut connection = self.connection.clone();
        let answers = connection.send_packed_commands(&pipeline, 0, count).await;
        let answers = answers.map_err(|error| Fault::of(&error))?;
        let mut answers = answers
            .into_iter()
            // Behind each ASKING stands the answer that counts.
            .skip(per_command - 1)
            .step_by(per_command)
            .map(|answer| answer.extract_error().map_err(|error| Fault::of(&error)))
            .collect::<Result<Vec<_>, _>>()?;
        match answers.pop() {
            Some(Value::Array(all)) if request.is_transaction => all
                .into_iter()
                .map(|answer| answer.extract_error().map_err(|error| Fault::of(&error)))
                .collect(),
            last => {
                answers.extend(last);
                Ok(answers)
            }
        }
    }

    fn noted<T>(&self, answer: Result<T, Fault>) -> Result<T, Fault> {
        if matches!(answer, Err(Fault::Broken(_) | Fault::Demoted)) {
            self.broken.store(true, Ordering::Relaxed);
        }
        answer
    }

    /// Waits until so many replicas have everything that this connection wrote and
    /// has been answered for; fewer than that within the limit is a fault. One wait
    /// does for all who came before it began.
    pub(super) async fn replicated(&self, replicas: u32, limit: Duration) -> Result<(), Fault> {
        let arrival = self
            .arrivals
            .fetch_add(1, Ordering::SeqCst)
            .saturating_add(1);
        let mut last = self.replicated.lock().await;
        if last.covers < arrival {
            let covers = self.arrivals.load(Ordering::SeqCst);
            let mut connection = self.connection.clone();
            connection.set_response_timeout(limit.saturating_add(Duration::from_secs(1)));
            let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
            let mut wait = cmd("WAIT");
            wait.arg(replicas).arg(millis);
            let answer = connection.send_packed_command(&wait).await;
            let answer = answer.and_then(Value::extract_error);
            let answer = self.noted(answer.map_err(|error| Fault::of(&error)))?;
            let Value::Int(found) = answer else {
                return Err(Fault::NotNow("WAIT without a number".to_owned()));
            };
            *last = Replicated {
                covers,
                replicas: u64::try_from(found).unwrap_or(0),
            };
        }
        if last.replicas >= u64::from(replicas) {
            return Ok(());
        }
        // Nobody else is to believe the same figure.
        let found = last.replicas;
        last.covers = 0;
        self.broken.store(true, Ordering::Relaxed);
        Err(Fault::Broken(format!(
            "that {found} of {replicas} replicas had the write in time"
        )))
    }
}

/// What TLS needs: Mozilla's roots and these beside them, and the client's own
/// certificate, if the server wants one.
pub(super) fn tls(roots: &[Vec<u8>], client: Option<(&[u8], &[u8])>) -> Result<Arc<ClientConfig>> {
    let bad = |what: &str| config(format!("expected {what} in PEM for Redis, but found none"));
    let mut store = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    for pem in roots {
        let mut found = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| bad("certificates"))?;
            store.add(certificate).map_err(|_| bad("certificates"))?;
            found += 1;
        }
        if found == 0 {
            return Err(bad("certificates"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| config("expected TLS versions for Redis, but found none"))?
        .with_root_certificates(store);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|_| bad("a client certificate"))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| bad("a client key"))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|_| bad("a client certificate and its key"))?
        }
    };
    Ok(Arc::new(config))
}
