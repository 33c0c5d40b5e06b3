//! What stands in Redis: the names of keys, and what a journal's hash says.
//! `docs/journal-format.md` draws it.

use crate::error::{Error, ErrorKind};
use crate::proto::journal::{End, Status};
use crate::proto::model::{Fingerprint, Generation, Key, Seq, WallTime};
use crate::store::{JournalState, Lease};
use redis::Value;
use std::collections::HashMap;
use std::time::Duration;

/// The layout that is written.
pub(super) const LAYOUT: &str = "1";
/// What the key `layout` says the keys are.
pub(super) const KIND: &str = "streamkeep journals";

/// The names of keys under one prefix.
///
/// A journal's keys and its bucket's lists share a hash tag, the bucket's number,
/// so that one script can change them together in a cluster too.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: String,
    buckets: u32,
}

/// One bucket's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) number: u32,
    pub(super) slot: u16,
}

impl Names {
    pub(super) fn new(prefix: &str, buckets: u32) -> Self {
        Self {
            prefix: prefix.to_owned(),
            buckets: buckets.max(1),
        }
    }

    /// The key that says what is under the prefix, and its slot.
    pub(super) fn layout(prefix: &str) -> (String, u16) {
        let name = format!("{prefix}:layout");
        let slot = slot_of(name.as_bytes());
        (name, slot)
    }

    pub(super) fn buckets(&self) -> impl Iterator<Item = Bucket> + use<> {
        (0..self.buckets).map(bucket)
    }

    pub(super) fn bucket_of(&self, key: &Key) -> Bucket {
        bucket(crc32fast::hash(key.as_str().as_bytes()) % self.buckets)
    }

    /// The journal's hash.
    pub(super) fn head(&self, bucket: Bucket, key: &Key) -> String {
        format!("{}:{{{}}}:j:{key}", self.prefix, bucket.number)
    }

    /// The journal's stream.
    pub(super) fn records(&self, bucket: Bucket, key: &Key) -> String {
        format!("{}:{{{}}}:r:{key}", self.prefix, bucket.number)
    }

    /// The bucket's journals, by name.
    pub(super) fn names(&self, bucket: Bucket) -> String {
        format!("{}:{{{}}}:names", self.prefix, bucket.number)
    }

    /// The bucket's journals, by when a collection should look at them.
    pub(super) fn due(&self, bucket: Bucket) -> String {
        format!("{}:{{{}}}:due", self.prefix, bucket.number)
    }

    /// The bucket's journals, by when Redis lets go of them by itself.
    pub(super) fn vanish(&self, bucket: Bucket) -> String {
        format!("{}:{{{}}}:vanish", self.prefix, bucket.number)
    }

    /// Where a journal's changes are published.
    pub(super) fn channel(&self, key: &Key) -> String {
        let bucket = self.bucket_of(key);
        format!("{}:{{{}}}:w:{key}", self.prefix, bucket.number)
    }

    /// The journal whose changes are published there.
    pub(super) fn key_of_channel(&self, channel: &str) -> Option<Key> {
        let rest = channel.strip_prefix(&self.prefix)?.strip_prefix(":{")?;
        let (_, key) = rest.split_once("}:w:")?;
        Key::new(key).ok()
    }

    /// What a script about a journal may touch that changes no list of journals.
    pub(super) fn own(&self, bucket: Bucket, key: &Key) -> [String; 3] {
        [
            self.head(bucket, key),
            self.records(bucket, key),
            self.vanish(bucket),
        ]
    }

    /// All that a script about a journal may touch.
    pub(super) fn all(&self, bucket: Bucket, key: &Key) -> [String; 5] {
        let [head, records, vanish] = self.own(bucket, key);
        [head, records, vanish, self.names(bucket), self.due(bucket)]
    }
}

fn bucket(number: u32) -> Bucket {
    Bucket {
        number,
        slot: slot_of(number.to_string().as_bytes()),
    }
}

/// The slot of a hash tag, or of a key without one: CRC-16 (XMODEM) modulo 16,384,
/// as the cluster specification says.
fn slot_of(tag: &[u8]) -> u16 {
    let crc = tag.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            }
        })
    });
    crc % 16_384
}

