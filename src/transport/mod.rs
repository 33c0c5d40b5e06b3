//! How upstream requests leave the process. Floor 3.
//!
//! The trait and nothing else stands here; each adapter has a file of its own:
//! the one over sockets (feature `reqwest`) and the one that plays scripts from
//! memory (feature `testkit`).

#[cfg(any(test, feature = "testkit"))]
pub mod memory;
#[cfg(feature = "reqwest")]
mod reqwest;

#[cfg(feature = "reqwest")]
pub use self::reqwest::{ReqwestTransport, ReqwestTransportBuilder};

use crate::proto::model::{HttpRequest, ResponseHead, TransportFailure};
use bytes::Bytes;
use futures_core::future::BoxFuture;
use secrecy::SecretString;
use std::fmt;

/// A request with its credential.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The request.
    pub request: HttpRequest,
    /// Headers whose values are secret, such as `authorization`. One of them
    /// takes the place of every ordinary header of the same name, so that a
    /// caller's header can never be sent beside the credential.
    pub secret_headers: Vec<(String, SecretString)>,
}

/// Sends requests and streams responses back.
///
/// One call of [`open`](Self::open) is one attempt: at most one copy of the
/// request reaches the other side. Trying again is the business of the driver,
/// which counts what it does.
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends a request and waits for the response's head.
    ///
    /// There is no limit of time in here but the one for connecting: how long to
    /// wait for a head is for the operation's clocks to say.
    ///
    /// # Errors
    ///
    /// [`TransportFailure`] says what broke and whether anything was sent. A
    /// status such as 500 is not an error here. Redirects are not followed: a 3xx
    /// is a status like any other.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection, or resets the HTTP/2 stream.
    fn open(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Response, TransportFailure>>;
}

/// A response whose body is still to come.
#[derive(Debug)]
pub struct Response {
    /// Status and headers. A `content-encoding` other than identity is there only
    /// if the body is still in it: an adapter that decodes takes the header away.
    pub head: ResponseHead,
    /// The body.
    pub body: Box<dyn Body>,
}

/// The body of a response, piece by piece.
///
/// Dropping it closes the exchange: an upstream that watches its connection
/// stops generating.
///
/// One task reads a body, through `&mut`; so it has to be `Send`, but not `Sync`.
pub trait Body: fmt::Debug + Send {
    /// The next piece, never an empty one, or `None` after a clean end. After
    /// `None` or an error the body yields `None` for ever: an error is told once.
    ///
    /// A clean end says that the framing of HTTP was kept, and nothing about the
    /// answer inside it.
    ///
    /// # Errors
    ///
    /// [`TransportFailure`] with [`sent`](TransportFailure::sent) set: whoever
    /// answered has had the request.
    ///
    /// # Cancel safety
    ///
    /// A future dropped before it was ready loses nothing.
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportFailure>>;
}
