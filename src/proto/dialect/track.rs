//! What came of one text, so that a repetition of it delivers only the rest.
//!
//! The Responses API says everything up to four times: in deltas, in the `done`
//! event of the part, in the `done` event of the item and in the terminal event.
//! Servers leave some of them out. Comparing by content delivers each text once,
//! whichever of them came.

use std::collections::BTreeMap;

/// One text of an item, in pieces by content index.
#[derive(Debug, Default)]
pub(super) struct Track {
    /// What came before this attempt; where its pieces begin is not known.
    seeded: String,
    pieces: BTreeMap<u32, String>,
}

impl Track {
    /// A text of which this came already.
    pub(super) fn seeded(text: &str) -> Self {
        Self {
            seeded: text.to_owned(),
            pieces: BTreeMap::new(),
        }
    }

    /// Whether nothing came.
    pub(super) fn is_empty(&self) -> bool {
        self.seeded.is_empty() && self.pieces.values().all(String::is_empty)
    }

    /// Takes a delta of a piece.
    pub(super) fn push(&mut self, piece: u32, text: &str) {
        if let Some(known) = self.pieces.get_mut(&piece) {
            known.push_str(text);
        } else {
            self.pieces.insert(piece, text.to_owned());
        }
    }

    /// Takes a piece as a whole; gives what is missing of it. `None` when
    /// nothing is missing, or when what came is not the beginning of `whole`:
    /// then nothing can be said.
    pub(super) fn complete_piece(&mut self, piece: u32, whole: &str) -> Option<String> {
        let came = self.pieces.get(&piece).map_or("", String::as_str);
        // What came before this attempt belongs to the first piece, unless the
        // comparison says otherwise.
        let rest = if self.seeded.is_empty() {
            whole.strip_prefix(came)?
        } else if piece == 0 {
            whole
                .strip_prefix(self.seeded.as_str())?
                .strip_prefix(came)?
        } else if came.is_empty() {
            // The piece may be part of what came before: only the whole item
            // tells.
            return None;
        } else {
            whole.strip_prefix(came)?
        };
        self.deliver(piece, rest)
    }

    /// Takes the whole text, as its pieces; gives what is missing.
    pub(super) fn complete<'a>(&mut self, whole: impl Iterator<Item = &'a str>) -> Option<String> {
        let mut last = 0_u32;
        let mut text = String::new();
        for (piece, content) in whole.enumerate() {
            text.push_str(content);
            last = u32::try_from(piece).unwrap_or(u32::MAX);
        }
        let mut rest = text.strip_prefix(self.seeded.as_str())?;
        for came in self.pieces.values() {
            rest = rest.strip_prefix(came.as_str())?;
        }
        self.deliver(last, rest)
    }

    fn deliver(&mut self, piece: u32, rest: &str) -> Option<String> {
        if rest.is_empty() {
            return None;
        }
        self.push(piece, rest);
        Some(rest.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_not_given_again() {
        let mut track = Track::default();
        track.push(0, "Hel");
        track.push(0, "lo");
        assert_eq!(track.complete_piece(0, "Hello"), None);
        assert_eq!(track.complete(["Hello"].into_iter()), None);
    }

    #[test]
    fn what_is_missing_is_given_once() {
        let mut track = Track::default();
        track.push(0, "Hel");
        assert_eq!(track.complete_piece(0, "Hello").as_deref(), Some("lo"));
        assert_eq!(track.complete_piece(0, "Hello"), None);
        assert_eq!(
            track.complete(["Hello", " you"].into_iter()).as_deref(),
            Some(" you")
        );
        assert_eq!(track.complete(["Hello", " you"].into_iter()), None);
    }

    #[test]
    fn what_does_not_fit_gives_nothing() {
        let mut track = Track::default();
        track.push(0, "Hello");
        assert_eq!(track.complete_piece(0, "Help"), None);
        assert_eq!(track.complete(["Hel"].into_iter()), None);
        assert_eq!(track.complete([].into_iter()), None);
    }

    #[test]
    fn what_came_in_an_earlier_attempt_counts() {
        let mut track = Track::seeded("Hel");
        track.push(0, "lo");
        assert_eq!(track.complete_piece(0, "Hello!").as_deref(), Some("!"));
        let mut track = Track::seeded("first second");
        assert_eq!(track.complete_piece(1, " second"), None);
        assert_eq!(
            track
                .complete(["first", " second", "."].into_iter())
                .as_deref(),
            Some(".")
        );
    }
}
