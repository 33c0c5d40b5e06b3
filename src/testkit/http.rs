//! Just enough HTTP/1.1 to read a request and to write a response, by hand.
//!
//! By hand on purpose: a library server would refuse to send a wrong
//! `Content-Length` or a chunk size that is none (RFC 9112 has the grammar).

use bytes::{Bytes, BytesMut};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Most that is accepted of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of the request line and headers.
    pub(crate) head: usize,
    /// Bytes of the body.
    pub(crate) body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: 64 * 1024,
            body: 16 * 1024 * 1024,
        }
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Whether the client speaks HTTP/1.1 or later in the 1 line.
    pub(crate) version_1_1: bool,
    /// Names in lower case, in order of arrival.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Whether the client is ready to send another request on this connection.
    pub(crate) fn wants_keep_alive(&self) -> bool {
        let says = |word: &str| {
            self.header("connection").is_some_and(|v| {
                v.split(',')
                    .any(|token| token.trim().eq_ignore_ascii_case(word))
            })
        };
        if self.version_1_1 {
            !says("close")
        } else {
            says("keep-alive")
        }
    }
}

/// The first header with this (lower-case) name.
pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, v)| v.as_str())
}

/// Why no request could be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The client closed between two requests: the ordinary end.
    Closed,
    /// The client broke off inside a request, or the socket failed.
    Io,
    /// Not HTTP/1.x.
    Malformed(&'static str),
    /// Larger than the limit.
    TooLarge { status: u16, what: &'static str },
}

impl From<io::Error> for ReadError {
    fn from(_: io::Error) -> Self {
        Self::Io
    }
}

/// Reads one whole request; what follows it stays in `buffer`.
///
/// `go_on` is awaited when the client asks to be told before it sends the body
/// (RFC 9110 section 10.1.1); it has the socket's other half.
pub(crate) async fn read_request<R, F>(
    reader: &mut R,
    buffer: &mut BytesMut,
    limits: Limits,
    go_on: F,
) -> Result<Request, ReadError>
where
    R: AsyncRead + Unpin,
    F: AsyncFnOnce() -> io::Result<()>,
{
    let head = read_head(reader, buffer, limits.head).await?;
    let mut request = parse_head(&head)?;
    let chunked = request.header("transfer-encoding").is_some_and(|v| {
        v.rsplit(',')
            .next()
            .is_some_and(|last| last.trim().eq_ignore_ascii_case("chunked"))
    });
    let length = match request.header("content-length") {
        None => 0,
        Some(v) => v
            .parse::<usize>()
            .map_err(|_| ReadError::Malformed("a content-length that is not a number"))?,
    };
    if (chunked || length > 0)
        && request
            .header("expect")
            .is_some_and(|v| v.eq_ignore_ascii_case("100-continue"))
    {
        go_on().await?;
    }
    request.body = if chunked {
        read_chunked(reader, buffer, limits).await?
    } else {
        if length > limits.body {
            return Err(ReadError::TooLarge {
                status: 413,
                what: "body",
            });
        }
        fill(reader, buffer, length).await?;
        buffer.split_to(length).freeze()
    };
    Ok(request)
}

async fn read_head<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut BytesMut,
    limit: usize,
) -> Result<Bytes, ReadError> {
    let mut searched = 0_usize;
    loop {
        // RFC 9112 section 2.2: a server ignores empty lines before a request.
        if searched == 0 {
            while buffer.starts_with(b"\r\n") {
                let _ = buffer.split_to(2);
            }
        }
        let from = searched.saturating_sub(3);
        let window = buffer.get(from..).unwrap_or_default();
        if let Some(at) = memchr::memmem::find(window, b"\r\n\r\n") {
            let head = buffer.split_to(from.saturating_add(at)).freeze();
            let _ = buffer.split_to(4);
            return Ok(head);
        }
        searched = buffer.len();
        if searched > limit {
            return Err(ReadError::TooLarge {
                status: 431,
                what: "head",
            });
        }
        if reader.read_buf(buffer).await? == 0 {
            return Err(if buffer.is_empty() {
                ReadError::Closed
            } else {
                ReadError::Io
            });
        }
    }
}

fn parse_head(head: &[u8]) -> Result<Request, ReadError> {
    let head = std::str::from_utf8(head).map_err(|_| ReadError::Malformed("bytes beyond UTF-8"))?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(ReadError::Malformed("a request line without three parts"));
    };
    if !version.starts_with("HTTP/1.") {
        return Err(ReadError::Malformed("a version other than HTTP/1.x"));
    }
    let headers = lines
        .map(|line| {
            line.split_once(':')
                .filter(|(name, _)| !name.is_empty() && !name.contains([' ', '\t']))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .ok_or(ReadError::Malformed("a header line without a name"))
        })
        .collect::<Result<_, _>>()?;
    Ok(Request {
        method: method.to_owned(),
        target: target.to_owned(),
        version_1_1: version != "HTTP/1.0",
        headers,
        body: Bytes::new(),
    })
}

