//! How many may be in flight, and how many may wait.

use std::time::Duration;

/// The numbers of a bulkhead.
///
/// | field | default | why |
/// |---|---|---|
/// | `max` | 1024 | more streams than one process usually reads at once; a provider that takes less says so, and the limit follows |
/// | `min` | 1 | one request must always be possible, or nothing would find out that it is over |
/// | `cut_interval` | 30 s | the many 429s of one burst are one message, and so are those of requests that went out before the cut |
/// | `hold` | 2 s | while the provider still says "too much", more is no answer |
/// | `regain_within` | 10 s | what went well before the cut mostly goes well again, and whoever waits for it is many the longer it takes |
/// | `grow_percent` | 10 | a minute, from there on: nobody knows what lies beyond, and the queue that is left drains without a wave |
/// | `max_queue` | 1024 | one more full house; who stands behind it waits longer than a person does |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitConfig {
    /// In flight at most, and what it begins with; at least 1.
    pub max: usize,
    /// The limit never falls below this; at least 1.
    pub min: usize,
    /// After a cut, no further one for this long.
    pub cut_interval: Duration,
    /// After the last such message, how long the limit stays as it is.
    pub hold: Duration,
    /// How long it takes to climb from a cut back to nine tenths of what was in
    /// flight before it.
    pub regain_within: Duration,
    /// By how many percent of what was in flight before the first cut the limit
    /// grows a minute beyond that, and by one slot at least.
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
        hold: Duration::from_secs(2),
        regain_within: Duration::from_secs(10),
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
