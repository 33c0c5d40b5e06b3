//! The provider's own cursor.

/// Where the provider's stream of one answer stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Anchor {
    resumable: bool,
    response_id: Option<String>,
    last: Option<u64>,
}

impl Anchor {
    /// `resumable`: whether the request was made so that the provider keeps the
    /// stream (Responses with `background: true`).
    pub(super) fn new(resumable: bool) -> Self {
        Self {
            resumable,
            response_id: None,
            last: None,
        }
    }

    /// The provider named the answer. Returns whether that was news.
    pub(super) fn name(&mut self, response_id: &str) -> bool {
        if self.response_id.as_deref() == Some(response_id) {
            return false;
        }
        self.response_id = Some(response_id.to_owned());
        true
    }

    /// A journal says that it was named, and resumable.
    pub(super) fn restore(&mut self, response_id: &str) {
        self.resumable = true;
        self.name(response_id);
    }

    /// An event with this number arrived. The cursor never goes back, and an
    /// event without a number leaves it where it is.
    pub(super) fn advance(&mut self, sequence: Option<u64>) {
        self.last = self.last.max(sequence);
    }

    /// Whether an event with this number has arrived before.
    pub(super) fn has_seen(&self, sequence: Option<u64>) -> bool {
        matches!((sequence, self.last), (Some(sequence), Some(last)) if sequence <= last)
    }

    /// Whether the provider's stream can be asked to go on.
    pub(super) fn is_resumable(&self) -> bool {
        self.resumable && self.response_id.is_some()
    }

    /// The provider's name for the answer, if it can be resumed.
    pub(super) fn resumable_id(&self) -> Option<&str> {
        self.response_id.as_deref().filter(|_| self.resumable)
    }

    /// The number of the last event; `None` when none had one.
    pub(super) fn last(&self) -> Option<u64> {
        self.last
    }
}
