//! How upstream requests leave the process. Floor 3.
//!
//! The trait and nothing else stands here; each adapter has a file of its own.

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
    /// Headers whose values are secret, such as `authorization`.
    pub secret_headers: Vec<(String, SecretString)>,
}

/// Sends requests and streams responses back.
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends a request and waits for the response's head.
    ///
    /// # Errors
    ///
    /// [`TransportFailure`] says what broke and whether anything was sent. A
    /// status such as 500 is not an error here. Redirects are not followed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection, or resets the HTTP/2 stream.
    fn open(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Response, TransportFailure>>;
}

/// A response whose body is still to come.
#[derive(Debug)]
pub struct Response {
    /// Status and headers.
    pub head: ResponseHead,
    /// The body.
    pub body: Box<dyn Body>,
}

/// The body of a response, piece by piece.
///
/// Dropping it closes the exchange: an upstream that watches its connection
/// stops generating.
pub trait Body: fmt::Debug + Send {
    /// The next piece, or `None` after a clean end. After `None` or an error the
    /// body yields `None` for ever.
    ///
    /// # Cancel safety
    ///
    /// A future dropped before it was ready loses nothing.
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportFailure>>;
}
