//! From the client's errors to [`TransportFailure`].
//!
//! The client's own words are not passed on: they may hold a URL, or what a peer
//! wrote into a GOAWAY frame. What is judged are types, kinds and codes, found by
//! walking the chain of sources; every sentence is ours.
//!
//! # What counts as not sent
//!
//! - Anything while looking up the name, connecting or shaking hands.
//! - A request that the connection never took up.
//! - A stream refused with `REFUSED_STREAM`, or above the last stream of a GOAWAY
//!   frame: the server guarantees that it did not process it (RFC 9113 section
//!   8.7). One crack is known: a stream opened in the very moment in which a first,
//!   open-ended GOAWAY comes in is told as not sent, though the server might still
//!   take it; the stream is cancelled at once.
//!
//! Everything else counts as sent, a request that was cut after its first byte
//! included.

use crate::error::ErrorKind;
use crate::proto::model::TransportFailure;
use std::error::Error as StdError;
use std::io;

/// The longest text taken over from TLS, in characters: the peer's certificate
/// has a say in it.
const TLS_TEXT_LIMIT: usize = 200;

/// How many content codings a message names. One is common, two are odd.
const CODINGS_LIMIT: usize = 4;

/// The failure of a request whose response has no head yet.
pub(super) fn of_open(error: &::reqwest::Error, encrypted: bool) -> TransportFailure {
    if error.is_builder() {
        return unsent(
            ErrorKind::Config,
            "expected a request that can be sent, but found an invalid url or header",
        );
    }
    let facts = Facts::of(error);
    if error.is_dns() {
        return unsent(ErrorKind::Dns, "the host name did not resolve");
    }
    if error.is_connect() {
        return of_connect(&facts, error.is_timeout(), encrypted);
    }
    if facts
        .hyper
        .is_some_and(|hyper| hyper.is_canceled() || hyper.is_closed())
    {
        return unsent(
            ErrorKind::ConnectionClosed,
            "the connection was closed before the request was written to it",
        );
    }
    if let Some(h2) = facts.h2.filter(|h2| !h2.is_io()) {
        return of_h2(h2, Phase::Open);
    }
    if let Some(tls) = facts.tls {
        return sent(ErrorKind::Tls, tls_text(tls));
    }
    if facts.hyper.is_some_and(hyper::Error::is_parse) {
        return sent(
            ErrorKind::Protocol,
            "expected an http response, but found something else",
        );
    }
    match facts.io {
        Some(kind) if breaks(kind) => sent(
            ErrorKind::Reset,
            format!("the connection broke before a response came: {kind}"),
        ),
        _ => sent(
            ErrorKind::ConnectionClosed,
            "the connection was closed before a response came",
        ),
    }
}

/// The failure of a body that was being read.
pub(super) fn of_body(error: &::reqwest::Error) -> TransportFailure {
    let facts = Facts::of(error);
    if let Some(h2) = facts.h2.filter(|h2| !h2.is_io()) {
        return of_h2(h2, Phase::Body);
    }
    if let Some(tls) = facts.tls {
        return sent(ErrorKind::Tls, tls_text(tls));
    }
    match facts.io {
        Some(kind) if breaks(kind) => sent(
            ErrorKind::Reset,
            format!("the connection broke in the middle of the body: {kind}"),
        ),
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => sent(
            ErrorKind::BodyFraming,
            "expected the framing of a chunked body, but found something else",
        ),
        _ => sent(
            ErrorKind::BodyFraming,
            "expected the rest of the body, but found the end of the connection",
        ),
    }
}

/// The failure of a gzip body that HTTP delivered whole.
pub(super) fn of_gzip() -> TransportFailure {
    sent(
        ErrorKind::Decode,
        "expected a whole gzip body, but found one that is cut or corrupt",
    )
}

/// The refusal of a body in codings that are not decoded here.
pub(super) fn of_codings(codings: &[String]) -> TransportFailure {
    // Registered codings, and the old spellings of RFC 9110 section 8.4.1. A name
    // that is not among them could be any text.
    const KNOWN: [&str; 9] = [
        "br",
        "compress",
        "dcb",
        "dcz",
        "deflate",
        "gzip",
        "x-compress",
        "x-gzip",
        "zstd",
    ];
    let mut names: Vec<_> = codings
        .iter()
        .take(CODINGS_LIMIT)
        .map(|coding| {
            KNOWN
                .into_iter()
                .find(|known| known.eq_ignore_ascii_case(coding))
                .map_or("an unknown one", |_| coding.as_str())
        })
        .collect();
    if codings.len() > CODINGS_LIMIT {
        names.push("more");
    }
    sent(
        ErrorKind::Decode,
        format!(
            "expected the content coding identity or gzip, but found {}",
            names.join(", ")
        ),
    )
}

