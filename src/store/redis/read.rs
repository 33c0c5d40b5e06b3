//! Pages and states.

use super::Shared;
use super::layout::{Bucket, FRAMES, Found, Head, head_of};
use super::scripts::Request;
use crate::error::{Error, ErrorKind, Result};
use crate::proto::model::{Cursor, Generation, Key, Seq};
use crate::store::entry::{deleted, expired, generation_ahead, never_existed, seq_ahead};
use crate::store::pages::{Damage, PageBuilder};
use crate::store::{JournalState, Page, PageLimit};
use bytes::Bytes;
use redis::{Cmd, Value, cmd};

/// Values that are asked for before it is known how large they are. An append is
/// about as large as what a provider sends while the one before it is written.
const FIRST_VALUES: usize = 16;

/// Values that are asked for at most at once.
const MOST_VALUES: usize = 1024;

/// How often a page is read again because the journal changed meanwhile.
const REREADS: usize = 8;

/// A value of a journal's stream: the last record in it, and its frames.
struct Packed {
    last: Seq,
    frames: Bytes,
}

impl Shared {
    /// The records after a cursor.
    pub(super) async fn page(&self, key: &Key, after: Cursor, limit: PageLimit) -> Result<Page> {
        let bucket = self.names.bucket_of(key);
        let mut before: Option<(Generation, u64)> = None;
        for _ in 0..REREADS {
            // What comes first is the stream: what it holds the hash knows of.
            let commands = vec![
                self.range(bucket, key, after, FIRST_VALUES),
                self.hash(bucket, key),
                cmd("TIME"),
            ];
            let request = Request::commands(bucket.slot, commands);
            let answers = self.link.run(&request).await?;
            let [values, hash, time] = three(answers)?;
            let head = self.live(bucket, key, &hash, &time).await?;
            let current = head.state().generation;
            if after.generation > current {
                return Err(generation_ahead(current, after.generation));
            }
            let last = head.last_of(after.generation).ok_or_else(expired)?;
            if after.seq > last {
                return Err(seq_ahead(last, after.seq));
            }
            let values = packed(values, after.generation)?;
            let now = (current, head.token());
            if values.is_empty() && after.seq < last && before != Some(now) {
                // They came after the stream was read, and before the hash was; or
                // the journal is another one now.
                before = Some(now);
                continue;
            }
            return self
                .fill(bucket, key, after, limit, values, last, *head)
                .await;
        }
        Err(Error::new(
            ErrorKind::StoreUnavailable,
            "expected a journal that stays the same while it is read, but found another one each time",
        ))
    }

