//! Pages and states.

use super::Shared;
use super::layout::{Found, Head, head_of};
use super::route::text;
use super::scripts::{READ, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::model::{Cursor, Generation, Key, Seq};
use crate::store::entry::{deleted, expired, generation_ahead, never_existed, seq_ahead};
use crate::store::pages::{Damage, PageBuilder};
use crate::store::{JournalState, Page, PageLimit};
use bytes::Bytes;
use redis::Value;

/// Values that are asked for at most at once.
const MOST_VALUES: usize = 1024;

/// A value of a journal's stream: the last record in it, and its frames.
struct Packed {
    last: Seq,
    frames: Bytes,
}

/// What a journal's hash says, and when.
struct Answer {
    hash: Value,
    /// Redis's clock, in milliseconds.
    now: u64,
    /// When the hash was to vanish, for one that is not there.
    vanish: Option<f64>,
    values: Vec<Value>,
}

impl Shared {
    /// The records after a cursor.
    pub(super) async fn page(&self, key: &Key, after: Cursor, limit: PageLimit) -> Result<Page> {
        let mut page = PageBuilder::new(after.seq, limit);
        let mut from = after.seq;
        let (mut left, mut bytes) = (limit.records, limit.bytes);
        loop {
            let wanted = left.clamp(1, MOST_VALUES);
            let request = self.look(key, Cursor::new(after.generation, from), wanted, bytes);
            let answer = Answer::read(self.link.run_one(&request).await?)?;
            let (values, head) = answer.live(key)?;
            let current = head.state().generation;
            if after.generation > current {
                return Err(generation_ahead(current, after.generation));
            }
            let last = head.last_of(after.generation).ok_or_else(expired)?;
            if after.seq > last {
                return Err(seq_ahead(last, after.seq));
            }
            let came = values.len();
            let mut is_full = false;
            for value in values {
                let Packed { last, frames } = packed_of(value, after.generation)?;
                from = last;
                bytes = bytes.saturating_sub(frames.len());
                is_full = !page.add(first_of(&frames), frames);
                if is_full {
                    break;
                }
            }
            // One value may hold many records, and none that counts.
            left = left.saturating_sub(came);
            if is_full || came < wanted || from >= last {
                let records = page
                    .finish(last, false)
                    .map_err(|damage| gap(damage, last))?;
                return Ok(Page {
                    records,
                    state: head.into_state(),
                    head: last,
                });
            }
        }
    }

    /// Where a journal stands.
    pub(super) async fn state_of(&self, key: &Key) -> Result<JournalState> {
        let request = self.look(key, Cursor::START, 0, 0);
        let answer = Answer::read(self.link.run_one(&request).await?)?;
        let (_, head) = answer.live(key)?;
        Ok(head.into_state())
    }

    /// Asks for a journal's hash, and for the values after a cursor: at most so many,
    /// and none after the one that reaches this size.
    pub(super) fn look(&self, key: &Key, after: Cursor, values: usize, bytes: usize) -> Request {
        let bucket = self.names.bucket_of(key);
        let names = [
            self.names.head(bucket, key),
            self.names.records(bucket, key),
            self.names.vanish(bucket),
        ];
        Request::script(bucket.slot, &READ, &names)
            .with(key.as_str())
            .with(after.generation.get())
            .with(after.seq.next().get())
            .with(values)
            .with(bytes.max(1))
    }
}

impl Answer {
    fn read(answer: Value) -> Result<Self> {
        let Value::Array(parts) = answer else {
            return Err(odd());
        };
        let mut parts = parts.into_iter();
        let hash = parts.next().ok_or_else(odd)?;
        let now = parts
            .next()
            .as_ref()
            .and_then(text)
            .and_then(|now| now.parse().ok());
        let vanish = parts
            .next()
            .as_ref()
            .and_then(text)
            .and_then(|at| at.parse().ok());
        Ok(Self {
            hash,
            now: now.ok_or_else(odd)?,
            vanish,
            values: parts.collect(),
        })
    }

    /// The values, and the journal they are of; or why there is none.
    fn live(self, key: &Key) -> Result<(Vec<[Value; 2]>, Box<Head>)> {
        let head = match head_of(key, &self.hash)? {
            Found::Live(head) if head.has_vanished(self.now) => return Err(expired()),
            Found::Live(head) => head,
            Found::Gone { deleted: true } => return Err(deleted()),
            Found::Gone { deleted: false } => return Err(expired()),
            Found::Nothing => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "milliseconds since 1970 are far below 2^53"
                )]
                let now = self.now as f64;
                return Err(match self.vanish {
                    Some(vanish) if now < vanish => evicted(),
                    _ => never_existed(),
                });
            }
        };
        let mut values = Vec::new();
        let mut parts = self.values.into_iter();
        while let (Some(id), Some(frames)) = (parts.next(), parts.next()) {
            values.push([id, frames]);
        }
        Ok((values, head))
    }
}

/// The state in the answer of a script; `None` when there is no journal any more.
pub(super) fn state_in(key: &Key, answer: Value) -> Result<Option<JournalState>> {
    let answer = Answer::read(answer)?;
    Ok(match head_of(key, &answer.hash)? {
        Found::Live(head) if !head.has_vanished(answer.now) => Some(head.into_state()),
        _ => None,
    })
}

/// The answer for a journal that Redis has lost before its time.
pub(super) fn evicted() -> Error {
    Error::new(
        ErrorKind::StoreCorrupt,
        "expected the journal that the store's lists name, but found that Redis has lost it: evicted for want of memory, or removed by somebody else",
    )
}

/// The answer where records are missing.
fn gap(damage: Damage, last: Seq) -> Error {
    let error = Error::new(
        ErrorKind::StoreCorrupt,
        format!(
            "expected record {} of {last}, but found damaged bytes or none: the stream was trimmed, evicted for want of memory, or changed by somebody else",
            damage.seq
        ),
    );
    match damage.source {
        Some(source) => error.with_source(source),
        None => error,
    }
}

/// The first record's number, as the first frame says it; `docs/journal-format.md`
/// has the offsets. It is believed when the frame's checksum holds.
fn first_of(frames: &[u8]) -> Seq {
    let bytes = frames.get(12..20).and_then(|bytes| bytes.try_into().ok());
    Seq::new(bytes.map_or(u64::MAX, u64::from_le_bytes))
}

fn packed_of(value: [Value; 2], generation: Generation) -> Result<Packed> {
    let [id, frames] = value;
    let last = text(&id)
        .and_then(|id| id.split_once('-'))
        .filter(|(of, _)| of.parse() == Ok(generation.get()))
        .and_then(|(_, last)| last.parse().ok());
    match (last, frames) {
        (Some(last), Value::BulkString(frames)) => Ok(Packed {
            last: Seq::new(last),
            frames: Bytes::from(frames),
        }),
        _ => Err(odd()),
    }
}

/// The answer to an answer that makes no sense.
pub(super) fn odd() -> Error {
    Error::new(
        ErrorKind::StoreCorrupt,
        "expected what the store's layout says stands in Redis, but found something else",
    )
}