/// No connection came about; the head of the request was not written yet.
fn of_connect(facts: &Facts<'_>, timed_out: bool, encrypted: bool) -> TransportFailure {
    if let Some(tls) = facts.tls {
        return unsent(ErrorKind::Tls, tls_text(tls));
    }
    // A limit of ours may come up as the connector's own error of this kind; only
    // the system's has a number.
    if facts.io == Some(io::ErrorKind::TimedOut) && facts.by_the_system {
        return unsent(
            ErrorKind::ConnectTimeout,
            "no connection before the system gave up",
        );
    }
    if timed_out || facts.io == Some(io::ErrorKind::TimedOut) {
        return unsent(
            ErrorKind::ConnectTimeout,
            "no connection within the connect limit",
        );
    }
    match facts.io {
        // TCP alone does not end this way: the peer had accepted and then left
        // the handshake.
        Some(
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe,
        ) if encrypted => unsent(
            ErrorKind::Tls,
            "the connection was closed during the tls handshake",
        ),
        Some(kind) => unsent(
            ErrorKind::Connect,
            format!("no connection could be made: {kind}"),
        ),
        None => unsent(ErrorKind::Connect, "no connection could be made"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Body,
}

/// An error of the HTTP/2 protocol, not of the connection under it.
fn of_h2(h2: &h2::Error, phase: Phase) -> TransportFailure {
    let code = h2.reason().map_or(0, u32::from);
    let name = h2.reason().map_or("unknown", |reason| reason_name(reason));
    if h2.is_library() {
        let kind = match phase {
            Phase::Open => ErrorKind::Protocol,
            Phase::Body => ErrorKind::BodyFraming,
        };
        return sent(
            kind,
            format!("expected http/2 frames by the rules, but found a violation: {name} ({code})"),
        );
    }
    if h2.is_reset() {
        let refused = phase == Phase::Open
            && h2.is_remote()
            && h2.reason() == Some(h2::Reason::REFUSED_STREAM);
        return TransportFailure {
            kind: ErrorKind::Reset,
            sent: !refused,
            message: format!("the http/2 stream was reset: {name} ({code})"),
        };
    }
    if h2.is_go_away() {
        return TransportFailure {
            kind: ErrorKind::Reset,
            sent: !(phase == Phase::Open && h2.is_remote()),
            message: format!(
                "the server is closing the http/2 connection and did not take this stream: {name} ({code})"
            ),
        };
    }
    sent(
        ErrorKind::Reset,
        format!("the http/2 stream broke: {name} ({code})"),
    )
}

/// The name of an error code in RFC 9113 section 7.
fn reason_name(reason: h2::Reason) -> &'static str {
    match reason {
        h2::Reason::NO_ERROR => "NO_ERROR",
        h2::Reason::PROTOCOL_ERROR => "PROTOCOL_ERROR",
        h2::Reason::INTERNAL_ERROR => "INTERNAL_ERROR",
        h2::Reason::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
        h2::Reason::SETTINGS_TIMEOUT => "SETTINGS_TIMEOUT",
        h2::Reason::STREAM_CLOSED => "STREAM_CLOSED",
        h2::Reason::FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR",
        h2::Reason::REFUSED_STREAM => "REFUSED_STREAM",
        h2::Reason::CANCEL => "CANCEL",
        h2::Reason::COMPRESSION_ERROR => "COMPRESSION_ERROR",
        h2::Reason::CONNECT_ERROR => "CONNECT_ERROR",
        h2::Reason::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
        h2::Reason::INADEQUATE_SECURITY => "INADEQUATE_SECURITY",
        h2::Reason::HTTP_1_1_REQUIRED => "HTTP_1_1_REQUIRED",
        _ => "unknown",
    }
}

/// Whether the connection was broken, rather than closed in an orderly way.
fn breaks(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            // The keepalive probes found nobody.
            | io::ErrorKind::TimedOut
    )
}

fn tls_text(error: &rustls::Error) -> String {
    let text: String = error
        .to_string()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(TLS_TEXT_LIMIT)
        .collect();
    format!("tls failed: {text}")
}

fn unsent(kind: ErrorKind, message: impl Into<String>) -> TransportFailure {
    TransportFailure {
        kind,
        sent: false,
        message: message.into(),
    }
}

fn sent(kind: ErrorKind, message: impl Into<String>) -> TransportFailure {
    TransportFailure {
        kind,
        sent: true,
        message: message.into(),
    }
}

/// What the chain of sources holds, the deepest of each type.
#[derive(Default)]
struct Facts<'a> {
    hyper: Option<&'a hyper::Error>,
    h2: Option<&'a h2::Error>,
    tls: Option<&'a rustls::Error>,
    /// Whether the last I/O error has a number of the system.
    by_the_system: bool,
    io: Option<io::ErrorKind>,
}

impl<'a> Facts<'a> {
    fn of(error: &'a (dyn StdError + 'static)) -> Self {
        let mut facts = Self::default();
        let mut next = Some(error);
        while let Some(error) = next {
            next = error.source();
            if let Some(hyper) = error.downcast_ref::<hyper::Error>() {
                facts.hyper = Some(hyper);
            } else if let Some(h2) = error.downcast_ref::<h2::Error>() {
                facts.h2 = Some(h2);
                // It does not name the I/O error in it as its source.
                next = h2.get_io().map(|io| io as _);
            } else if let Some(tls) = error.downcast_ref::<rustls::Error>() {
                facts.tls = Some(tls);
            } else if let Some(io) = error.downcast_ref::<io::Error>() {
                facts.io = Some(io.kind());
                facts.by_the_system = io.raw_os_error().is_some();
                // Its source is that of the error inside it, so the one inside
                // would be passed over.
                next = io.get_ref().map(|inner| inner as _);
            }
        }
        facts
    }
}