    /// Reads on until the page is full or the journal's end is reached.
    #[expect(
        clippy::too_many_arguments,
        reason = "the second half of the function above"
    )]
    async fn fill(
        &self,
        bucket: Bucket,
        key: &Key,
        after: Cursor,
        limit: PageLimit,
        mut values: Vec<Packed>,
        last: Seq,
        head: Head,
    ) -> Result<Page> {
        let mut page = PageBuilder::new(after.seq, limit);
        let mut asked = FIRST_VALUES;
        let mut begun = 0_usize;
        'pages: loop {
            let came = values.len();
            let mut bytes = 0_usize;
            let mut at = None;
            for value in values {
                bytes = bytes.saturating_add(value.frames.len());
                at = Some(value.last);
                if !page.add(first_of(&value.frames), value.frames) {
                    break 'pages;
                }
            }
            let Some(at) = at.filter(|at| *at < last && came == asked) else {
                break;
            };
            begun = begun.saturating_add(bytes);
            let each = (bytes / came.max(1)).max(1);
            let wanted = limit.bytes.saturating_sub(begun) / each;
            asked = wanted.saturating_add(1).clamp(1, MOST_VALUES);
            let from = Cursor::new(after.generation, at);
            let range = self.range(bucket, key, from, asked);
            let request = Request::commands(bucket.slot, vec![range]);
            values = packed(self.link.run_one(&request).await?, after.generation)?;
        }
        let records = page
            .finish(last, false)
            .map_err(|damage| gap(damage, last))?;
        Ok(Page {
            records,
            state: head.into_state(),
            head: last,
        })
    }

    /// Where a journal stands.
    pub(super) async fn state_of(&self, key: &Key) -> Result<JournalState> {
        let bucket = self.names.bucket_of(key);
        let commands = vec![self.hash(bucket, key), cmd("TIME")];
        let answers = self
            .link
            .run(&Request::commands(bucket.slot, commands))
            .await?;
        let [hash, time] = two(answers)?;
        let head = self.live(bucket, key, &hash, &time).await?;
        Ok(head.into_state())
    }

    /// The journal that a hash tells of, or why there is none.
    async fn live(
        &self,
        bucket: Bucket,
        key: &Key,
        hash: &Value,
        time: &Value,
    ) -> Result<Box<Head>> {
        match head_of(key, hash)? {
            Found::Live(head) if head.has_vanished(millis(time)?) => Err(expired()),
            Found::Live(head) => Ok(head),
            Found::Gone { deleted: true } => Err(deleted()),
            Found::Gone { deleted: false } => Err(expired()),
            Found::Nothing => {
                let mut score = cmd("ZSCORE");
                score.arg(self.names.vanish(bucket)).arg(key.as_str());
                let commands = vec![score, cmd("TIME"), self.hash(bucket, key)];
                let request = Request::commands(bucket.slot, commands);
                let [score, time, hash] = three(self.link.run(&request).await?)?;
                let vanishes = super::route::text(&score)
                    .and_then(|text| text.parse::<f64>().ok())
                    .unwrap_or(0.0);
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "milliseconds since 1970 are far below 2^53"
                )]
                let is_due = vanishes <= millis(&time)? as f64;
                // Claimed in between, it is too new to be missed.
                if is_due || !matches!(head_of(key, &hash)?, Found::Nothing) {
                    Err(never_existed())
                } else {
                    Err(evicted())
                }
            }
        }
    }

    pub(super) fn hash(&self, bucket: Bucket, key: &Key) -> Cmd {
        let mut all = cmd("HGETALL");
        all.arg(self.names.head(bucket, key));
        all
    }

    /// The values that hold what follows a cursor.
    fn range(&self, bucket: Bucket, key: &Key, after: Cursor, count: usize) -> Cmd {
        let generation = after.generation;
        let mut range = cmd("XRANGE");
        range
            .arg(self.names.records(bucket, key))
            .arg(format!("{generation}-{}", after.seq.next()))
            .arg(format!("{generation}-{}", u64::MAX))
            .arg("COUNT")
            .arg(count);
        range
    }
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

/// The values of an answer to `XRANGE`.
fn packed(answer: Value, generation: Generation) -> Result<Vec<Packed>> {
    let Value::Array(entries) = answer else {
        return Err(odd());
    };
    entries
        .into_iter()
        .map(|entry| packed_of(entry, generation).ok_or_else(odd))
        .collect()
}

fn packed_of(entry: Value, generation: Generation) -> Option<Packed> {
    let Value::Array(parts) = entry else {
        return None;
    };
    let [id, fields] = <[Value; 2]>::try_from(parts).ok()?;
    let (of, last) = super::route::text(&id)?.split_once('-')?;
    if of.parse::<u32>().ok()? != generation.get() {
        return None;
    }
    let Value::Array(fields) = fields else {
        return None;
    };
    let [name, value] = <[Value; 2]>::try_from(fields).ok()?;
    match (name, value) {
        (Value::BulkString(name), Value::BulkString(frames)) if name == FRAMES => Some(Packed {
            last: Seq::new(last.parse().ok()?),
            frames: Bytes::from(frames),
        }),
        _ => None,
    }
}

/// Redis's clock in milliseconds.
pub(super) fn millis(time: &Value) -> Result<u64> {
    let Value::Array(parts) = time else {
        return Err(odd());
    };
    let number = |part: &Value| super::route::text(part)?.parse::<u64>().ok();
    match parts.as_slice() {
        [seconds, micros] => number(seconds)
            .zip(number(micros))
            .map(|(seconds, micros)| seconds.saturating_mul(1000).saturating_add(micros / 1000))
            .ok_or_else(odd),
        _ => Err(odd()),
    }
}

fn two(answers: Vec<Value>) -> Result<[Value; 2]> {
    answers.try_into().map_err(|_| odd())
}

fn three(answers: Vec<Value>) -> Result<[Value; 3]> {
    answers.try_into().map_err(|_| odd())
}

/// The answer to an answer that makes no sense.
pub(super) fn odd() -> Error {
    Error::new(
        ErrorKind::StoreCorrupt,
        "expected what the store's layout says stands in Redis, but found something else",
    )
}
