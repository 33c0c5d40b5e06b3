//! How many may be in flight, and how many may wait.

use std::time::Duration;

/// The numbers of a bulkhead.
///
/// | field | default | why |
/// |---|---|---|
/// | `max` | 1024 | more streams than one process usually reads at once; a provider that takes less says so, and the limit follows |
/// | `min` | 1 | one request must always be possible, or nothing would find out that it is over |
/// | `cut_interval` | 30 s | the many 429s of one burst are one message, and so are those of requests that went out before the cut |
/// | `grow_percent` | 10 | of `max` a minute, and one slot at least. Additive, as in TCP: ten percent of what is left would take an hour from one to a thousand, for a burst that took seconds |
/// | `max_queue` | 1024 | one more full house; who stands behind it waits longer than a person does |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitConfig {
    /// In flight at most, and what it begins with; at least 1.
    pub max: usize,
    /// The limit never falls below this; at least 1.
    pub min: usize,
    /// After a cut, no further one for this long.
    pub cut_interval: Duration,
    /// By how many percent of `max` the limit grows a minute, and by one slot at
    /// least.
    pub grow_percent: u32,
    /// Tickets that may wait; 0 for none.
    pub max_queue: usize,
}

impl LimitConfig {
    /// See the table.
    pub const DEFAULT: Self = Self {
        max: 1024,
        min: 1,
        cut_interval: Duration::from_secs(30),
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
