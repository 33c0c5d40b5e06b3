//! Text that proves itself: no gap, no duplicate.

use std::fmt;

/// The text of an answer, cut into the deltas it is sent in.
///
/// Numbered words let any reader verify that it received each word once and in
/// order: see [`count_in`](Self::count_in). White space stands at the front of a
/// delta, as in the tokens of real models, so a text that was cut between two
/// deltas never ends in white space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(Vec<String>);

impl Words {
    /// `n` numbered words: `w1 w2 w3 ...`.
    pub fn numbered(n: usize) -> Self {
        Self::prefixed("w", n)
    }

    /// `n` numbered words with a prefix of one's own. A prefix beyond ASCII gives
    /// [`Fault::split_utf8`](super::Fault::split_utf8) something to split.
    pub fn prefixed(prefix: &str, n: usize) -> Self {
        Self(
            (1..=n)
                .map(|i| {
                    let space = if i == 1 { "" } else { " " };
                    format!("{space}{prefix}{i}")
                })
                .collect(),
        )
    }

    /// A given text, one delta a word, each with the white space before it.
    pub fn of(text: &str) -> Self {
        let mut deltas = Vec::new();
        let mut current = String::new();
        let mut in_word = false;
        for c in text.chars() {
            if c.is_whitespace() && in_word {
                deltas.push(std::mem::take(&mut current));
                in_word = false;
            } else if !c.is_whitespace() {
                in_word = true;
            }
            current.push(c);
        }
        if !current.is_empty() {
            deltas.push(current);
        }
        Self(deltas)
    }

    /// The deltas, in order.
    pub fn deltas(&self) -> &[String] {
        &self.0
    }

    /// How many deltas there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The whole text.
    pub fn text(&self) -> String {
        self.0.concat()
    }

    /// How many whole deltas `received` is, counted from the first.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] at the first delta that is missing, repeated, cut or foreign.
    pub fn count_in(&self, received: &str) -> Result<usize, Mismatch> {
        let mut rest = received;
        for (position, delta) in self.0.iter().enumerate() {
            if rest.is_empty() {
                return Ok(position);
            }
            // "w1" must not be taken for the beginning of "w10": what follows a
            // delta is the beginning of the next one, or nothing.
            match rest.strip_prefix(delta.as_str()) {
                Some(after) => rest = after,
                None => return Err(Mismatch::new(position, delta, rest)),
            }
        }
        if rest.is_empty() {
            Ok(self.len())
        } else {
            Err(Mismatch::new(self.len(), "", rest))
        }
    }

    /// The deltas from position `from` (counted from 0) on.
    pub(crate) fn from(&self, from: usize) -> Self {
        Self(self.0.get(from..).unwrap_or_default().to_vec())
    }

    /// The largest number of leading deltas, fewer than all, whose text stands
    /// whole in `haystack`: how far a partial answer in a prompt had come.
    pub(crate) fn longest_prefix_in(&self, haystack: &str) -> usize {
        // Whether a prefix is contained is monotone in its length.
        let (mut low, mut high) = (0, self.len().saturating_sub(1));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let prefix = self.0.get(..middle).unwrap_or_default().concat();
            if haystack.contains(&prefix) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        Self::of(text)
    }
}

/// Where a received text leaves the sent one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// Number of the delta, from 1, that should have come.
    pub number: usize,
    /// The delta that should have come; empty when nothing more should.
    pub expected: String,
    /// The beginning of what came instead, at most 40 characters.
    pub found: String,
}

impl Mismatch {
    fn new(position: usize, expected: &str, found: &str) -> Self {
        Self {
            number: position.saturating_add(1),
            expected: expected.to_owned(),
            found: found.chars().take(40).collect(),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected {:?} as delta {}, but found {:?}",
            self.expected, self.number, self.found
        )
    }
}

impl std::error::Error for Mismatch {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_whole_words_is_counted() {
        let words = Words::numbered(12);
        assert_eq!(words.count_in(""), Ok(0));
        assert_eq!(words.count_in("w1 w2"), Ok(2));
        assert_eq!(words.count_in(&words.text()), Ok(12));
    }

    #[test]
    fn a_gap_a_duplicate_a_cut_and_an_addition_are_found() {
        let words = Words::numbered(12);
        assert_eq!(words.count_in("w1 w3").unwrap_err().number, 2);
        assert_eq!(words.count_in("w1 w2 w2").unwrap_err().number, 3);
        assert_eq!(words.count_in("w1 w").unwrap_err().number, 2);
        assert_eq!(words.count_in("w10").unwrap_err().number, 2);
        let longer = format!("{} w13", words.text());
        assert_eq!(words.count_in(&longer).unwrap_err().number, 13);
    }

    #[test]
    fn a_given_text_comes_back_whole() {
        for text in ["", " ", "a", " a  b\n", "größe 東京\tx"] {
            assert_eq!(Words::of(text).text(), text);
        }
        assert_eq!(Words::of("one two").deltas(), ["one", " two"]);
    }

    #[test]
    fn the_longest_partial_in_a_prompt_is_found() {
        let words = Words::numbered(30);
        assert_eq!(words.longest_prefix_in("please go on"), 0);
        assert_eq!(words.longest_prefix_in("so far: w1 w2 w3. go on"), 3);
        assert_eq!(words.longest_prefix_in(&words.text()), 29);
        assert_eq!(Words::default().longest_prefix_in("x"), 0);
    }
}
