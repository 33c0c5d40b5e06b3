//! A client without an HTTP library: it shows the bytes that came, and how the
//! connection ended.

use serde_json::Value;
use std::future::Future;
use std::io::ErrorKind;
use std::time::Duration;
use streamkeep::proto::model::Dialect;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Fin,
    Rst,
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// The last chunk came, or exactly the bytes announced.
    Whole,
    /// It broke off before that.
    Short,
    /// A chunk size is no number.
    Garbage,
    /// More came than was announced.
    Surplus,
}

/// What came over one connection.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    /// Everything after the head.
    pub(crate) rest: Vec<u8>,
    pub(crate) end: End,
}

/// A hang is a failure, not a wait for ever.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what)
        .await
        .expect("still waiting after 30 s")
}

pub(crate) fn path(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiChat => "/v1/chat/completions",
        Dialect::OpenAiResponses => "/v1/responses",
        Dialect::AnthropicMessages => "/v1/messages",
        Dialect::GeminiGenerate => "/v1beta/models/m:streamGenerateContent?alt=sse",
        other => panic!("no path for {other}"),
    }
}

pub(crate) const STREAM: &str =
    r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;

pub(crate) const BACKGROUND: &str = r#"{"model":"m","stream":true,"background":true,"input":"hi"}"#;

pub(crate) fn request(method: &str, target: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Connects and sends a request.
pub(crate) async fn open(url: &str, method: &str, target: &str, body: &str) -> TcpStream {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(request(method, target, body).as_bytes())
        .await
        .unwrap();
    stream
}

/// Reads to the connection's end.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> Received {
    let mut bytes = Vec::new();
    let end = loop {
        match soon(stream.read_buf(&mut bytes)).await {
            Ok(0) => break End::Fin,
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => break End::Rst,
            Err(e) => panic!("{e}"),
        }
    };
    let (head, rest) = match find(&bytes, b"\r\n\r\n") {
        Some(at) => (bytes[..at].to_vec(), bytes[at + 4..].to_vec()),
        None => (bytes, Vec::new()),
    };
    Received {
        head: String::from_utf8(head).unwrap(),
        rest,
        end,
    }
}

/// Reads until this has come; returns all that came.
pub(crate) async fn read_until(stream: &mut TcpStream, needle: &str) -> String {
    let mut bytes = Vec::new();
    while find(&bytes, needle.as_bytes()).is_none() {
        let n = soon(stream.read_buf(&mut bytes)).await.unwrap();
        assert_ne!(n, 0, "closed before {needle:?} came");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One exchange on a connection of its own.
pub(crate) async fn exchange(url: &str, method: &str, target: &str, body: &str) -> Received {
    let mut stream = open(url, method, target, body).await;
    read_to_end(&mut stream).await
}

/// Asks for a stream in a dialect.
pub(crate) async fn ask(url: &str, dialect: Dialect) -> Received {
    exchange(url, "POST", path(dialect), STREAM).await
}

pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

impl Received {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// The chunks of the body, or the body as one chunk if it has a length.
    pub(crate) fn chunks(&self) -> (Vec<Vec<u8>>, BodyEnd) {
        if let Some(length) = self.header("content-length") {
            let length: usize = length.parse().unwrap();
            let end = match self.rest.len().cmp(&length) {
                std::cmp::Ordering::Less => BodyEnd::Short,
                std::cmp::Ordering::Equal => BodyEnd::Whole,
                std::cmp::Ordering::Greater => BodyEnd::Surplus,
            };
            return (vec![self.rest[..length.min(self.rest.len())].to_vec()], end);
        }
        let mut chunks = Vec::new();
        let mut rest = &self.rest[..];
        loop {
            let Some(line) = find(rest, b"\r\n") else {
                return (chunks, BodyEnd::Short);
            };
            let text = std::str::from_utf8(&rest[..line]).unwrap();
            let Ok(size) = usize::from_str_radix(text, 16) else {
                return (chunks, BodyEnd::Garbage);
            };
            rest = &rest[line + 2..];
            if size == 0 {
                assert_eq!(rest, b"\r\n", "nothing follows the last chunk");
                return (chunks, BodyEnd::Whole);
            }
            let had = size.min(rest.len());
            chunks.push(rest[..had].to_vec());
            if rest.len() < size + 2 {
                return (chunks, BodyEnd::Short);
            }
            assert_eq!(&rest[size..size + 2], b"\r\n");
            rest = &rest[size + 2..];
        }
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        self.chunks().0.concat()
    }

    pub(crate) fn body_end(&self) -> BodyEnd {
        self.chunks().1
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body()).unwrap()
    }

    /// The events of the body: name and data. Comments are left out.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let body = String::from_utf8(self.body()).unwrap();
        let (whole, rest) = body.rsplit_once("\n\n").unwrap_or(("", &body));
        assert_eq!(rest, "", "the body ends with a whole event");
        whole
            .split("\n\n")
            .filter(|block| !block.is_empty() && !block.starts_with(':'))
            .map(|block| {
                let field = |name: &str| {
                    block
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .unwrap_or_default()
                        .to_owned()
                };
                (field("event: "), field("data: "))
            })
            .collect()
    }

    /// The payloads of the body's events that are JSON.
    pub(crate) fn payloads(&self) -> Vec<Value> {
        self.events()
            .iter()
            .filter(|(_, data)| data != "[DONE]")
            .map(|(_, data)| serde_json::from_str(data).unwrap_or_else(|e| panic!("{e}: {data}")))
            .collect()
    }
}

/// The answer's text in these payloads.
pub(crate) fn text_of(payloads: &[Value]) -> String {
    payloads
        .iter()
        .filter_map(|payload| {
            payload
                .pointer("/choices/0/delta/content")
                .or_else(|| payload.pointer("/delta/text"))
                .or_else(|| payload.pointer("/candidates/0/content/parts/0/text"))
                .or_else(|| {
                    payload
                        .get("delta")
                        .filter(|_| payload["type"] == "response.output_text.delta")
                })
                .and_then(Value::as_str)
        })
        .collect()
}
