//! How much may be spent on trying again, and what it costs.

use crate::error::ErrorKind;
use std::time::Duration;

/// Tokens of a bucket, counted in thousandths so that no sum ever rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tokens(u64);

impl Tokens {
    /// Whole tokens.
    pub const fn new(whole: u32) -> Self {
        Self(whole as u64 * 1000)
    }

    /// Thousandths of a token.
    pub const fn from_thousandths(thousandths: u64) -> Self {
        Self(thousandths)
    }

    /// In thousandths.
    pub const fn thousandths(self) -> u64 {
        self.0
    }

    pub(super) const fn plus(self, more: Self, most: Self) -> Self {
        let sum = self.0.saturating_add(more.0);
        Self(if sum < most.0 { sum } else { most.0 })
    }

    pub(super) const fn minus(self, less: Self) -> Option<Self> {
        match self.0.checked_sub(less.0) {
            Some(left) => Some(Self(left)),
            None => None,
        }
    }
}

/// What another attempt may cost the other side, by what made it necessary.
///
/// | cost | tokens | why |
/// |---|---|---|
/// | `Throttled` | 1 | a 429 was turned away at the door: no work was done, and the provider says when to come back |
/// | `Failed` | 2 | no connection, a fault, an overload: whoever answers so is ill, and more load may keep it so |
/// | `Unknown` | 5 | a timeout or a cut: the first attempt may still run and be billed, it held a slot for a whole timeout, and the retry doubles the work |
/// | `Hedge` | 1 | nothing failed; hedges have a cap of their own |
///
/// With 0.1 tokens back for a success that is one retry for every 10, 20 and 50
/// successes in the long run. The order is that of the AWS SDKs, which take 5 of
/// 500 for a retry and 10 after a timeout (`smithy-rs`, `token_bucket.rs`), and
/// in their newer scheme less for throttling than for anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cost {
    /// After a rate limit.
    Throttled,
    /// After a failure that says that no answer is being made.
    Failed,
    /// After a failure that does not say what became of the request.
    Unknown,
    /// A second request beside one that is slow.
    Hedge,
}

impl Cost {
    /// The cost of trying again after a failure of this kind.
    ///
    /// Kinds that are never retried cost most: nobody should ask.
    pub const fn of(kind: ErrorKind) -> Self {
        use ErrorKind as K;
        match kind {
            K::RateLimited | K::CircuitOpen | K::Saturated => Self::Throttled,
            K::Dns
            | K::Connect
            | K::Tls
            | K::ConnectTimeout
            | K::Overloaded
            | K::ServerError
            | K::Auth => Self::Failed,
            _ => Self::Unknown,
        }
    }
}

/// What each [`Cost`] takes from the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    /// Default 1.
    pub throttled: Tokens,
    /// Default 2.
    pub failed: Tokens,
    /// Default 5.
    pub unknown: Tokens,
    /// Default 1.
    pub hedge: Tokens,
}

impl Prices {
    /// See [`Cost`] for the reasons.
    pub const DEFAULT: Self = Self {
        throttled: Tokens::new(1),
        failed: Tokens::new(2),
        unknown: Tokens::new(5),
        hedge: Tokens::new(1),
    };

    /// The price of this cost.
    pub const fn of(&self, cost: Cost) -> Tokens {
        match cost {
            Cost::Throttled => self.throttled,
            Cost::Failed => self.failed,
            Cost::Unknown => self.unknown,
            Cost::Hedge => self.hedge,
        }
    }
}

impl Default for Prices {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A bucket that failures empty and successes fill. It remembers for as long as
/// it takes, so it stops what a share of the traffic cannot: a failure that
/// lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketConfig {
    /// The most it holds, and what it begins with. Default 100: fifty retries
    /// of a failing provider, which is enough to get over a restart of it and
    /// too little to be felt by one that is down.
    pub capacity: Tokens,
    /// What a success puts back. Default 0.1, so that in the long run retries
    /// at the lowest price are a tenth of the traffic.
    pub per_success: Tokens,
    /// What is taken.
    pub prices: Prices,
}

/// Retries as a share of the first attempts, lately.
///
/// Every span must allow it. The long one is the promise. The short ones keep a
/// provider that goes down from meeting the whole minute's allowance at once, and
/// pace what follows: with one span alone its end would let the next lot through
/// together, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// Retries per hundred first attempts; default 10. Load on a provider that
    /// fails then never exceeds 1.1 times the healthy load, where three attempts
    /// each would make it three times.
    pub percent: u32,
    /// The long span; default 60 s.
    pub within: Duration,
    /// The short spans; default 10 s and 2 s.
    pub bursts: [Option<Duration>; 2],
    /// So many retries are allowed in any span whatever the traffic, so that a
    /// client that is quiet may retry at all. Default 10: a handful of calls
    /// with two retries each.
    pub minimum: u32,
}

/// What one budget allows. What is `None` does not limit; all `None` is
/// [`UNLIMITED`](Self::UNLIMITED).
///
/// | field | [`ENDPOINT`](Self::ENDPOINT) (default) | [`PROCESS`](Self::PROCESS) | [`CAPPED`](Self::CAPPED) |
/// |---|---|---|---|
/// | `bucket.capacity` | 100 | 500 | 100 |
/// | `bucket.per_success` | 0.1 | 0.1 | 0.1 |
/// | `window.percent` | 10 | 10 | 10 |
/// | `window.within` | 60 s | 60 s | 60 s |
/// | `window.bursts` | 10 s, 2 s | 10 s, 2 s | 10 s, 2 s |
/// | `window.minimum` | 10 | 50 | 10 |
/// | `per_minute` | none | none | 60 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetConfig {
    /// The bucket.
    pub bucket: Option<BucketConfig>,
    /// The share.
    pub window: Option<WindowConfig>,
    /// Retries a minute, whatever the traffic. Off by default, because a number
    /// that is right for one process is wrong for a larger one.
    pub per_minute: Option<u32>,
}

const BURSTS: [Option<Duration>; 2] = [Some(Duration::from_secs(10)), Some(Duration::from_secs(2))];

impl BudgetConfig {
    /// For one endpoint.
    pub const ENDPOINT: Self = Self {
        bucket: Some(BucketConfig {
            capacity: Tokens::new(100),
            per_success: Tokens::from_thousandths(100),
            prices: Prices::DEFAULT,
        }),
        window: Some(WindowConfig {
            percent: 10,
            within: Duration::from_secs(60),
            bursts: BURSTS,
            minimum: 10,
        }),
        per_minute: None,
    };

    /// For all endpoints together: room for five that are down at once, so that
    /// one of them does not take the retries of the others.
    pub const PROCESS: Self = Self {
        bucket: Some(BucketConfig {
            capacity: Tokens::new(500),
            per_success: Tokens::from_thousandths(100),
            prices: Prices::DEFAULT,
        }),
        window: Some(WindowConfig {
            percent: 10,
            within: Duration::from_secs(60),
            bursts: BURSTS,
            minimum: 50,
        }),
        per_minute: None,
    };

    /// With a cap of one retry a second on average, for a process that must not
    /// be noticed.
    pub const CAPPED: Self = Self {
        per_minute: Some(60),
        ..Self::ENDPOINT
    };

    /// No limit at all: the operation's own number of attempts is the only one.
    pub const UNLIMITED: Self = Self {
        bucket: None,
        window: None,
        per_minute: None,
    };
}

impl Default for BudgetConfig {
    /// [`BudgetConfig::ENDPOINT`].
    fn default() -> Self {
        Self::ENDPOINT
    }
}
