//! The provider on loopback.

use super::background::Backgrounds;
use super::http::{self, ReadError, reason};
use super::listen::{Listening, Tasks, close_with_fin, close_with_rst};
use super::play::{Outcome, play};
use super::record::{EndedBy, Log, RecordedRequest};
use super::routes::{Reply, reply};
use super::scenario::Scenario;
use bytes::BytesMut;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of further requests taken in while a response is being sent.
const READ_AHEAD: usize = 64 * 1024;

/// A provider that does what a [`Scenario`] says.
///
/// Listens on a free port of `127.0.0.1`. All its tasks end when it is dropped;
/// [`stop`](Self::stop) also waits for that.
#[derive(Debug)]
pub struct Upstream {
    listening: Listening,
    log: Arc<Log>,
}

#[derive(Debug)]
struct Shared {
    scenario: Scenario,
    log: Arc<Log>,
    tasks: Tasks,
    backgrounds: Backgrounds,
}

impl Upstream {
    /// Starts a provider.
    ///
    /// # Errors
    ///
    /// When no port can be had.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when the future is dropped.
    pub async fn start(scenario: Scenario) -> io::Result<Self> {
        let log = Log::new(scenario.max_requests);
        let tasks = Tasks::default();
        let shared = Arc::new(Shared {
            scenario,
            log: Arc::clone(&log),
            tasks: tasks.clone(),
            backgrounds: Backgrounds::default(),
        });
        let listening = Listening::start(tasks, move |stream| {
            let shared = Arc::clone(&shared);
            async move {
                let number = shared.log.connected();
                serve(&shared, stream, number).await;
            }
        })
        .await?;
        Ok(Self { listening, log })
    }

    /// The base URL, without a path and without a slash at its end:
    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// The requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.log.requests()
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.log.connections()
    }

    /// Waits until `n` requests have arrived; returns all there are.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn wait_for_requests(&self, n: usize) -> Vec<RecordedRequest> {
        self.log.wait_for_requests(n).await
    }

    /// Waits until request `n` (from 1) is over: its client has closed, or the
    /// response has ended. True if the client closed before the response ended.
    /// A request beyond [`Scenario::max_recorded`] is not waited for: false.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn wait_until_closed(&self, n: usize) -> bool {
        self.log
            .wait_until_over(n)
            .await
            .is_some_and(|request| request.closed_by_client().is_some())
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

/// Serves one connection.
async fn serve(shared: &Shared, mut stream: TcpStream, connection: usize) {
    let refuses = |n| shared.scenario.refuses(n);
    if let Some(ticket) = shared.log.refused(connection, refuses) {
        ticket.end(EndedBy::Fault);
        close_with_rst(stream);
        return;
    }
    let mut buffer = BytesMut::new();
    loop {
        let (mut reader, mut writer) = stream.split();
        let limits = shared.scenario.limits;
        let go_on = async || writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
        let request = match http::read_request(&mut reader, &mut buffer, limits, go_on).await {
            Ok(request) => request,
            Err(ReadError::Closed | ReadError::Io) => return,
            Err(ReadError::Malformed(what)) => {
                return reject(stream, 400, what).await;
            }
            Err(ReadError::TooLarge { status, what }) => {
                return reject(stream, status, what).await;
            }
        };
        let ticket = shared.log.arrived(connection, &request);
        let Reply {
            dialect,
            program,
            pacer,
        } = reply(
            &shared.scenario,
            &shared.backgrounds,
            &shared.tasks,
            &request,
            ticket.number,
        );
        let keep_alive = shared.scenario.keep_alive && request.wants_keep_alive();
        let outcome = tokio::select! {
            biased;
            outcome = play(
                &mut writer,
                &program,
                dialect,
                &pacer,
                &ticket.progress,
                keep_alive,
            ) => outcome.ok(),
            () = client_left(&mut reader, &mut buffer) => None,
        };
        match outcome {
            Some(Outcome::Whole) if keep_alive => ticket.end(EndedBy::Server),
            Some(Outcome::Whole | Outcome::Short) => {
                ticket.end(EndedBy::Server);
                return close_with_fin(stream).await;
            }
            Some(Outcome::Fin) => {
                ticket.end(EndedBy::Fault);
                return close_with_fin(stream).await;
            }
            Some(Outcome::Rst) => {
                ticket.end(EndedBy::Fault);
                return close_with_rst(stream);
            }
            None => return ticket.end(EndedBy::Client),
        }
    }
}

/// Waits until the client closes; keeps what it sends ahead of time.
pub(crate) async fn client_left<R: AsyncRead + Unpin>(reader: &mut R, buffer: &mut BytesMut) {
    while buffer.len() < READ_AHEAD {
        match reader.read_buf(buffer).await {
            Ok(n) if n > 0 => {}
            _ => return,
        }
    }
    pending::<()>().await;
}

/// Answers what is not a request this server can read.
async fn reject(mut stream: TcpStream, status: u16, what: &str) {
    let body = format!("{{\"error\":{{\"message\":\"test kit: {what}\"}}}}");
    let response = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        reason(status),
        body.len(),
    );
    if stream.write_all(response.as_bytes()).await.is_ok() {
        close_with_fin(stream).await;
    }
}
