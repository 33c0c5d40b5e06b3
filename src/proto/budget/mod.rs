//! The retry budget: how much all operations together may try again. Floor 1.
//!
//! The number of attempts of one operation bounds that operation. When everything
//! fails at once it bounds nothing: three attempts each are three times the load,
//! on a provider that is down already, and the load stays when it comes back. So
//! every retry, rerun, failover and hedge is paid from a budget that all share.

mod config;
mod shared;

pub use config::{BucketConfig, BudgetConfig, Cost, Prices, Tokens, WindowConfig};
pub use shared::{Budgets, BudgetsSnapshot};

use super::model::Moment;
use super::sliding::{FIRST as REQUESTS, SECOND as RETRIES, Sliding};
use crate::error::{Error, ErrorKind};
use std::fmt;
use std::time::Duration;

/// One budget.
///
/// Invariant: a spend takes from every form or from none, and nothing is ever
/// below zero. Constant memory.
#[derive(Clone, Debug)]
pub struct Budget {
    config: BudgetConfig,
    tokens: Tokens,
    window: Option<Sliding>,
    bursts: [Option<Sliding>; 2],
    minute: Option<Sliding>,
}

/// Why a spend was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// Whose budget.
    pub scope: Scope,
    /// Which part of it.
    pub which: Form,
    /// When asking again may succeed, at the earliest; `None` when only
    /// successes can help.
    pub retry_after: Option<Duration>,
}

/// Whose budget it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Of one endpoint.
    Endpoint,
    /// Of all endpoints of this process.
    Process,
}

/// The parts of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Form {
    /// The bucket that successes fill.
    Bucket,
    /// The share of the first attempts in the long span.
    Window,
    /// The share of the first attempts in one of the short spans.
    Burst,
    /// The number a minute.
    PerMinute,
    /// The share of hedges; see [`hedge`](super::hedge).
    Hedges,
}

/// Where a budget stands, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSnapshot {
    /// Tokens in the bucket; `None` without one.
    pub tokens: Option<Tokens>,
    /// First attempts in the long span.
    pub requests: u64,
    /// Retries in the long span.
    pub retries: u64,
}

impl Budget {
    /// A full one.
    pub fn new(config: BudgetConfig) -> Self {
        let window = config.window;
        Self {
            tokens: config.bucket.map(|b| b.capacity).unwrap_or_default(),
            window: window.map(|w| Sliding::new(w.within)),
            bursts: window
                .map_or([None; 2], |w| w.bursts)
                .map(|span| span.map(Sliding::new)),
            minute: config.per_minute.map(|_| Sliding::new(MINUTE)),
            config,
        }
    }

    /// Counts a first attempt.
    pub fn request(&mut self, now: Moment) {
        for span in self.bursts.iter_mut().chain([&mut self.window]).flatten() {
            span.add(now, REQUESTS);
        }
    }

    /// Counts a success.
    pub fn success(&mut self) {
        if let Some(bucket) = &self.config.bucket {
            self.tokens = self.tokens.plus(bucket.per_success, bucket.capacity);
        }
    }

    /// Pays for one more attempt, or takes nothing.
    ///
    /// # Errors
    ///
    /// The part that has too little, and when asking again may help.
    pub fn spend(&mut self, now: Moment, cost: Cost) -> Result<(), (Form, Option<Duration>)> {
        self.check(now, cost)?;
        self.take(now, cost);
        Ok(())
    }

    /// Whether [`spend`](Self::spend) would succeed.
    pub(super) fn check(
        &mut self,
        now: Moment,
        cost: Cost,
    ) -> Result<(), (Form, Option<Duration>)> {
        if let Some(bucket) = &self.config.bucket
            && self.tokens < bucket.prices.of(cost)
        {
            return Err((Form::Bucket, None));
        }
        if let Some(config) = &self.config.window {
            let long = self.window.iter_mut().map(|span| (span, Form::Window));
            let short = self.bursts.iter_mut().flatten();
            for (span, form) in long.chain(short.map(|span| (span, Form::Burst))) {
                let share = span.at_most(now, REQUESTS) * u64::from(config.percent) / 100;
                let allowed = share.max(u64::from(config.minimum));
                if span.at_least(now, RETRIES) >= allowed {
                    return Err((form, span.frees_in(now, RETRIES)));
                }
            }
        }
        if let (Some(minute), Some(most)) = (&mut self.minute, self.config.per_minute)
            && minute.at_least(now, RETRIES) >= u64::from(most)
        {
            return Err((Form::PerMinute, minute.frees_in(now, RETRIES)));
        }
        Ok(())
    }

    /// Takes what [`check`](Self::check) found to be there.
    pub(super) fn take(&mut self, now: Moment, cost: Cost) {
        if let Some(bucket) = &self.config.bucket {
            let price = bucket.prices.of(cost);
            self.tokens = self.tokens.minus(price).unwrap_or_default();
        }
        let spans = self.bursts.iter_mut();
        for span in spans.chain([&mut self.window, &mut self.minute]).flatten() {
            span.add(now, RETRIES);
        }
    }

    /// Where it stands.
    pub fn snapshot(&mut self, now: Moment) -> BudgetSnapshot {
        let mut count = |counter| {
            let window = self.window.as_mut();
            window.map_or(0, |span| span.at_least(now, counter))
        };
        BudgetSnapshot {
            requests: count(REQUESTS),
            retries: count(RETRIES),
            tokens: self.config.bucket.map(|_| self.tokens),
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);

impl Form {
    /// The word for it, in messages and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::Window => "window",
            Self::Burst => "burst",
            Self::PerMinute => "per_minute",
            Self::Hedges => "hedges",
        }
    }
}

impl Scope {
    /// The word for it, in messages and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Process => "process",
        }
    }
}

impl Exhausted {
    /// The error of an operation that may not try again because of it.
    pub fn to_error(self) -> Error {
        Error::new(ErrorKind::BudgetExhausted, self.to_string()).with_retry_after(self.retry_after)
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scope, which) = (self.scope.as_str(), self.which.as_str());
        write!(f, "the retry budget of the {scope} is spent ({which})")
    }
}

#[cfg(test)]
mod tests;
