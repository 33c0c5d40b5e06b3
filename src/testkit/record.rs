//! What a server saw, and gates to wait for it.

use super::http::{Request, header};
use bytes::Bytes;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// One request, as the server saw it.
///
/// `Debug` shows neither the body nor any header value, because both may hold
/// secrets.
#[derive(Clone)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// Order of arrival, from 1. The number a fault plan goes by.
    pub number: usize,
    /// Number of the connection it came on, from 1.
    pub connection: usize,
    /// The method; empty if the connection was refused before anything was read.
    pub method: String,
    /// The request target: path and query.
    pub target: String,
    /// Headers, names in lower case, in order of arrival.
    pub headers: Vec<(String, String)>,
    /// The body, chunked coding removed.
    pub body: Bytes,
    /// When the request had been read whole.
    pub arrived: Instant,
    /// Events of the response body written so far, whole ones.
    pub events_sent: usize,
    /// Bytes of the response body written so far, without framing.
    pub bytes_sent: u64,
    /// How the exchange ended; `None` while it runs.
    pub end: Option<ExchangeEnd>,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExchangeEnd {
    /// When.
    pub at: Instant,
    /// Who ended it.
    pub by: EndedBy,
}

/// Who ended an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndedBy {
    /// The server sent its response to the end.
    Server,
    /// A fault broke the response off.
    Fault,
    /// The client closed (or half-closed) its connection before the end.
    Client,
}

impl RecordedRequest {
    /// The first header with this name; case does not matter.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The body as JSON, if it is JSON.
    pub fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// When the client closed its connection before the response was over;
    /// `None` if it did not.
    pub fn closed_by_client(&self) -> Option<Instant> {
        self.end
            .filter(|end| end.by == EndedBy::Client)
            .map(|end| end.at)
    }
}

impl fmt::Debug for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(n, _)| n.as_str()).collect();
        f.debug_struct("RecordedRequest")
            .field("number", &self.number)
            .field("connection", &self.connection)
            .field("method", &self.method)
            .field("target", &self.target)
            .field("header_names", &names)
            .field("body_len", &self.body.len())
            .field("events_sent", &self.events_sent)
            .field("bytes_sent", &self.bytes_sent)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// How much of a response has been written.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    events: AtomicUsize,
    bytes: AtomicU64,
}

impl Progress {
    pub(crate) fn add_bytes(&self, n: usize) {
        self.bytes
            .fetch_add(u64::try_from(n).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn add_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }
}

/// The requests a server saw; shared between it and its connections.
#[derive(Debug)]
pub(crate) struct Log {
    entries: Mutex<Entries>,
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Entries {
    requests: Vec<Entry>,
    /// All requests, also those beyond the limit.
    total: usize,
    connections: usize,
    max: usize,
}

#[derive(Debug)]
struct Entry {
    request: RecordedRequest,
    progress: Arc<Progress>,
}

/// A request's place in the log. Ends the exchange when dropped, so that one cut
/// short by its task's end does not look as if it ran.
#[derive(Debug)]
pub(crate) struct Ticket {
    log: Arc<Log>,
    pub(crate) number: usize,
    pub(crate) progress: Arc<Progress>,
}

impl Log {
    /// A log that keeps at most `max` requests; later ones are only counted.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            entries: Mutex::new(Entries {
                requests: Vec::new(),
                total: 0,
                connections: 0,
                max,
            }),
            changed: watch::Sender::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Counts a connection; returns its number.
    pub(crate) fn connected(&self) -> usize {
        let number = {
            let mut entries = self.lock();
            entries.connections = entries.connections.saturating_add(1);
            entries.connections
        };
        self.tell();
        number
    }

    pub(crate) fn connections(&self) -> usize {
        self.lock().connections
    }

    /// Records a request that has been read whole.
    pub(crate) fn arrived(self: &Arc<Self>, connection: usize, request: &Request) -> Ticket {
        // The number and the entry are made under one lock: order of arrival.
        let ticket = self.add(&mut self.lock(), connection, Some(request));
        self.tell();
        ticket
    }

    /// Records a refused connection, if `refuse` says so of the number the next
    /// request will have.
    pub(crate) fn refused(
        self: &Arc<Self>,
        connection: usize,
        refuse: impl FnOnce(usize) -> bool,
    ) -> Option<Ticket> {
        let ticket = {
            let mut entries = self.lock();
            if !refuse(entries.total.saturating_add(1)) {
                return None;
            }
            self.add(&mut entries, connection, None)
        };
        self.tell();
        Some(ticket)
    }

    fn add(
        self: &Arc<Self>,
        entries: &mut Entries,
        connection: usize,
        request: Option<&Request>,
    ) -> Ticket {
        entries.total = entries.total.saturating_add(1);
        let number = entries.total;
        let progress = Arc::new(Progress::default());
        if entries.requests.len() < entries.max {
            entries.requests.push(Entry {
                request: RecordedRequest {
                    number,
                    connection,
                    method: request.map(|r| r.method.clone()).unwrap_or_default(),
                    target: request.map(|r| r.target.clone()).unwrap_or_default(),
                    headers: request.map(|r| r.headers.clone()).unwrap_or_default(),
                    body: request.map(|r| r.body.clone()).unwrap_or_default(),
                    arrived: Instant::now(),
                    events_sent: 0,
                    bytes_sent: 0,
                    end: None,
                },
                progress: Arc::clone(&progress),
            });
        }
        Ticket {
            log: Arc::clone(self),
            number,
            progress,
        }
    }

    /// The requests so far, in order of arrival.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().requests.iter().map(Entry::snapshot).collect()
    }

    /// Waits for `n` requests, then returns what is recorded.
    pub(crate) async fn wait_for_requests(&self, n: usize) -> Vec<RecordedRequest> {
        self.wait(|entries| {
            (entries.total >= n).then(|| entries.requests.iter().map(Entry::snapshot).collect())
        })
        .await
    }

    /// Waits until request `n` is over.
    pub(crate) async fn wait_until_over(&self, n: usize) -> Option<RecordedRequest> {
        self.wait(|entries| {
            if n > entries.max || n == 0 {
                return Some(None);
            }
            entries
                .requests
                .get(n.saturating_sub(1))
                .filter(|entry| entry.request.end.is_some())
                .map(|entry| Some(entry.snapshot()))
        })
        .await
    }

    async fn wait<T>(&self, mut ready: impl FnMut(&Entries) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(value) = ready(&self.lock()) {
                return value;
            }
            // The sender lives as long as `self`.
            let _ = changed.changed().await;
        }
    }
}

impl Entry {
    fn snapshot(&self) -> RecordedRequest {
        RecordedRequest {
            events_sent: self.progress.events.load(Ordering::Relaxed),
            bytes_sent: self.progress.bytes.load(Ordering::Relaxed),
            ..self.request.clone()
        }
    }
}

impl Ticket {
    /// Records how the exchange ended. Only the first call counts.
    pub(crate) fn end(&self, by: EndedBy) {
        {
            let mut entries = self.log.lock();
            let at = self.number.saturating_sub(1);
            let Some(entry) = entries.requests.get_mut(at) else {
                return;
            };
            if entry.request.end.is_some() {
                return;
            }
            entry.request.end = Some(ExchangeEnd {
                at: Instant::now(),
                by,
            });
        }
        self.log.tell();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(EndedBy::Server);
    }
}
