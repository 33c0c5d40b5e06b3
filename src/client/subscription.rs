//! A reader of one answer.

use super::wall_clock;
use crate::error::{Error, ErrorKind, Result};
use crate::proto::dialect::{Interpreter, interpreter};
use crate::proto::journal::{Body, Control, Delivered, Record, Status};
use crate::proto::model::{Cursor, Delta, Key};
use crate::proto::sse::Event;
use crate::store::{HeadWatch, PageLimit, Store};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Follows one generation of an answer from a cursor, live and gapless.
///
/// It has no queue: it reads pages of the journal and waits for the store's
/// wake-up in between. It ends after the final record, after an interruption
/// at which the answer rests, or with an error that says why nothing more comes.
#[derive(Debug)]
pub struct Subscription {
    store: Arc<dyn Store>,
    key: Key,
    cursor: Cursor,
    watch: HeadWatch,
    page: VecDeque<Record>,
    done: bool,
    reader: Option<Box<dyn Interpreter>>,
}

/// A wake-up is only a hint; the store is asked again after this long anyway.
const RECHECK: Duration = Duration::from_secs(1);

impl Subscription {
    pub(super) fn new(store: Arc<dyn Store>, key: Key, after: Cursor) -> Self {
        Self {
            // The watcher comes first, so that no append falls between a read
            // and the wait for the next.
            watch: store.watch(&key),
            store,
            key,
            cursor: after,
            page: VecDeque::new(),
            done: false,
            reader: None,
        }
    }

    /// After which record the reader stands. Kept, it continues from there in
    /// another process.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The next record, control records included. `None` after the last one.
    ///
    /// # Errors
    ///
    /// [`CursorAhead`](ErrorKind::CursorAhead), [`OldGeneration`](ErrorKind::OldGeneration)
    /// behind the last record of an answer that a newer one replaced,
    /// [`Expired`](ErrorKind::Expired), [`NotFound`](ErrorKind::NotFound),
    /// [`Truncated`](ErrorKind::Truncated) when the writer died, or a storage
    /// kind. After an error the subscription yields `None`.
    ///
    /// # Cancel safety
    ///
    /// A future dropped before it was ready loses nothing.
    pub async fn next(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some(record) = self.page.pop_front() {
                self.cursor.seq = record.seq;
                return Ok(Some(record));
            }
            if self.done {
                return Ok(None);
            }
            let page = match self
                .store
                .read(&self.key, self.cursor, PageLimit::default())
                .await
            {
                Ok(page) => page,
                Err(error) => {
                    self.done = true;
                    return Err(error);
                }
            };
            if !page.records.is_empty() {
                self.page = page.records.into();
                continue;
            }
            let state = page.state;
            if state.generation != self.cursor.generation {
                self.done = true;
                // The current generation says nothing about whether the old one
                // had ended; its last record does, and it has been delivered.
                return Err(Error::new(
                    ErrorKind::OldGeneration,
                    format!(
                        "generation {} was replaced by {}; read from {}-0",
                        self.cursor.generation, state.generation, state.generation
                    ),
                ));
            }
            match state.status {
                Status::Ended(_) | Status::Interrupted if !state.is_held(wall_clock()) => {
                    self.done = true;
                    return Ok(None);
                }
                Status::Running if !state.is_held(wall_clock()) => {
                    self.done = true;
                    return Err(Error::new(
                        ErrorKind::Truncated,
                        "the process that wrote this answer ended before the answer did; \
                         start it again under the same key, or resume it",
                    ));
                }
                _ => {
                    let _ = timeout(RECHECK, self.watch.changed()).await;
                }
            }
        }
    }

    /// The next event as delivered, with the cursor after it. Control records
    /// are passed over.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Subscription::next`].
    pub async fn next_event(&mut self) -> Result<Option<(Cursor, Delivered)>> {
        while let Some(record) = self.next().await? {
            if let Body::Event(event) = record.body {
                return Ok(Some((
                    Cursor::new(self.cursor.generation, record.seq),
                    event,
                )));
            }
        }
        Ok(None)
    }

    /// The next normalised increments, as far as the reader began at the first
    /// record: which dialect the answer is in stands there.
    ///
    /// # Errors
    ///
    /// As [`Subscription::next`]; [`InvalidCursor`](ErrorKind::InvalidCursor)
    /// when the reader began behind the first record.
    pub async fn next_deltas(&mut self) -> Result<Option<Vec<Delta>>> {
        while let Some(record) = self.next().await? {
            match record.body {
                Body::Control(control) => {
                    if let Control::Opened(opened) = *control {
                        self.reader = Some(interpreter(opened.dialect));
                    }
                }
                Body::Event(delivered) => {
                    let Some(reader) = &mut self.reader else {
                        return Err(Error::new(
                            ErrorKind::InvalidCursor,
                            "expected to read from the first record, which names the dialect",
                        ));
                    };
                    let event = Event::synthetic(delivered.event_name(), delivered.data);
                    let mut deltas = Vec::new();
                    reader.read(&event, &mut deltas).map_err(|error| {
                        Error::new(
                            ErrorKind::StoreCorrupt,
                            "expected events of the journal's dialect",
                        )
                        .with_source(error)
                    })?;
                    if !deltas.is_empty() {
                        return Ok(Some(deltas));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The next piece of the first candidate's text.
    ///
    /// # Errors
    ///
    /// As [`Subscription::next_deltas`].
    pub async fn next_text(&mut self) -> Result<Option<String>> {
        while let Some(deltas) = self.next_deltas().await? {
            let text: String = deltas
                .into_iter()
                .filter_map(|delta| match delta {
                    Delta::Text {
                        choice: 0, text, ..
                    } => Some(text),
                    _ => None,
                })
                .collect();
            if !text.is_empty() {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}
