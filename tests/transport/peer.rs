//! The other end of a connection: reads what we send, sends the bytes it is told.

use bytes::Bytes;
use std::time::Duration;
use streamkeep::proto::model::{HttpRequest, Method, TransportFailure};
use streamkeep::transport::{Body, Outgoing, ReqwestTransport, Response, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What an HTTP/2 client says first (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The future's value, or a failed test instead of a hang. Long: it never
/// decides whether a test that works passes.
#[track_caller]
pub(crate) fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        tokio::time::timeout(Duration::from_secs(60), future)
            .await
            .unwrap_or_else(|_| panic!("hangs at {caller}"))
    }
}

/// The value of a future that is ready now.
pub(crate) fn now<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

/// A listener on a free port, and the URL that leads to it.
pub(crate) async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/chat", listener.local_addr().unwrap());
    (listener, url)
}

/// A POST without anything special.
pub(crate) fn post(url: &str) -> Outgoing {
    Outgoing {
        request: HttpRequest {
            method: Method::Post,
            url: url.to_owned(),
            headers: vec![
                ("accept-encoding".to_owned(), "identity".to_owned()),
                ("content-type".to_owned(), "application/json".to_owned()),
            ],
            body: Bytes::from_static(b"{\"stream\":true}"),
        },
        secret_headers: Vec::new(),
    }
}

/// A transport that speaks HTTP/1.1, or HTTP/2 in the clear.
pub(crate) fn transport(http2: bool) -> ReqwestTransport {
    ReqwestTransport::builder()
        .http2_prior_knowledge(http2)
        .build()
        .unwrap()
}

/// Opens and expects a response.
pub(crate) async fn open(transport: &ReqwestTransport, url: &str) -> Response {
    within(transport.open(post(url))).await.unwrap()
}

/// Opens and expects a failure.
pub(crate) async fn fails(transport: &ReqwestTransport, url: &str) -> TransportFailure {
    within(transport.open(post(url))).await.unwrap_err()
}

/// Reads to the end; then asks twice more, because a body is fused.
pub(crate) async fn drain(body: &mut dyn Body) -> (Vec<u8>, Option<TransportFailure>) {
    let mut all = Vec::new();
    let failure = loop {
        match within(body.chunk()).await {
            Ok(Some(piece)) => {
                assert!(!piece.is_empty(), "a piece is never empty");
                all.extend_from_slice(&piece);
            }
            Ok(None) => break None,
            Err(failure) => break Some(failure),
        }
    };
    assert_eq!(within(body.chunk()).await, Ok(None));
    assert_eq!(within(body.chunk()).await, Ok(None));
    (all, failure)
}

/// One accepted connection.
pub(crate) struct Peer<S = TcpStream> {
    pub(crate) stream: S,
    read: Vec<u8>,
}

impl Peer {
    pub(crate) async fn accept(listener: &TcpListener) -> Self {
        let (stream, _) = within(listener.accept()).await.unwrap();
        Self::over(stream)
    }

    /// Breaks the connection with a TCP reset.
    pub(crate) fn rst(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> Peer<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            read: Vec::new(),
        }
    }

    /// Reads one whole HTTP/1.1 request and returns it as text.
    pub(crate) async fn request(&mut self) -> String {
        within(self.until(|read| {
            let text = String::from_utf8_lossy(read).into_owned();
            let (head, body) = text.split_once("\r\n\r\n")?;
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            (body.len() >= length).then_some((read.len(), text))
        }))
        .await
    }

    /// Reads the HTTP/2 preface and frames until a stream of the client is whole;
    /// returns the frames as (type, flags, stream, payload).
    pub(crate) async fn request2(&mut self) -> Vec<(u8, u8, u32, Vec<u8>)> {
        if self.until_preface().await {
            let mut frames = Vec::new();
            loop {
                let frame = self.frame().await.expect("a request");
                // DATA or HEADERS with END_STREAM.
                let whole = matches!(frame.0, 0 | 1) && frame.1 & 1 == 1;
                frames.push(frame);
                if whole {
                    return frames;
                }
            }
        }
        panic!("expected the preface");
    }

    async fn until_preface(&mut self) -> bool {
        within(self.until(|read| {
            (read.len() >= PREFACE.len()).then(|| (PREFACE.len(), read.starts_with(PREFACE)))
        }))
        .await
    }

    /// The next HTTP/2 frame, or `None` at the end of the connection.
    pub(crate) async fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        loop {
            if let Some(head) = self.read.first_chunk::<9>().copied() {
                let length =
                    usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
                if self.read.len() >= 9 + length {
                    let payload = self.read[9..9 + length].to_vec();
                    self.read.drain(..9 + length);
                    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                    return Some((head[3], head[4], stream, payload));
                }
            }
            if !self.more().await {
                return None;
            }
        }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Reads anything at all.
    pub(crate) async fn some(&mut self) {
        assert!(within(self.more()).await, "the client left");
    }

    /// As `send`, to a client that may have left.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.ok();
    }

    /// Says that nothing more will come.
    pub(crate) async fn close_writing(&mut self) {
        self.stream.shutdown().await.ok();
    }

    /// Says that nothing more will come, and reads until the client says so too:
    /// closing with unread bytes would be a reset.
    pub(crate) async fn fin(mut self) {
        self.close_writing().await;
        self.gone().await;
    }

    /// Waits until the client has closed the connection.
    pub(crate) async fn gone(&mut self) {
        while within(self.more()).await {}
    }

    async fn until<T>(&mut self, mut done: impl FnMut(&[u8]) -> Option<(usize, T)>) -> T {
        loop {
            if let Some((used, value)) = done(&self.read) {
                self.read.drain(..used);
                return value;
            }
            assert!(
                self.more().await,
                "the client left in the middle of a request"
            );
        }
    }

    async fn more(&mut self) -> bool {
        matches!(self.stream.read_buf(&mut self.read).await, Ok(n) if n > 0)
    }
}
