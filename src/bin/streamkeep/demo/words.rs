//! How a text differs from the one that should have arrived: counted, not guessed.

use std::collections::HashMap;
use streamkeep::testkit::Words;

/// How something that arrived differs from what should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Parts that came and belong there, each counted once.
    pub(super) known: usize,
    /// Parts that came again.
    pub(super) duplicates: usize,
    /// Parts that should have come and did not.
    pub(super) gaps: usize,
    /// Parts that nobody sent.
    pub(super) foreign: usize,
    /// Parts that came before one that belongs before them.
    pub(super) disordered: usize,
    /// Whether the content differs although the parts are right.
    pub(super) changed: bool,
}

impl Counted {
    /// What is wrong, in words.
    pub(super) fn problems(&self) -> Vec<String> {
        let counts = [
            (self.duplicates, "came twice"),
            (self.gaps, "missing"),
            (self.foreign, "that nobody sent"),
            (self.disordered, "out of order"),
        ];
        let mut problems: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if self.changed {
            problems.push("the content is not what was sent".to_owned());
        }
        problems
    }
}

/// Compares a text with the words from position `from` (counted from 0) on.
///
/// With `to_the_end` all of them should be there; without, the text may stop early
/// but must not leave one out before that. The words must differ from each other, as
/// numbered ones do.
pub(super) fn compare(words: &Words, from: usize, to_the_end: bool, text: &str) -> Counted {
    let mut counted = Counted::default();
    let positions: HashMap<&str, usize> = words
        .deltas()
        .iter()
        .enumerate()
        .map(|(position, word)| (word.trim(), position))
        .collect();
    let mut times = vec![0_usize; words.len()];
    let mut furthest = None;
    for word in text.split_whitespace() {
        let Some(position) = positions.get(word).copied() else {
            counted.foreign = counted.foreign.saturating_add(1);
            continue;
        };
        if let Some(times) = times.get_mut(position) {
            *times = times.saturating_add(1);
            // One from before the cursor was had already.
            if *times > 1 || position < from {
                counted.duplicates = counted.duplicates.saturating_add(1);
                continue;
            }
        }
        counted.known = counted.known.saturating_add(1);
        if furthest.is_some_and(|furthest| position < furthest) {
            counted.disordered = counted.disordered.saturating_add(1);
        }
        furthest = furthest.max(Some(position));
    }
    let until = if to_the_end {
        words.len()
    } else {
        furthest.map_or(from, |furthest| furthest.saturating_add(1))
    };
    let expected = times.get(from..until).unwrap_or_default();
    counted.gaps = expected.iter().filter(|times| **times == 0).count();
    if counted.problems().is_empty() {
        let expected = words.deltas().get(from..until).unwrap_or_default().concat();
        counted.changed = expected != text;
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, from: usize, to_the_end: bool) -> Counted {
        compare(&Words::numbered(12), from, to_the_end, text)
    }

    #[test]
    fn the_words_themselves_are_right() {
        let whole = Words::numbered(12).text();
        let counted = of(&whole, 0, true);
        assert_eq!((counted.known, counted.problems()), (12, Vec::new()));
        let rest = of(" w10 w11 w12", 9, true);
        assert_eq!((rest.known, rest.problems()), (3, Vec::new()));
        let begun = of("w1 w2", 0, false);
        assert_eq!((begun.known, begun.problems()), (2, Vec::new()));
        assert_eq!(of("", 0, false), Counted::default());
    }

    #[test]
    fn each_fault_is_counted_by_its_name() {
        let whole = Words::numbered(12).text();
        let twice = of(&whole.replace(" w5", " w5 w5"), 0, true);
        assert_eq!((twice.duplicates, twice.gaps), (1, 0));
        let replayed = of(&format!("{whole} w1 w2 w3"), 0, true);
        assert_eq!((replayed.duplicates, replayed.gaps), (3, 0));
        let missing = of(&whole.replace(" w5 w6", ""), 0, true);
        assert_eq!((missing.duplicates, missing.gaps), (0, 2));
        let hole = of("w1 w3", 0, false);
        assert_eq!((hole.duplicates, hole.gaps), (0, 1));
        let short = of("w1 w2", 0, true);
        assert_eq!((short.duplicates, short.gaps), (0, 10));
        let had = of(" w3 w4", 3, false);
        assert_eq!((had.duplicates, had.gaps), (1, 0));
        let swapped = of(&whole.replace(" w5 w6", " w6 w5"), 0, true);
        assert_eq!(
            (swapped.disordered, swapped.duplicates, swapped.gaps),
            (1, 0, 0)
        );
        let foreign = of(&format!("{whole} w13"), 0, true);
        assert_eq!((foreign.foreign, foreign.gaps), (1, 0));
        let spaced = of(&whole.replace(" w5", "  w5"), 0, true);
        assert!(spaced.changed);
        let cut = of(&whole.replace(" w12", " w1"), 0, true);
        assert_eq!((cut.duplicates, cut.gaps), (1, 1));
    }
}
