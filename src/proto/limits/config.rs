//! How many may be in flight, and how many may wait.

use std::time::Duration;

/// The numbers of a bulkhead.
///
/// | field | default | why |
/// |---|---|---|
/// | `max` | 1024 | more streams than one process usually reads at once; a provider that takes less says so, and the limit follows |
/// | `min` | 1 | one request must always be possible, or nothing would find out that it is over |
/// | `cut_interval` | 10 s | a burst is turned away within seconds; its many 429s are one message |
/// | `grow_percent` | 10 | a minute, and one slot at least: a limit that halved is back after seven minutes |
/// | `max_queue` | 1024 | one more full house; who stands behind it waits longer than a person does |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitConfig {
    /// In flight at most, and what it begins with; at least 1.
    pub max: usize,
    /// The limit never falls below this; at least 1.
    pub min: usize,
    /// After a cut, no further one for this long.
    pub cut_interval: Duration,
    /// By how many percent a minute the limit grows, and by one slot at least.
    pub grow_percent: u32,
    /// Tickets that may wait; 0 for none.
    pub max_queue: usize,
}

impl LimitConfig {
    /// See the table.
    pub const DEFAULT: Self = Self {
        max: 1024,
        min: 1,
        cut_interval: Duration::from_secs(10),
        grow_percent: 10,
        max_queue: 1024,
    };
}

impl Default for LimitConfig {
    /// [`LimitConfig::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}