/// Reads until `buffer` holds at least `n` bytes.
async fn fill<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut BytesMut,
    n: usize,
) -> Result<(), ReadError> {
    while buffer.len() < n {
        if reader.read_buf(buffer).await? == 0 {
            return Err(ReadError::Io);
        }
    }
    Ok(())
}

async fn read_line<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut BytesMut,
    limit: usize,
) -> Result<Bytes, ReadError> {
    loop {
        if let Some(at) = memchr::memmem::find(buffer, b"\r\n") {
            let line = buffer.split_to(at).freeze();
            let _ = buffer.split_to(2);
            return Ok(line);
        }
        if buffer.len() > limit {
            return Err(ReadError::Malformed("a line without an end"));
        }
        if reader.read_buf(buffer).await? == 0 {
            return Err(ReadError::Io);
        }
    }
}

async fn read_chunked<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut BytesMut,
    limits: Limits,
) -> Result<Bytes, ReadError> {
    let mut body = BytesMut::new();
    loop {
        let line = read_line(reader, buffer, limits.head).await?;
        let size = std::str::from_utf8(&line)
            .ok()
            .and_then(|l| l.split(';').next())
            .and_then(|l| usize::from_str_radix(l.trim(), 16).ok())
            .ok_or(ReadError::Malformed("a chunk size that is not a number"))?;
        if size == 0 {
            // Trailers end at an empty line; nobody here needs them.
            while !read_line(reader, buffer, limits.head).await?.is_empty() {}
            return Ok(body.freeze());
        }
        if body.len().saturating_add(size) > limits.body {
            return Err(ReadError::TooLarge {
                status: 413,
                what: "body",
            });
        }
        let with_end = size.saturating_add(2);
        fill(reader, buffer, with_end).await?;
        let chunk = buffer.split_to(with_end);
        body.extend_from_slice(chunk.get(..size).unwrap_or_default());
    }
}

/// The reason phrase of a status; clients ignore it, people read it.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(mut bytes: &[u8]) -> Result<(Request, BytesMut), ReadError> {
        let mut buffer = BytesMut::new();
        let limits = Limits {
            head: 200,
            body: 20,
        };
        let request = read_request(&mut bytes, &mut buffer, limits, async || Ok(())).await?;
        buffer.extend_from_slice(bytes);
        Ok((request, buffer))
    }

    #[tokio::test]
    async fn a_request_with_a_length_ends_where_it_says() {
        let (request, rest) =
            read(b"POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET")
                .await
                .unwrap();
        assert_eq!(
            (request.method.as_str(), request.target.as_str()),
            ("POST", "/a?b")
        );
        assert_eq!(request.header("host"), Some("x"));
        assert_eq!(request.body, "abc");
        assert_eq!(rest, "GET");
        assert!(request.wants_keep_alive());
    }

    #[tokio::test]
    async fn a_chunked_body_is_put_together() {
        let (request, rest) = read(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: Close\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nT: u\r\n\r\nZ",
        )
        .await
        .unwrap();
        assert_eq!(request.body, "abc");
        assert_eq!(rest, "Z");
        assert!(!request.wants_keep_alive());
    }

    #[tokio::test]
    async fn what_is_too_large_or_no_http_is_refused() {
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(400));
        assert!(matches!(
            read(&long.as_bytes()[..300]).await,
            Err(ReadError::TooLarge { status: 431, .. })
        ));
        assert!(matches!(
            read(b"POST / HTTP/1.1\r\nContent-Length: 21\r\n\r\n").await,
            Err(ReadError::TooLarge { status: 413, .. })
        ));
        assert!(matches!(
            read(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n")
                .await,
            Err(ReadError::TooLarge { status: 413, .. })
        ));
        for bad in [
            "HELLO\r\n\r\n",
            "GET / HTTP/2\r\n\r\n",
            "GET / HTTP/1.1\r\nbad\r\n\r\n",
        ] {
            assert!(matches!(
                read(bad.as_bytes()).await,
                Err(ReadError::Malformed(_))
            ));
        }
        assert!(matches!(read(b"").await, Err(ReadError::Closed)));
        assert!(matches!(read(b"GET / HT").await, Err(ReadError::Io)));
    }
}
