//! How journals are laid out in sled: keys, packed values, and what stands of a
//! journal beside its records. `docs/journal-format.md` draws it.

use crate::error::{Error, ErrorKind, Result};
use crate::proto::journal::{End, Status};
use crate::proto::model::{Generation, Seq, WallTime};
use crate::store::entry::{Entry, Tail};
use bytes::BufMut;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The layout that is written.
pub(super) const LAYOUT: u32 = 1;
/// What the default tree says the database is.
pub(super) const KIND: &[u8] = b"streamkeep journal store";

/// Bytes of a packed value before its frames.
pub(super) const VALUE_HEADER: usize = 32;

const VALUE_VERSION: u8 = 1;
const ENTRY_VERSION: u8 = 1;

/// A journal as it is kept in the tree `keys`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    /// Its tail is the one it had when it was written; the records say how far
    /// the journal has come since.
    pub(super) entry: Entry,
    /// By generation, ascending; the last is the current one.
    pub(super) runs: Vec<Run>,
}

/// One generation of one journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) generation: Generation,
    pub(super) id: u64,
    /// The bucket it is in.
    pub(super) bucket: u64,
}

impl Stored {
    pub(super) fn run(&self, generation: Generation) -> Option<Run> {
        self.runs
            .iter()
            .find(|run| run.generation == generation)
            .copied()
    }

    pub(super) fn current(&self) -> Option<Run> {
        self.runs.last().copied()
    }
}

/// The name of a bucket's folder.
pub(super) fn bucket_name(serial: u64) -> String {
    format!("{serial:016x}")
}

/// The number of the bucket whose folder has this name.
pub(super) fn bucket_serial(name: &str) -> Option<u64> {
    let serial = u64::from_str_radix(name, 16).ok()?;
    (bucket_name(serial) == name).then_some(serial)
}

/// Where the value begins that has this record first.
pub(super) fn value_key(run: u64, first: Seq) -> [u8; 16] {
    let mut key = [0; 16];
    let mut rest = &mut key[..];
    rest.put_u64(run);
    rest.put_u64(first.get());
    key
}

/// The first record of the value under this key.
pub(super) fn first_of_key(key: &[u8]) -> Option<Seq> {
    let (_run, first) = key.split_first_chunk::<8>()?;
    Some(Seq::new(u64::from_be_bytes(first.try_into().ok()?)))
}

/// Fills in the header of a packed value; `tail` is the run's after it.
pub(super) fn seal(key: &[u8; 16], value: &mut [u8], count: u32, tail: &Tail) {
    let Some((header, _frames)) = value.split_at_mut_checked(VALUE_HEADER) else {
        return;
    };
    let mut rest = &mut *header;
    rest.put_u32_le(0);
    rest.put_u8(VALUE_VERSION);
    rest.put_u8(status_code(tail.status));
    rest.put_u16_le(0);
    rest.put_u32_le(count);
    rest.put_u32_le(0);
    rest.put_u64_le(tail.updated_at.as_millis());
    rest.put_u64_le(tail.bytes);
    let sum = checksum(key, header);
    if let Some(crc) = header.first_chunk_mut::<4>() {
        *crc = sum.to_le_bytes();
    }
}

/// Reads the header of a packed value: how far the run has come with it. `None`
/// when it is not what was written under this key.
pub(super) fn unseal(key: &[u8], value: &[u8]) -> Option<Tail> {
    let header = value.first_chunk::<VALUE_HEADER>()?;
    let (crc, rest) = header.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*crc) != checksum(key, header) {
        return None;
    }
    let (version, rest) = rest.split_first()?;
    let (status, rest) = rest.split_first()?;
    let (_zero, rest) = rest.split_first_chunk::<2>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let (_zero, rest) = rest.split_first_chunk::<4>()?;
    let (at, rest) = rest.split_first_chunk::<8>()?;
    let (bytes, _) = rest.split_first_chunk::<8>()?;
    if *version != VALUE_VERSION {
        return None;
    }
    let count = u64::from(u32::from_le_bytes(*count)).checked_sub(1)?;
    Some(Tail {
        head: first_of_key(key)?.plus(count),
        status: status_of(*status)?,
        updated_at: WallTime::from_millis(u64::from_le_bytes(*at)),
        bytes: u64::from_le_bytes(*bytes),
    })
}

fn checksum(key: &[u8], header: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(key);
    crc.update(header.get(4..).unwrap_or_default());
    crc.finalize()
}

