//! Decodes gzip as it arrives (RFC 1952): several members, bounded steps.

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use std::io::{self, Write};

/// How much input is decoded in one step, in bytes. DEFLATE makes at most 1032
/// bytes of one, so a step yields at most 4 MiB, however hostile the sender; the
/// next one waits until the reader asks again.
const STEP: usize = 4 * 1024;

/// A gzip decoder that gives out at once what the input so far stands for.
#[derive(Debug)]
pub(super) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    input: Bytes,
    fed: bool,
    broken: bool,
}

impl Default for Gunzip {
    fn default() -> Self {
        Self {
            decoder: MultiGzDecoder::new(Vec::new()),
            input: Bytes::new(),
            fed: false,
            broken: false,
        }
    }
}

impl Gunzip {
    /// Takes the next piece of input. Only after [`next`](Self::next) has
    /// returned `None`: what was left would be lost.
    pub(super) fn feed(&mut self, piece: Bytes) {
        self.fed |= !piece.is_empty();
        self.input = piece;
    }

    /// The next piece of output, never an empty one, or `None` when it needs
    /// input.
    ///
    /// # Errors
    ///
    /// The input is not gzip. What was decoded before is given out first.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, ()> {
        while !self.broken && !self.input.is_empty() {
            let step = self.input.split_to(self.input.len().min(STEP));
            self.broken = self.decode(&step).is_err();
            let output = std::mem::take(self.decoder.get_mut());
            if !output.is_empty() {
                return Ok(Some(output.into()));
            }
        }
        if self.broken { Err(()) } else { Ok(None) }
    }

    /// Says that there is no more input. None at all is fine: a response without a
    /// body may carry the header.
    ///
    /// # Errors
    ///
    /// The input does not end where a member ends, with the right checksum and
    /// length.
    pub(super) fn end(&mut self) -> Result<(), ()> {
        if self.fed {
            self.decoder.try_finish().map_err(drop)
        } else {
            Ok(())
        }
    }

    fn decode(&mut self, step: &[u8]) -> io::Result<()> {
        self.decoder.write_all(step)?;
        self.decoder.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    fn member(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// Decodes in pieces of this size: the output, and whether it is whole.
    fn decode(bytes: &[u8], size: usize) -> (Vec<u8>, bool) {
        let mut gunzip = Gunzip::default();
        let mut output = Vec::new();
        for piece in bytes.chunks(size) {
            gunzip.feed(Bytes::copy_from_slice(piece));
            loop {
                match gunzip.next() {
                    Ok(Some(piece)) => output.extend_from_slice(&piece),
                    Ok(None) => break,
                    Err(()) => {
                        assert_eq!(gunzip.next(), Err(()), "broken for ever");
                        return (output, false);
                    }
                }
            }
        }
        let whole = gunzip.end().is_ok();
        (output, whole)
    }

    #[test]
    fn members_and_pieces_do_not_change_what_comes_out() {
        let text: Vec<u8> = (0..8_000_u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        let (first, second) = text.split_at(15_000);
        let bytes = [member(first), member(b""), member(second)].concat();
        for size in [1, 2, 7, 4_096, 5_000, bytes.len()] {
            assert!(decode(&bytes, size) == (text.clone(), true), "{size}");
        }
    }

    #[test]
    fn every_cut_is_noticed_and_invents_nothing() {
        let bytes = [member(b"hello, "), member(b"world")].concat();
        let border = member(b"hello, ").len();
        for cut in 1..bytes.len() {
            let (output, whole) = decode(&bytes[..cut], 3);
            assert_eq!(whole, cut == border, "{cut}");
            assert!(b"hello, world".starts_with(&output[..]), "{cut}");
        }
    }

    #[test]
    fn a_flipped_bit_never_passes_as_another_text() {
        let bytes = member(b"hello");
        // The ten bytes before it are the header: time, system and the like.
        for at in 10..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                // Whole only where the bit stands for nothing: padding.
                let (output, whole) = decode(&bytes, 1);
                assert!(!whole || output == b"hello", "{at} {bit}");
            }
        }
    }

    #[test]
    fn a_flushed_part_comes_out_before_more_comes_in() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"first").unwrap();
        encoder.flush().unwrap();
        let mut gunzip = Gunzip::default();
        gunzip.feed(encoder.get_ref().clone().into());
        assert_eq!(gunzip.next(), Ok(Some(Bytes::from("first"))));
        assert_eq!(gunzip.next(), Ok(None));
        assert_eq!(gunzip.end(), Err(()));
    }

    #[test]
    fn a_bomb_comes_out_in_bounded_steps() {
        let bytes = member(&vec![0; 16 << 20]);
        let mut gunzip = Gunzip::default();
        gunzip.feed(bytes.into());
        let mut total = 0;
        while let Some(piece) = gunzip.next().unwrap() {
            assert!(piece.len() <= 1_032 * STEP + 64 * 1024, "{}", piece.len());
            total += piece.len();
        }
        assert_eq!(total, 16 << 20);
        assert_eq!(gunzip.end(), Ok(()));
    }

    #[test]
    fn nothing_is_whole_and_anything_else_is_not_gzip() {
        assert_eq!(decode(b"", 1), (Vec::new(), true));
        assert!(!decode(b"not gzip at all", 4).1);
        assert!(
            !decode(
                &[member(b"a"), b"rubbish, long enough".to_vec()].concat(),
                4
            )
            .1
        );
    }
}
