//! The transport over sockets: HTTP/1.1 and HTTP/2, TLS by rustls.
//!
//! reqwest does the work and none of its habits are left to chance, because what
//! is a comfort elsewhere breaks a promise here:
//!
//! - **Nothing is sent twice.** reqwest's retries of refused streams are off. One
//!   rest remains inside its pool: a request that was handed to a pooled
//!   connection and is handed back because that connection died before the first
//!   byte was written goes to another connection. The vendor gives it back only
//!   when it was never started, so there is still one copy on the wire.
//! - **Redirects are not followed**: a POST with a credential must not travel to
//!   where a response says.
//! - **Proxies of the environment are not asked**, unless
//!   [told to](ReqwestTransportBuilder::proxies_from_env); cookies are not kept.
//! - **No limit of time but the one for connecting.** A total limit would cut a
//!   long answer, a read limit a model that thinks; the operation's clocks know
//!   the difference.
//! - **Content codings are not asked for** (`accept-encoding: identity`). One
//!   that comes all the same is decoded as it arrives if it is gzip, and refused
//!   by name otherwise: raw bytes are never passed on as text. Proxies that
//!   compress event streams unasked use gzip. The client's own decoding is off:
//!   it drops all but the first of several gzip members and calls that a clean
//!   end, where some senders write one member per event.
//! - **Trust is Mozilla's roots, compiled in**, and ring does the mathematics.
//!   The platform's verifier, which reqwest would start by default, is not used:
//!   the same binary trusts the same certificates on every machine, and a slim
//!   container needs none installed.
//! - **Bodies are fused** here: the client below repeats an error for ever.
//!
//! # Incomplete
//!
//! - An HTTP/2 server that resets a stream with `NO_ERROR` in the middle of a
//!   body is told as a clean end (RFC 9113 section 8.1 allows the early answer it
//!   stands for). The dialect finds the missing proof of completion.
//! - The name is looked up on a thread of its own by the system's resolver;
//!   giving up on the future does not stop that thread.

mod builder;
mod failure;
mod gzip;
mod request;

pub use builder::ReqwestTransportBuilder;

use super::{Body, Outgoing, Response, Transport};
use crate::error::Result;
use crate::proto::model::{ResponseHead, TransportFailure};
use bytes::Bytes;
use futures_core::future::BoxFuture;
use gzip::Gunzip;
use std::fmt;

/// The transport over sockets.
///
/// Cheap to clone; clones share one pool of connections. It has to be used
/// inside a tokio runtime with its timer and its I/O enabled.
#[derive(Clone)]
pub struct ReqwestTransport {
    client: ::reqwest::Client,
}

impl ReqwestTransport {
    /// A transport with the defaults of [`ReqwestTransportBuilder`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) when TLS cannot be set up.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// Settings to change before building.
    pub fn builder() -> ReqwestTransportBuilder {
        ReqwestTransportBuilder::default()
    }
}

impl fmt::Debug for ReqwestTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client's own output would list its headers.
        f.debug_struct("ReqwestTransport").finish_non_exhaustive()
    }
}

impl Transport for ReqwestTransport {
    fn open(
        &self,
        outgoing: Outgoing,
    ) -> BoxFuture<'_, std::result::Result<Response, TransportFailure>> {
        Box::pin(async move {
            let request = request::build(outgoing)?;
            let encrypted = request.url().scheme() == "https";
            let response = self
                .client
                .execute(request)
                .await
                .map_err(|error| failure::of_open(&error, encrypted))?;
            let mut head = head_of(&response);
            let reading = match codings(&head).as_slice() {
                [] => Reading::Open(response, None),
                [coding] if is_gzip(coding) => {
                    // They describe the bytes before decoding.
                    head.headers
                        .retain(|(name, _)| name != "content-encoding" && name != "content-length");
                    Reading::Open(response, Some(Box::default()))
                }
                // The header stays: it tells whoever reads the head, which says
                // more than a failure could.
                foreign => Reading::Refused(failure::of_codings(foreign)),
            };
            Ok(Response {
                head,
                body: Box::new(ReqwestBody { reading }),
            })
        })
    }
}

struct ReqwestBody {
    reading: Reading,
}

enum Reading {
    Open(::reqwest::Response, Option<Box<Gunzip>>),
    /// The coding is one that we do not decode; told at the first read.
    Refused(TransportFailure),
    Over,
}

impl fmt::Debug for ReqwestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The vendor's output would show the URL.
        let state = match &self.reading {
            Reading::Open(..) => "open",
            Reading::Refused(_) => "refused",
            Reading::Over => "over",
        };
        f.debug_tuple("ReqwestBody").field(&state).finish()
    }
}

impl Body for ReqwestBody {
    fn chunk(&mut self) -> BoxFuture<'_, std::result::Result<Option<Bytes>, TransportFailure>> {
        Box::pin(async move {
            let result = self.reading.next().await;
            if !matches!(result, Ok(Some(_))) {
                // Fused; and the connection is let go of now, not when the caller
                // gets round to dropping the body.
                self.reading = Reading::Over;
            }
            result
        })
    }
}

impl Reading {
    async fn next(&mut self) -> std::result::Result<Option<Bytes>, TransportFailure> {
        let (response, mut gunzip) = match self {
            Self::Open(response, gunzip) => (response, gunzip.as_deref_mut()),
            Self::Refused(failure) => return Err(failure.clone()),
            Self::Over => return Ok(None),
        };
        loop {
            if let Some(gunzip) = &mut gunzip
                && let Some(decoded) = gunzip.next().map_err(|()| failure::of_gzip())?
            {
                return Ok(Some(decoded));
            }
            let piece = response.chunk().await;
            match (
                piece.map_err(|error| failure::of_body(&error))?,
                &mut gunzip,
            ) {
                (Some(piece), Some(gunzip)) => gunzip.feed(piece),
                (Some(piece), None) if piece.is_empty() => {}
                (Some(piece), None) => return Ok(Some(piece)),
                (None, Some(gunzip)) => {
                    return gunzip.end().map(|()| None).map_err(|()| failure::of_gzip());
                }
                (None, None) => return Ok(None),
            }
        }
    }
}

fn head_of(response: &::reqwest::Response) -> ResponseHead {
    ResponseHead {
        status: response.status().as_u16(),
        headers: response
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect(),
    }
}

/// The content codings of the body, outermost last; identity is none.
fn codings(head: &ResponseHead) -> Vec<String> {
    head.headers
        .iter()
        .filter(|(name, _)| name == "content-encoding")
        .flat_map(|(_, value)| value.split(','))
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
        .map(str::to_owned)
        .collect()
}

/// `x-gzip` is an old name of the same (RFC 9110 section 8.4.1.3).
fn is_gzip(coding: &str) -> bool {
    coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip")
}
