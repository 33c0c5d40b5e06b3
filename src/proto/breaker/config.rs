//! When a circuit opens, and for how long.

use std::time::Duration;

/// The numbers of a breaker.
///
/// | field | default | why |
/// |---|---|---|
/// | `window` | 30 s | long enough for 20 samples at forty requests a minute, short enough to forget a bad moment |
/// | `min_samples` | 20 | below it a share means nothing |
/// | `failure_percent` | 50 | more work is lost than done |
/// | `run` | 5 | catches what the share cannot: few requests, all of them failing |
/// | `run_within` | 1 s | a connection that breaks fails everything on it in the same moment; that is one failure, not many |
/// | `slow_first_token` | off | what is slow depends on the model |
/// | `open_for` | 30 s | a restart of a server takes about that long |
/// | `max_open_for` | 5 min | after an hour down it must not take another to notice that it is back |
/// | `jitter_percent` | 10 | so that many processes do not probe in the same moment |
/// | `probe_within` | 60 s | as the first-token clock of chat models |
/// | `successes_to_close` | 1 | the limit in flight grows slowly enough on its own |
/// | `max_retry_after` | 24 h | a header must not close an endpoint for ever |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerConfig {
    /// The span that the share is taken over.
    pub window: Duration,
    /// Samples in the window before the share counts; at least 1.
    pub min_samples: u32,
    /// The share of failures that opens it, in percent, this one included.
    pub failure_percent: u32,
    /// So many failures without a success between them open it too; `None` for
    /// never.
    pub run: Option<u32>,
    /// How much time must lie between the first and the last of such a run, at
    /// least. Where there is much traffic it takes a second of nothing but
    /// failures; five in a row happen by chance every few seconds when a fifth
    /// of many requests fail.
    pub run_within: Duration,
    /// A first token that takes longer counts as a failure; `None` for never.
    pub slow_first_token: Option<Duration>,
    /// The first wait before a probe, and the second. Doubles with each probe
    /// that fails from there on.
    pub open_for: Duration,
    /// No wait grows beyond this (jitter aside).
    pub max_open_for: Duration,
    /// A wait is longer than that by up to this many percent.
    pub jitter_percent: u32,
    /// A probe that has not reported by then is lost, and another may go out.
    pub probe_within: Duration,
    /// So many probes in a row have to succeed; at least 1.
    pub successes_to_close: u32,
    /// A longer `Retry-After` is taken for this. A shorter one is kept to the
    /// letter: no probe goes out before it.
    pub max_retry_after: Duration,
}

impl BreakerConfig {
    /// See the table.
    pub const DEFAULT: Self = Self {
        window: Duration::from_secs(30),
        min_samples: 20,
        failure_percent: 50,
        run: Some(5),
        run_within: Duration::from_secs(1),
        slow_first_token: None,
        open_for: Duration::from_secs(30),
        max_open_for: Duration::from_secs(300),
        jitter_percent: 10,
        probe_within: Duration::from_secs(60),
        successes_to_close: 1,
        max_retry_after: Duration::from_secs(24 * 3600),
    };

    /// Never opens.
    pub const OFF: Self = Self {
        min_samples: u32::MAX,
        run: None,
        ..Self::DEFAULT
    };
}

impl Default for BreakerConfig {
    /// [`BreakerConfig::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}
