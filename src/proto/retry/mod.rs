//! When to try again: the policy, its schedule, and what the other side asked for.
//! Floor 1.

mod hint;
mod reset;
mod schedule;
mod wait;

pub(super) use hint::names_a_wait;
pub use hint::{RetryHints, parse_retry_after};
pub use schedule::{Jitter, Schedule};
pub(super) use wait::{wait_of_seconds, wait_of_text};

use std::time::Duration;

/// How often and how long to retry before any output was committed.
///
/// | field | `interactive` (default) | `batch` | `reference` |
/// |---|---|---|---|
/// | `max_attempts` | 3 | 5 | 5 |
/// | `base` | 500 ms | 500 ms | 1 s |
/// | `cap` | 20 s | 60 s | 30 s |
/// | `within` | 25 s | none | none |
/// | `max_retry_after` | 20 s | 60 s | 30 s |
/// | `min_delay` | 10 ms | 10 ms | 10 ms |
/// | `failover_on_500` | no | no | yes |
/// | `jitter` | full | full | full |
/// | `spread_hints` | no | no | no |
///
/// `interactive` is for a person who waits: after 25 s a clear error is worth
/// more than a fourth attempt. `batch` is for work that nobody watches.
/// `reference` has the four retries that the field's write-ups compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Whole requests to one route, the first one included; at least 1. Resumes
    /// and polls have bounds of their own.
    pub max_attempts: u32,
    /// The first delay's upper bound; doubled for each further one.
    pub base: Duration,
    /// No bound of the schedule grows beyond this.
    pub cap: Duration,
    /// No delay is shorter: a peer that says `Retry-After: 0` for ever must not
    /// become a hot loop.
    pub min_delay: Duration,
    /// A longer `Retry-After` is not waited for: the next route takes over, or it
    /// becomes an error that carries it. It is never shortened.
    pub max_retry_after: Duration,
    /// No retry starts later than this after the operation began. Resumes,
    /// polls and the first attempt on another route are not bound by it.
    pub within: Option<Duration>,
    /// Whether a 500 is answered by the next route, where there is one, before
    /// the same route is asked again.
    pub failover_on_500: bool,
    /// How the delays are spread below their bound.
    pub jitter: Jitter,
    /// Whether a wait that the other side asked for is made longer at random, by
    /// up to `base` or a tenth of it, whichever is more. Off, because it was
    /// mostly computed for this very caller; for many processes that share one
    /// credential, and are told one time for all of them.
    pub spread_hints: bool,
}

impl RetryPolicy {
    /// For a person who waits.
    pub const INTERACTIVE: Self = Self {
        max_attempts: 3,
        base: Duration::from_millis(500),
        cap: Duration::from_secs(20),
        min_delay: Duration::from_millis(10),
        max_retry_after: Duration::from_secs(20),
        within: Some(Duration::from_secs(25)),
        failover_on_500: false,
        jitter: Jitter::Full,
        spread_hints: false,
    };

    /// For work that nobody watches.
    pub const BATCH: Self = Self {
        max_attempts: 5,
        cap: Duration::from_secs(60),
        max_retry_after: Duration::from_secs(60),
        within: None,
        ..Self::INTERACTIVE
    };

    /// The numbers the field's write-ups compare with.
    pub const REFERENCE: Self = Self {
        max_attempts: 5,
        base: Duration::from_secs(1),
        cap: Duration::from_secs(30),
        max_retry_after: Duration::from_secs(30),
        within: None,
        failover_on_500: true,
        ..Self::INTERACTIVE
    };

    /// One attempt and no more.
    pub const NEVER: Self = Self {
        max_attempts: 1,
        ..Self::INTERACTIVE
    };
}

impl Default for RetryPolicy {
    /// [`RetryPolicy::INTERACTIVE`].
    fn default() -> Self {
        Self::INTERACTIVE
    }
}
