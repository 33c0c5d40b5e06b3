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
use redis::{Value, cmd};

/// Values that are asked for before it is known how large they are. An append is
/// about as large as what a provider sends while the one before it is written.
const FIRST_VALUES: usize = 16;

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
        let (mut bytes, mut values_so_far) = (0_usize, 0_usize);
        loop {
            let wanted = match bytes / values_so_far.max(1) {
                0 => FIRST_VALUES,
                each => (limit.bytes.saturating_sub(bytes) / each).saturating_add(1),
            };
            let wanted = wanted.clamp(1, MOST_VALUES);
            let at = Cursor::new(after.generation, from);
            let (values, head) = self.look(key, at, wanted, limit.bytes).await?;
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
                values_so_far = values_so_far.saturating_add(1);
                bytes = bytes.saturating_add(frames.len());
                is_full = !page.add(first_of(&frames), frames);
                if is_full {
                    break;
                }
            }
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
        let (_, head) = self.look(key, Cursor::START, 0, 1).await?;
        Ok(head.into_state())
    }

    /// A journal's hash and the values after a cursor, at most so many, as they stood
    /// at one moment.
    async fn look(
        &self,
        key: &Key,
        after: Cursor,
        values: usize,
        bytes: usize,
    ) -> Result<(Vec<[Value; 2]>, Box<Head>)> {
        if !self.link.routes.is_cluster() {
            let request = self.plain_look(key, after, values);
            match self.link.run(&request).await {
                Ok(answers) => {
                    if let Some(answer) = Answer::of_commands(answers)? {
                        return answer.live(key);
                    }
                }
                // A full server begins no transaction, also none that only reads.
                Err(error) if error.kind() == ErrorKind::StoreFull => {}
                Err(error) => return Err(error),
            }
        }
        // A transaction cannot be sent on while a slot is being moved, a script can;
        // and where there is no hash, it knows whether there should be one.
        let request = self.script_look(key, after, values, bytes);
        Answer::of_script(self.link.run_one(&request).await?)?.live(key)
    }

    /// In plain commands: it costs the server a fifth of what a script does.
    fn plain_look(&self, key: &Key, after: Cursor, values: usize) -> Request {
        let bucket = self.names.bucket_of(key);
        let mut hash = cmd("HGETALL");
        hash.arg(self.names.head(bucket, key));
        let mut commands = vec![hash, cmd("TIME")];
        if values > 0 {
            let generation = after.generation;
            let mut range = cmd("XRANGE");
            range
                .arg(self.names.records(bucket, key))
                .arg(format!("{generation}-{}", after.seq.next()))
                .arg(format!("{generation}-{}", u64::MAX))
                .arg("COUNT")
                .arg(values);
            commands.push(range);
        }
        Request::transaction(bucket.slot, commands)
    }

    /// As a script, which gives no value after the one that reaches this size.
    pub(super) fn script_look(
        &self,
        key: &Key,
        after: Cursor,
        values: usize,
        bytes: usize,
    ) -> Request {
        let bucket = self.names.bucket_of(key);
        Request::script(bucket.slot, &READ, &self.names.own(bucket, key))
            .with(key.as_str())
            .with(after.generation.get())
            .with(after.seq.next().get())
            .with(values)
            .with(bytes.max(1))
    }
}

impl Answer {
    /// Of the plain commands; `None` when there is no hash.
    fn of_commands(answers: Vec<Value>) -> Result<Option<Self>> {
        let mut answers = answers.into_iter();
        let (Some(hash), Some(time)) = (answers.next(), answers.next()) else {
            return Err(odd());
        };
        if matches!(&hash, Value::Array(fields) if fields.is_empty()) {
            return Ok(None);
        }
        let mut values = Vec::new();
        if let Some(entries) = answers.next() {
            let Value::Array(entries) = entries else {
                return Err(odd());
            };
            for entry in entries {
                values.extend(entry_of(entry).ok_or_else(odd)?);
            }
        }
        Ok(Some(Self {
            hash,
            now: millis(&time).ok_or_else(odd)?,
            vanish: None,
            values,
        }))
    }

    /// Of the script.
    fn of_script(answer: Value) -> Result<Self> {
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
    let answer = Answer::of_script(answer)?;
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

/// The ID and the frames of an entry of a stream. Of one with other fields than ours
/// there are none.
fn entry_of(entry: Value) -> Option<[Value; 2]> {
    let Value::Array(parts) = entry else {
        return None;
    };
    let [id, fields] = <[Value; 2]>::try_from(parts).ok()?;
    let Value::Array(fields) = fields else {
        return None;
    };
    let frames = match <[Value; 2]>::try_from(fields) {
        Ok([Value::BulkString(name), frames]) if name == b"r" => frames,
        _ => Value::BulkString(Vec::new()),
    };
    Some([id, frames])
}

/// Redis's clock in milliseconds.
fn millis(time: &Value) -> Option<u64> {
    let Value::Array(parts) = time else {
        return None;
    };
    let [seconds, micros] = parts.as_slice() else {
        return None;
    };
    let seconds: u64 = text(seconds)?.parse().ok()?;
    let micros: u64 = text(micros)?.parse().ok()?;
    Some(seconds.saturating_mul(1000).saturating_add(micros / 1000))
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
