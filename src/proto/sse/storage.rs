//! Memory for what outlives the chunk it came in.

use bytes::{Buf, Bytes, BytesMut};

use crate::proto::model::Text;

/// Capacity that an idle buffer may keep. Enough for the deltas of every known
/// dialect, small enough that an idle connection costs nothing to speak of.
pub(super) const KEPT: usize = 64 * 1024;

/// Where small copies are made: side by side in blocks, and a block is used
/// again once all its texts are gone. A consumer that drops events as it goes
/// on makes the copies cost no allocation.
#[derive(Debug, Default)]
pub(super) struct Copies {
    block: BytesMut,
    /// The block before. When the block is full it holds parts of the pending
    /// event, so it cannot be used again just then, but this one can.
    before: BytesMut,
}

impl Copies {
    /// Size of a block. A text that is kept keeps its block, so it is small; it
    /// still holds the copies of some thirty deltas.
    const BLOCK: usize = 8 * 1024;

    /// What is larger gets memory of its own, so that the end of a block that
    /// stays unused is at most a quarter of it.
    const SHARED: usize = Self::BLOCK / 4;

    /// A copy of the bytes.
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.is_empty() {
            return Bytes::new();
        }
        if bytes.len() > Self::SHARED {
            return Bytes::copy_from_slice(bytes);
        }
        if !self.block.try_reclaim(bytes.len()) {
            std::mem::swap(&mut self.block, &mut self.before);
            if !self.block.try_reclaim(bytes.len()) {
                self.block = BytesMut::with_capacity(Self::BLOCK);
            }
        }
        self.block.extend_from_slice(bytes);
        self.block.split().freeze()
    }
}

/// A text of the stream's state.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub(super) text: Text,
    /// Whether the text is a slice of the current chunk. It must be copied
    /// before the chunk goes, or a small text would pin a large chunk for as
    /// long as the server likes.
    pub(super) in_chunk: bool,
}

impl Held {
    /// Makes the text independent of the current chunk. Returns the number of
    /// bytes copied.
    pub(super) fn detach(&mut self, copies: &mut Copies) -> usize {
        if !self.in_chunk {
            return 0;
        }
        self.in_chunk = false;
        self.text = Text::from_utf8_lossy(&copies.copy(self.text.as_bytes()));
        self.text.len()
    }
}

/// Makes room for more bytes: doubling, so that the copies stay linear in all,
/// but not past the limit, so that the capacity does not outgrow it either.
pub(super) fn reserve(buffer: &mut Vec<u8>, additional: usize, limit: usize) {
    let needed = buffer.len().saturating_add(additional);
    if needed > buffer.capacity() {
        let doubled = buffer.capacity().saturating_mul(2).min(limit);
        let target = needed.max(doubled).max(64);
        buffer.reserve_exact(target - buffer.len());
    }
}

/// Makes room for the last bytes of a large content: just that, since doubling
/// would copy megabytes to add what may be two bytes.
pub(super) fn reserve_last(buffer: &mut Vec<u8>, additional: usize) {
    if buffer.len() > KEPT {
        buffer.reserve_exact(additional);
    }
}

/// The content of a buffer as shared bytes that hold no capacity to spare; the
/// buffer is empty afterwards and keeps its capacity only if that is small.
pub(super) fn take(buffer: &mut Vec<u8>, from: usize, copies: &mut Copies) -> Bytes {
    if buffer.capacity() <= KEPT {
        let bytes = copies.copy(buffer.get(from..).unwrap_or_default());
        buffer.clear();
        bytes
    } else {
        let mut bytes = Bytes::from(std::mem::take(buffer).into_boxed_slice());
        bytes.advance(from.min(bytes.len()));
        bytes
    }
}

/// Empties a buffer, which keeps its capacity only if that is small.
pub(super) fn clear(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT {
        *buffer = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_were_dropped_make_room_for_the_next() {
        let mut copies = Copies::default();
        let mut places = std::collections::BTreeSet::new();
        let mut last = Bytes::new();
        for _ in 0..10_000 {
            let copy = copies.copy(&[2; 1000]);
            places.insert(copy.as_ptr().addr());
            // As an event does: one part is still there when the next is made.
            last = copy;
        }
        drop(last);
        let in_two_blocks = 2 * Copies::BLOCK / 1000;
        assert_eq!(places.len(), in_two_blocks);
    }

    #[test]
    fn copies_that_are_kept_stay_as_they_are() {
        let mut copies = Copies::default();
        let kept: Vec<_> = (0..=255_u8).map(|n| copies.copy(&[n; 100])).collect();
        for (n, copy) in (0..=255_u8).zip(kept) {
            assert_eq!(copy, [n; 100].as_slice());
        }
    }

    #[test]
    fn a_large_buffer_is_given_away_whole_and_a_small_one_is_kept() {
        let mut copies = Copies::default();
        let mut buffer = vec![b'x'; KEPT + 1];
        assert_eq!(take(&mut buffer, 6, &mut copies).len(), KEPT - 5);
        assert_eq!(buffer.capacity(), 0);

        buffer.extend_from_slice(b"data: y");
        assert_eq!(take(&mut buffer, 6, &mut copies), "y");
        assert!(buffer.is_empty() && buffer.capacity() > 0);
    }

    #[test]
    fn room_doubles_up_to_the_limit() {
        let mut buffer = Vec::new();
        let mut capacities = vec![];
        for _ in 0..1000 {
            reserve(&mut buffer, 1, 1000);
            buffer.push(0);
            if capacities.last() != Some(&buffer.capacity()) {
                capacities.push(buffer.capacity());
            }
        }
        assert_eq!(capacities, [64, 128, 256, 512, 1000]);
    }
}
