//! A port that refuses connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpSocket;

/// A port of `127.0.0.1` that is taken and on which nobody listens, so that a
/// connection to it is refused.
///
/// It stays taken until the value is dropped. A port that was merely free a
/// moment ago would soon belong to some other server: tests that run side by
/// side ask for ports all the time.
#[derive(Debug)]
pub struct ClosedPort {
    address: SocketAddr,
    _socket: TcpSocket,
}

impl ClosedPort {
    /// Takes a port.
    ///
    /// # Errors
    ///
    /// When no port can be had.
    pub fn take() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self {
            address: socket.local_addr()?,
            _socket: socket,
        })
    }

    /// The base URL: `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
