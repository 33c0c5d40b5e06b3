//! What every chunk of a chat stream begins with.
//!
//! Chunks repeat id, object, creation time, model and the like before they come to
//! the point: more than half of a typical one. Reading that once, and comparing
//! bytes afterwards, halves the cost of a delta.

use memchr::memmem;

/// The members before `choices`, as text, once they were read and found to have
/// no say in anything.
#[derive(Debug, Default)]
pub(super) struct Head {
    text: String,
    rest: String,
    learned: u8,
}

const CHOICES: &[u8] = b"\"choices\":";

impl Head {
    /// The chunk without its head, as an object of its own, if it has the head
    /// that was learned. The buffer is to be given back by [`Head::give_back`].
    ///
    /// The head is a list of whole members and the comma behind it, so the rest is
    /// one JSON object exactly when the chunk is.
    pub(super) fn strip(&mut self, chunk: &str) -> Option<String> {
        if self.text.is_empty() {
            return None;
        }
        let rest = chunk.strip_prefix(self.text.as_str())?;
        let mut buffer = std::mem::take(&mut self.rest);
        buffer.clear();
        buffer.push('{');
        buffer.push_str(rest);
        Some(buffer)
    }

    /// Takes the buffer back, for the next chunk.
    pub(super) fn give_back(&mut self, buffer: String) {
        self.rest = buffer;
    }

    /// Learns the head of a chunk that was read whole, or forgets the one that is
    /// known: what was said since must not be skipped. `is_plain` says of the head alone, made into an
    /// object, whether leaving it out changes nothing.
    pub(super) fn learn(&mut self, chunk: &str, is_plain: impl Fn(&str) -> bool) {
        self.text.clear();
        if self.learned >= MAX_LEARNED {
            return;
        }
        let Some(end) = memmem::find(chunk.as_bytes(), CHOICES) else {
            return;
        };
        let Some(head) = chunk.get(..end).filter(|head| head.len() <= LONGEST) else {
            return;
        };
        // With nothing but this behind it, it is an object only if `choices` is a
        // member of the chunk itself, and not of something inside it.
        if is_plain(&format!("{head}\"choices\":0}}")) {
            head.clone_into(&mut self.text);
        }
        self.learned = self.learned.saturating_add(1);
    }
}

/// A server whose heads differ more often has none worth learning. The first
/// chunk of Azure differs from the others, and so may the last ones.
const MAX_LEARNED: u8 = 4;

/// Bytes. A longer head is none that a server sends with every token.
const LONGEST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IgnoredAny;

    fn learned(chunk: &str) -> Head {
        let mut head = Head::default();
        head.learn(chunk, |head| {
            serde_json::from_str::<IgnoredAny>(head).is_ok()
        });
        head
    }

    #[test]
    fn a_head_that_is_known_is_left_out() {
        let mut head = learned(r#"{"id":"a","model":"m", "choices":[1]}"#);
        let rest = head.strip(r#"{"id":"a","model":"m", "choices":[2],"usage":null}"#);
        assert_eq!(rest.as_deref(), Some(r#"{"choices":[2],"usage":null}"#));
        head.give_back(rest.unwrap());
        assert_eq!(head.strip(r#"{"id":"b","model":"m", "choices":[2]}"#), None);
        assert_eq!(head.strip("{"), None);
    }

    #[test]
    fn a_head_that_is_not_one_is_not_learned() {
        for chunk in [
            "{}",
            r#"{"a":{"b":1,"choices":[]}}"#,
            r#"{"a":"x \"choices\":[]"}"#,
            r#"{"a":["choices":1]}"#,
        ] {
            assert_eq!(learned(chunk).strip(chunk), None, "{chunk}");
        }
        // `choices` as the first member leaves nothing to save, and is right.
        let chunk = r#"{"choices":[]}"#;
        assert_eq!(learned(chunk).strip(chunk).as_deref(), Some(chunk));
    }
}