/// What a journal's hash says.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Nothing,
    Gone { deleted: bool },
    Live(Box<Head>),
}

/// A journal that is there.
#[derive(Clone, Debug)]
pub(super) struct Head {
    state: JournalState,
    token: u64,
    /// The last records of older generations.
    older: HashMap<u32, Seq>,
    /// When Redis lets go of the records, by its own clock in milliseconds.
    vanishes: u64,
}

impl Head {
    pub(super) fn state(&self) -> &JournalState {
        &self.state
    }

    pub(super) fn into_state(self) -> JournalState {
        self.state
    }

    pub(super) fn lease(&self) -> Lease {
        Lease {
            key: self.state.key.clone(),
            generation: self.state.generation,
            token: self.token,
        }
    }

    /// The last record of a generation; `None` if there is none of that number.
    pub(super) fn last_of(&self, generation: Generation) -> Option<Seq> {
        if generation == self.state.generation {
            return Some(self.state.head);
        }
        self.older.get(&generation.get()).copied()
    }

    /// Whether Redis has let go of the records, by its own clock.
    pub(super) fn has_vanished(&self, redis_now: u64) -> bool {
        redis_now >= self.vanishes
    }
}

/// Reads the answer to `HGETALL`.
///
/// # Errors
///
/// [`StoreCorrupt`](ErrorKind::StoreCorrupt) when a field is missing or is not what
/// the layout says.
pub(super) fn head_of(key: &Key, answer: &Value) -> Result<Found, Error> {
    let fields = Fields::read(answer).ok_or_else(|| damaged("a journal's hash"))?;
    if fields.0.is_empty() {
        return Ok(Found::Nothing);
    }
    if let Some(gone) = fields.get("gone") {
        return Ok(Found::Gone {
            deleted: gone == "deleted",
        });
    }
    let generation = fields.number("gen")?;
    let generation = u32::try_from(generation).ok().and_then(Generation::new);
    let lease = match fields.text("lease")? {
        "" => None,
        _ => Some(WallTime::from_millis(fields.number("lease")?)),
    };
    let updated_at = WallTime::from_millis(fields.number("at")?);
    let keep_for = Duration::from_millis(fields.number("keep")?);
    let older = fields.0.iter().filter_map(|(name, value)| {
        let generation = name.strip_prefix("g:")?.parse().ok()?;
        Some((generation, Seq::new(value.parse().ok()?)))
    });
    Ok(Found::Live(Box::new(Head {
        state: JournalState {
            key: key.clone(),
            fingerprint: fingerprint(fields.text("fp")?)?,
            generation: generation.ok_or_else(|| damaged("gen"))?,
            head: Seq::new(fields.number("head")?),
            status: status_of(fields.text("status")?).ok_or_else(|| damaged("status"))?,
            leased_until: lease,
            created_at: WallTime::from_millis(fields.number("made")?),
            updated_at,
            expires_at: updated_at.after(keep_for),
            bytes: fields
                .number("bytes")?
                .saturating_add(fields.number("earlier")?),
        },
        token: fields.number("token")?,
        older: older.collect(),
        vanishes: fields.number("ttl")?,
    })))
}

struct Fields<'a>(HashMap<&'a str, &'a str>);

impl<'a> Fields<'a> {
    fn read(answer: &'a Value) -> Option<Self> {
        let mut fields = HashMap::new();
        match answer {
            Value::Array(parts) => {
                for pair in parts.chunks_exact(2) {
                    if let [name, value] = pair {
                        fields.insert(super::route::text(name)?, super::route::text(value)?);
                    }
                }
            }
            Value::Map(pairs) => {
                for (name, value) in pairs {
                    fields.insert(super::route::text(name)?, super::route::text(value)?);
                }
            }
            _ => return None,
        }
        Some(Self(fields))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied()
    }

    fn text(&self, name: &str) -> Result<&'a str, Error> {
        self.get(name).ok_or_else(|| damaged(name))
    }

    fn number(&self, name: &str) -> Result<u64, Error> {
        self.text(name)?.parse().map_err(|_| damaged(name))
    }
}

