//! The circuit breaker: when an endpoint is down, nobody has to find out. Floor 1.
//!
//! ```text
//!            too many failures                 the wait is over
//!  Closed ───────────────────────▶ Open ─────────────────────────▶ half open
//!    ▲                              ▲                                  │
//!    │                              └──── the probe failed ────────────┤
//!    └──────────────────────────────────────── the probe succeeded ────┘
//! ```
//!
//! The waits are 30 s, 30 s, 60 s, 120 s, 240 s and then 300 s: none is longer than
//! the circuit has been open before it, so an endpoint that is back is found out
//! after no more time than it was away, and a short outage costs a short wait.
//!
//! Half open is no state of its own: it is an open circuit whose wait is over, and
//! one probe at a time goes through it.

mod config;

pub use config::BreakerConfig;

use super::model::Moment;
use super::seeded::Seeded;
use super::sliding::{FIRST as SUCCESSES, SECOND as FAILURES, Sliding};
use std::time::Duration;

/// The breaker of one endpoint.
///
/// Invariants: at most one probe is out, and none is out for longer than
/// `probe_within`; no probe goes out before the wait is over, nor before the
/// provider's own `Retry-After`; a probe that succeeds closes the circuit (or
/// comes one nearer to it).
#[derive(Clone, Debug)]
pub struct Breaker {
    config: BreakerConfig,
    counts: Sliding,
    run: Run,
    /// `None` while closed.
    open: Option<Open>,
    /// The provider said not to come back before this.
    not_before: Moment,
    chance: Seeded,
    probes: u64,
}

/// Failures without a success between them.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    length: u32,
    since: Moment,
}

#[derive(Clone, Debug)]
struct Open {
    /// The next probe may go out from here on.
    until: Moment,
    /// How often it was opened again without having closed.
    level: u32,
    /// The probe that is out, and when it counts as lost.
    probe: Option<(ProbeId, Moment)>,
    /// Probes that succeeded since it was opened.
    successes: u32,
}

/// Names one probe, so that a late report is not taken for that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeId(u64);

/// What an attempt may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Go.
    Closed,
    /// Go, and report under this id: everybody else waits for you.
    Probe(ProbeId),
    /// Not now.
    Open {
        /// When the next probe may go out. While one is out, that is when it
        /// counts as lost; one that succeeds closes the circuit earlier.
        until: Moment,
    },
}

/// What an attempt says about its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It works.
    Success,
    /// It is ill: a 5xx, an overload, no connection, a timeout, a first token
    /// that took too long.
    Failure,
    /// It turned the request away because of its rate. That is no illness while
    /// other requests pass, so it counts only in a run without any success.
    Throttled,
    /// It was counted as a success when the first token came, and broke after
    /// that: the success is taken back and a failure counted.
    Broke,
    /// Nothing: the caller's own fault, or the caller stopped it.
    Neutral,
}

/// The state, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Everything passes.
    Closed,
    /// Nothing passes.
    Open,
    /// One probe at a time passes.
    HalfOpen,
}

/// Where a breaker stands, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSnapshot {
    /// The state.
    pub state: BreakerState,
    /// When the next probe may go out, while it is not closed.
    pub until: Option<Moment>,
    /// Successes in the window.
    pub successes: u64,
    /// Failures in the window.
    pub failures: u64,
}

impl Breaker {
    /// A closed one. The seed is for the jitter of the waits; equal seeds give
    /// equal waits.
    pub fn new(config: BreakerConfig, seed: u64) -> Self {
        Self {
            counts: Sliding::new(config.window),
            run: Run::default(),
            open: None,
            not_before: Moment::ORIGIN,
            chance: Seeded::new(seed),
            probes: 0,
            config,
        }
    }

    /// Whether an attempt may go out now. A [`Admission::Probe`] is taken by
    /// asking: report it, or it is lost and the next may go out after
    /// `probe_within`.
    pub fn admit(&mut self, now: Moment) -> Admission {
        let Some(until) = self.refuses_until(now) else {
            let Some(open) = &mut self.open else {
                return Admission::Closed;
            };
            self.probes = self.probes.wrapping_add(1);
            let id = ProbeId(self.probes);
            open.probe = Some((id, now.after(self.config.probe_within)));
            return Admission::Probe(id);
        };
        Admission::Open { until }
    }

    /// When [`admit`](Self::admit) may stop refusing; `None` when it would not
    /// refuse now. Takes nothing.
    pub fn refuses_until(&self, now: Moment) -> Option<Moment> {
        let open = self.open.as_ref()?;
        let until = match open.probe {
            Some((_, lost)) => lost.max(open.until),
            None => open.until,
        };
        let until = until.max(self.not_before);
        (until > now).then_some(until)
    }

