//! A server that plays scripts: bytes as they are, no protocol of its own.

use super::http::{self, Limits, ReadError, Request};
use super::listen::{Listening, Tasks, close_with_fin, close_with_rst};
use super::record::{EndedBy, Log, Progress, RecordedRequest};
use super::server::client_left;
use super::step::{Close, Step};
use bytes::{Bytes, BytesMut};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// What a client that speaks HTTP/2 without TLS sends first (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// An HTTP/2 client's opening has no end mark; this much silence is taken for it.
const QUIET: Duration = Duration::from_millis(100);

/// Requests that are recorded; later ones are served and counted.
const MAX_RECORDED: usize = 10_000;

/// What a [`RawServer`] plays.
#[derive(Clone, Debug)]
pub struct RawPlan {
    scripts: Vec<Vec<Step>>,
    repeats_last: bool,
    h2c: bool,
}

impl RawPlan {
    /// The first request's connection gets this script.
    pub fn new(script: Vec<Step>) -> Self {
        Self {
            scripts: vec![script],
            repeats_last: false,
            h2c: false,
        }
    }

    /// The next request's connection gets this one. A request beyond the last
    /// script gets a FIN and no byte.
    pub fn then(mut self, script: Vec<Step>) -> Self {
        self.scripts.push(script);
        self
    }

    /// Every request beyond the last script gets the last script again.
    pub fn repeat_last(mut self) -> Self {
        self.repeats_last = true;
        self
    }

    /// The client speaks HTTP/2 with prior knowledge: its preface is read, then
    /// 100 ms of quiet taken for the end of its request.
    pub fn h2c(mut self) -> Self {
        self.h2c = true;
        self
    }

    fn script(&self, number: usize) -> &[Step] {
        let last = self.scripts.last().filter(|_| self.repeats_last);
        self.scripts
            .get(number.saturating_sub(1))
            .or(last)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }
}

/// A server on loopback that reads one whole request per connection, plays a
/// script, and closes.
///
/// Scripts are taken in order of the requests' arrival, so a connection on which
/// nothing was asked uses none up. A script without a close ends with a FIN. All
/// tasks end when the server is dropped.
#[derive(Debug)]
pub struct RawServer {
    listening: Listening,
    log: Arc<Log>,
}

impl RawServer {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// When no port can be had.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when the future is dropped.
    pub async fn start(plan: RawPlan) -> io::Result<Self> {
        let log = Log::new(MAX_RECORDED);
        let plan = Arc::new(plan);
        let listening = Listening::start(Tasks::default(), {
            let log = Arc::clone(&log);
            move |stream| {
                let (plan, log) = (Arc::clone(&plan), Arc::clone(&log));
                async move {
                    let number = log.connected();
                    serve(&plan, &log, stream, number).await;
                }
            }
        })
        .await?;
        Ok(Self { listening, log })
    }

    /// The base URL: `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// The requests so far, in order of arrival. With
    /// [`h2c`](RawPlan::h2c) the method is `PRI` and the body what followed the
    /// preface.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.log.requests()
    }

    /// How many connections were made so far, also those without a request.
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

    /// Waits until request `n` (from 1) is over; true if the client closed before
    /// its script had ended.
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

async fn serve(plan: &RawPlan, log: &Arc<Log>, mut stream: TcpStream, connection: usize) {
    let (mut reader, mut writer) = stream.split();
    let mut buffer = BytesMut::new();
    let limits = Limits::default();
    let request = if plan.h2c {
        read_h2c(&mut reader, &mut buffer, limits).await
    } else {
        let go_on = async || writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
        http::read_request(&mut reader, &mut buffer, limits, go_on).await
    };
    let Ok(request) = request else { return };
    let ticket = log.arrived(connection, &request);
    let close = tokio::select! {
        biased;
        close = play(&mut writer, plan.script(ticket.number), &ticket.progress) => close.ok(),
        () = client_left(&mut reader, &mut buffer) => None,
    };
    match close {
        None => ticket.end(EndedBy::Client),
        Some(Close::Fin) => {
            ticket.end(EndedBy::Server);
            close_with_fin(stream).await;
        }
        Some(Close::Rst) => {
            ticket.end(EndedBy::Server);
            close_with_rst(stream);
        }
    }
}

async fn read_h2c<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut BytesMut,
    limits: Limits,
) -> Result<Request, ReadError> {
    while buffer.len() < PREFACE.len() {
        if reader.read_buf(buffer).await? == 0 {
            return Err(ReadError::Closed);
        }
    }
    if !buffer.starts_with(PREFACE) {
        return Err(ReadError::Malformed("no HTTP/2 preface"));
    }
    while let Ok(read) = timeout(QUIET, reader.read_buf(buffer)).await {
        if read? == 0 {
            return Err(ReadError::Closed);
        }
        if buffer.len() > limits.body {
            return Err(ReadError::TooLarge {
                status: 413,
                what: "opening",
            });
        }
    }
    let _ = buffer.split_to(PREFACE.len());
    Ok(Request {
        method: "PRI".to_owned(),
        target: "*".to_owned(),
        version_1_1: true,
        headers: Vec::new(),
        body: buffer.split().freeze(),
    })
}

async fn play<W: AsyncWrite + Unpin>(
    to: &mut W,
    script: &[Step],
    progress: &Progress,
) -> io::Result<Close> {
    for step in script {
        match step {
            Step::Send(bytes) => send(to, bytes, progress).await?,
            Step::SendTemplate(template) => {
                let text = template.render(SystemTime::now());
                send(to, text.as_bytes(), progress).await?;
            }
            Step::Repeat { bytes, times } => repeat(to, bytes, *times, progress).await?,
            Step::Sleep(time) => sleep(*time).await,
            Step::Close(close) => return Ok(*close),
        }
    }
    Ok(Close::Fin)
}

async fn send<W: AsyncWrite + Unpin>(
    to: &mut W,
    bytes: &[u8],
    progress: &Progress,
) -> io::Result<()> {
    to.write_all(bytes).await?;
    progress.add_bytes(bytes.len());
    Ok(())
}

/// Writes the repetition in blocks, so that a million times one byte is not a
/// million writes.
async fn repeat<W: AsyncWrite + Unpin>(
    to: &mut W,
    bytes: &Bytes,
    times: u64,
    progress: &Progress,
) -> io::Result<()> {
    const BLOCK: usize = 64 * 1024;
    if bytes.is_empty() {
        return Ok(());
    }
    let per_block = (BLOCK / bytes.len()).max(1);
    let mut left = times;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(per_block);
        send(to, &bytes.repeat(now), progress).await?;
        left = left.saturating_sub(u64::try_from(now).unwrap_or(u64::MAX));
    }
    Ok(())
}