fn damaged(what: &str) -> Error {
    Error::new(
        ErrorKind::StoreCorrupt,
        format!(
            "expected the hash of a journal in Redis, but found no field {what} that can be read"
        ),
    )
}

fn fingerprint(text: &str) -> Result<Fingerprint, Error> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|_| damaged("fp"))
}

/// The status of this word.
pub(super) fn status_of(word: &str) -> Option<Status> {
    const ALL: [Status; 9] = [
        Status::Running,
        Status::Interrupted,
        Status::Ended(End::Complete),
        Status::Ended(End::Claimed),
        Status::Ended(End::Truncated),
        Status::Ended(End::Refused),
        Status::Ended(End::Filtered),
        Status::Ended(End::Failed),
        Status::Ended(End::Cancelled),
    ];
    ALL.into_iter().find(|status| status.as_str() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        // The specification's own example, and two that redis-cli names.
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"0"), 13_907);
    }

    #[test]
    fn every_key_of_a_journal_has_its_buckets_tag_and_no_other() {
        let names = Names::new("p", 64);
        for name in ["plain", "{", "}", "{}", "}{x}", "{other}", "a}b{c"] {
            let key = Key::new(name).unwrap();
            let bucket = names.bucket_of(&key);
            let tag = format!("{{{}}}", bucket.number);
            let channel = names.channel(&key);
            for name in names.all(bucket, &key).iter().chain([&channel]) {
                // The tag is what stands between the first { and the next }.
                let open = name.find('{').unwrap();
                let close = name[open..].find('}').unwrap();
                assert_eq!(&name[open..=open + close], tag, "{name}");
            }
            assert_eq!(names.key_of_channel(&channel), Some(key));
        }
        assert_eq!(names.key_of_channel("q:{1}:w:x"), None);
    }

    #[test]
    fn every_status_is_found_by_its_word() {
        for status in [
            Status::Running,
            Status::Interrupted,
            Status::Ended(End::Filtered),
        ] {
            assert_eq!(status_of(status.as_str()), Some(status));
        }
        assert_eq!(status_of("half"), None);
    }

    fn hash(fields: &[(&str, &str)]) -> Value {
        let bulk = |text: &&str| Value::BulkString(text.as_bytes().to_vec());
        let parts = fields
            .iter()
            .flat_map(|(name, value)| [bulk(name), bulk(value)]);
        Value::Array(parts.collect())
    }

    #[test]
    fn a_hash_that_lacks_a_field_is_corrupt_and_an_empty_one_is_nothing() {
        let fp = "07".repeat(32);
        let whole = [
            ("fp", fp.as_str()),
            ("gen", "2"),
            ("token", "9"),
            ("lease", ""),
            ("keep", "1000"),
            ("made", "5"),
            ("at", "6"),
            ("head", "3"),
            ("status", "interrupted"),
            ("bytes", "10"),
            ("earlier", "7"),
            ("ttl", "50"),
            ("g:1", "4"),
        ];
        let key = Key::new("k").unwrap();
        let Found::Live(head) = head_of(&key, &hash(&whole)).unwrap() else {
            panic!("expected a journal");
        };
        assert_eq!(head.state().bytes, 17);
        assert_eq!(head.state().expires_at, WallTime::from_millis(1006));
        assert_eq!(head.last_of(Generation::FIRST), Some(Seq::new(4)));
        assert_eq!(head.last_of(head.state().generation), Some(Seq::new(3)));
        assert!(!head.has_vanished(49) && head.has_vanished(50));
        for at in 0..whole.len() - 1 {
            let mut fields = whole.to_vec();
            fields.remove(at);
            let error = head_of(&key, &hash(&fields)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StoreCorrupt, "{:?}", whole[at]);
            let mut fields = whole.to_vec();
            fields[at].1 = "x";
            let error = head_of(&key, &hash(&fields)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StoreCorrupt, "{:?}", whole[at]);
        }
        assert!(matches!(head_of(&key, &hash(&[])), Ok(Found::Nothing)));
        let gone = hash(&[("gen", "1"), ("gone", "deleted")]);
        assert!(matches!(
            head_of(&key, &gone),
            Ok(Found::Gone { deleted: true })
        ));
    }
}
