//! Talking to the process that has the store open.
//!
//! An embedded store is open in one process at a time. That process answers for
//! it on a Unix domain socket in the store's folder, so that `list`, `show`,
//! `follow` and `cancel` work from another terminal while `send` runs. On other
//! systems there is no socket, and the store's own error says that it is in use.

#[cfg(unix)]
mod client;
#[cfg(unix)]
mod lines;
#[cfg(not(unix))]
mod none;
#[cfg(unix)]
mod protocol;
#[cfg(unix)]
mod server;

#[cfg(unix)]
pub(crate) use client::{Connection, Following};
#[cfg(not(unix))]
pub(crate) use none::{Connection, Following, Server};
#[cfg(unix)]
pub(crate) use server::Server;

use streamkeep::Error;

/// Why a process that answers for a store says nothing more.
#[derive(Debug)]
pub(crate) enum Gone {
    /// It went away in the middle: the store itself may be free now.
    #[cfg_attr(not(unix), expect(dead_code, reason = "there nobody answers"))]
    Lost,
    /// It said why.
    Failed(Error),
}

impl From<Error> for Gone {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