/// An entry of the trees `keys` and `gone`.
pub(super) fn pack<T: Serialize>(entry: &T) -> Result<Vec<u8>> {
    let mut out = vec![0, 0, 0, 0, ENTRY_VERSION];
    serde_json::to_writer(&mut out, entry).map_err(|error| {
        Error::new(
            ErrorKind::Internal,
            "expected an entry that can be written as JSON",
        )
        .with_source(error)
    })?;
    let sum = crc32fast::hash(out.get(4..).unwrap_or_default());
    if let Some(crc) = out.first_chunk_mut::<4>() {
        *crc = sum.to_le_bytes();
    }
    Ok(out)
}

/// Reads what [`pack`] wrote.
pub(super) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let damaged = |what: &str| {
        Error::new(
            ErrorKind::StoreCorrupt,
            format!("expected the entry of a journal, but found {what}"),
        )
    };
    let (crc, rest) = bytes
        .split_first_chunk::<4>()
        .ok_or_else(|| damaged("too few bytes"))?;
    if crc32fast::hash(rest) != u32::from_le_bytes(*crc) {
        return Err(damaged("another checksum"));
    }
    match rest.split_first() {
        Some((&ENTRY_VERSION, json)) => {
            serde_json::from_slice(json).map_err(|error| damaged("other JSON").with_source(error))
        }
        _ => Err(damaged("one of another version")),
    }
}

const fn status_code(status: Status) -> u8 {
    match status {
        Status::Running => 0,
        Status::Interrupted => 1,
        Status::Ended(End::Complete) => 2,
        Status::Ended(End::Claimed) => 3,
        Status::Ended(End::Truncated) => 4,
        Status::Ended(End::Refused) => 5,
        Status::Ended(End::Filtered) => 6,
        Status::Ended(End::Failed) => 7,
        Status::Ended(End::Cancelled) => 8,
    }
}

const fn status_of(code: u8) -> Option<Status> {
    Some(match code {
        0 => Status::Running,
        1 => Status::Interrupted,
        2 => Status::Ended(End::Complete),
        3 => Status::Ended(End::Claimed),
        4 => Status::Ended(End::Truncated),
        5 => Status::Ended(End::Refused),
        6 => Status::Ended(End::Filtered),
        7 => Status::Ended(End::Failed),
        8 => Status::Ended(End::Cancelled),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_believed_under_its_own_key_only() {
        let mut value = vec![0; VALUE_HEADER];
        value.extend(b"frames");
        let key = value_key(3, Seq::new(17));
        let tail = Tail {
            head: Seq::new(20),
            status: Status::Ended(End::Refused),
            updated_at: WallTime::from_millis(9),
            bytes: 1234,
        };
        seal(&key, &mut value, 4, &tail);
        assert_eq!(unseal(&key, &value), Some(tail));
        assert_eq!(unseal(&value_key(3, Seq::new(18)), &value), None);
        assert_eq!(unseal(&value_key(4, Seq::new(17)), &value), None);
        for at in 0..VALUE_HEADER {
            let mut bad = value.clone();
            bad[at] ^= 1;
            assert_eq!(unseal(&key, &bad), None, "byte {at}");
        }
    }

    #[test]
    fn every_status_has_a_code_of_its_own_that_leads_back_to_it() {
        let mut known = 0;
        for code in 0..=u8::MAX {
            if let Some(status) = status_of(code) {
                assert_eq!(status_code(status), code);
                known += 1;
            }
        }
        assert_eq!(known, 9);
    }

    #[test]
    fn keys_order_by_run_and_then_by_record() {
        let keys = [(1, 1), (1, 2), (1, 256), (2, 1), (256, 1)]
            .map(|(run, first)| value_key(run, Seq::new(first)));
        assert!(keys.is_sorted());
        assert_eq!(first_of_key(&keys[2]), Some(Seq::new(256)));
    }

    #[test]
    fn a_bucket_is_found_by_its_name() {
        assert_eq!(bucket_serial(&bucket_name(0xab)), Some(0xab));
        for other in [
            "",
            "ab",
            "+0000000000000ab",
            "00000000000000AB",
            "lost+found",
        ] {
            assert_eq!(bucket_serial(other), None);
        }
    }

    #[test]
    fn an_entry_with_a_flipped_bit_is_corrupt() {
        let good = pack(&(1, "x")).unwrap();
        assert_eq!(unpack::<(u8, String)>(&good).unwrap(), (1, "x".to_owned()));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            let error = unpack::<(u8, String)>(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StoreCorrupt);
        }
    }
}