    /// Tells what became of an attempt that was admitted. `probe` is what it was
    /// admitted as; `retry_after` what the provider said, if it did.
    ///
    /// Reports of attempts that are no probe change nothing while the circuit is
    /// open, apart from their `retry_after`: they went out before.
    pub fn report(
        &mut self,
        now: Moment,
        probe: Option<ProbeId>,
        verdict: Verdict,
        retry_after: Option<Duration>,
    ) {
        if let Some(wait) = retry_after
            && matches!(
                verdict,
                Verdict::Failure | Verdict::Throttled | Verdict::Broke
            )
        {
            let wait = wait.min(self.config.max_retry_after);
            self.not_before = self.not_before.max(now.after(wait));
        }
        if self.open.is_some() {
            self.report_open(now, probe, verdict);
        } else {
            self.report_closed(now, verdict);
        }
    }

    /// Where it stands.
    pub fn snapshot(&mut self, now: Moment) -> BreakerSnapshot {
        let state = match &self.open {
            None => BreakerState::Closed,
            Some(open) if now < open.until.max(self.not_before) => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        };
        BreakerSnapshot {
            state,
            until: self.open.as_ref().map(|o| o.until.max(self.not_before)),
            successes: self.counts.at_least(now, SUCCESSES),
            failures: self.counts.at_least(now, FAILURES),
        }
    }

    /// Whether the circuit is closed.
    pub fn is_closed(&self) -> bool {
        self.open.is_none()
    }

    /// The threshold from which on a first token counts as a failure.
    pub fn slow_first_token(&self) -> Option<Duration> {
        self.config.slow_first_token
    }

    fn report_closed(&mut self, now: Moment, verdict: Verdict) {
        match verdict {
            Verdict::Neutral => return,
            Verdict::Success => {
                self.counts.add(now, SUCCESSES);
                self.run = Run::default();
                // Whoever answers has taken back what it said about waiting.
                self.not_before = Moment::ORIGIN;
                return;
            }
            Verdict::Failure => self.counts.add(now, FAILURES),
            Verdict::Broke => {
                self.counts.take_back(now, SUCCESSES);
                self.counts.add(now, FAILURES);
            }
            Verdict::Throttled => {}
        }
        if self.run.length == 0 {
            self.run.since = now;
        }
        self.run.length = self.run.length.saturating_add(1);
        if self.runs_too_long(now) || self.fails_too_often(now) {
            self.open(now, 0);
        }
    }

    fn runs_too_long(&self, now: Moment) -> bool {
        self.config.run.is_some_and(|length| {
            self.run.length >= length.max(1) && now.since(self.run.since) >= self.config.run_within
        })
    }

    fn fails_too_often(&mut self, now: Moment) -> bool {
        let failures = self.counts.at_least(now, FAILURES);
        let all = failures.saturating_add(self.counts.at_least(now, SUCCESSES));
        all >= u64::from(self.config.min_samples.max(1))
            && failures.saturating_mul(100)
                >= all.saturating_mul(u64::from(self.config.failure_percent))
    }

    fn report_open(&mut self, now: Moment, probe: Option<ProbeId>, verdict: Verdict) {
        let Some(open) = &mut self.open else { return };
        match (open.probe, probe) {
            (Some((out, _)), Some(this)) if out == this => open.probe = None,
            // Lost, or no probe at all: it says nothing about now.
            _ => return,
        }
        match verdict {
            Verdict::Neutral => {}
            Verdict::Success => {
                open.successes = open.successes.saturating_add(1);
                self.not_before = Moment::ORIGIN;
                if open.successes >= self.config.successes_to_close.max(1) {
                    self.close();
                }
            }
            Verdict::Failure | Verdict::Throttled | Verdict::Broke => {
                let level = open.level.saturating_add(1);
                self.open(now, level);
            }
        }
    }

    fn open(&mut self, now: Moment, level: u32) {
        // 1, 1, 2, 4, ...: no wait is longer than it has been open already.
        let doubled = 1_u32.checked_shl(level.saturating_sub(1));
        let doubled = doubled.unwrap_or(u32::MAX);
        let wait = self
            .config
            .open_for
            .saturating_mul(doubled)
            .min(self.config.max_open_for)
            .max(self.config.open_for);
        let more = wait.mul_f64(self.chance.unit() * f64::from(self.config.jitter_percent) / 100.0);
        self.open = Some(Open {
            until: now.after(wait).after(more),
            level,
            probe: None,
            successes: 0,
        });
    }

    /// Begins again with nothing counted: what happened before it opened must
    /// not open it again.
    fn close(&mut self) {
        self.open = None;
        self.run = Run::default();
        self.counts.clear();
    }
}

#[cfg(test)]
mod tests;
