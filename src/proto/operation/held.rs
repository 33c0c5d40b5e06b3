//! What has arrived and was shown to nobody yet.

use super::plan::Hold;
use crate::proto::journal::Delivered;
use crate::proto::model::{Delta, Moment};
use std::mem;
use std::time::Duration;

/// Events between arrival and the commit point.
///
/// Lifecycle events wait here for the first output even when the hold is
/// [`Hold::None`]: an error behind `message_start` then still restarts cleanly,
/// and a reader never sees two starts.
#[derive(Debug)]
pub(super) struct Held {
    hold: Hold,
    events: Vec<Delivered>,
    characters: usize,
    since: Option<Moment>,
}

impl Held {
    pub(super) fn new(hold: Hold) -> Self {
        Self {
            hold,
            events: Vec::new(),
            characters: 0,
            since: None,
        }
    }

    /// Takes an event and what it carried.
    pub(super) fn push(&mut self, now: Moment, event: Delivered, deltas: &[Delta]) {
        self.events.push(event);
        for delta in deltas.iter().filter(|delta| delta.is_output()) {
            self.since.get_or_insert(now);
            // Only a hold by tokens asks for it.
            if matches!(self.hold, Hold::Until { .. }) {
                self.characters = self.characters.saturating_add(delta.output_chars());
            }
        }
    }

    /// Whether the hold is over.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        let Some(since) = self.since else {
            return false;
        };
        match self.hold {
            Hold::None => true,
            Hold::Until { tokens, time } => {
                let enough = usize::try_from(tokens)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(4);
                self.characters >= enough || now.since(since) >= time
            }
            Hold::UntilComplete => false,
        }
    }

    /// When the hold ends by time.
    pub(super) fn ends_at(&self) -> Option<Moment> {
        match (self.hold, self.since) {
            (Hold::Until { time, .. }, Some(since)) => Some(since.after(time)),
            _ => None,
        }
    }

    /// Whether output is held, as opposed to lifecycle only.
    pub(super) fn has_output(&self) -> bool {
        self.since.is_some()
    }

    /// Everything held; nothing stays.
    pub(super) fn take(&mut self) -> Vec<Delivered> {
        let events = mem::take(&mut self.events);
        *self = Self::new(self.hold);
        events
    }
}

/// A clock's limit that has passed, if it has.
pub(super) fn passed(now: Moment, since: Moment, limit: Option<Duration>) -> Option<Duration> {
    limit.filter(|limit| now.since(since) >= *limit)
}
