//! Systems without Unix domain sockets: nobody answers.

use super::Gone;
use crate::feed::Wish;
use crate::line::Line;
use crate::report::{Entry, Report, Wanted};
use crate::verdict::Verdict;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use streamkeep::{Client, Error, Key, Result};

/// A connection that there never is.
#[derive(Debug)]
pub(crate) struct Connection(Infallible);

/// Records that never come.
#[derive(Debug)]
pub(crate) struct Following(Infallible);

impl Connection {
    #[expect(clippy::unused_async, reason = "the same shape as on Unix")]
    pub(crate) async fn open(_folder: &Path) -> Result<Option<Self>> {
        Ok(None)
    }

    pub(crate) fn in_use(&self, _folder: &Path) -> Error {
        match self.0 {}
    }

    pub(crate) async fn list(self) -> Result<Vec<Entry>> {
        match self.0 {}
    }

    pub(crate) async fn show(self, _wanted: Wanted) -> Result<Report> {
        match self.0 {}
    }

    pub(crate) async fn cancel(self, _key: &Key) -> Result<Verdict> {
        match self.0 {}
    }

    pub(crate) async fn follow(self, _wish: &Wish) -> Result<Following> {
        match self.0 {}
    }
}

impl Following {
    pub(crate) async fn next(&mut self) -> Result<Option<Line>, Gone> {
        match self.0 {}
    }
}

/// A server that serves nobody.
#[derive(Debug)]
pub(crate) struct Server;

impl Server {
    #[expect(clippy::unnecessary_wraps, reason = "the same shape as on Unix")]
    pub(crate) fn start(
        _folder: &Path,
        _client: &Client,
        _doing: &'static str,
    ) -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn names(&self, _key: &Key) {}

    pub(crate) fn socket(&self) -> PathBuf {
        PathBuf::new()
    }

    #[expect(clippy::unused_async, reason = "the same shape as on Unix")]
    pub(crate) async fn stop(self) {}
}
