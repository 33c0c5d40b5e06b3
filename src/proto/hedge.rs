//! When a second request beside a slow one is worth it. Floor 1.
//!
//! A hedge goes out when the first token takes longer than it does for 19 of 20
//! requests, and only for a small share of the traffic: hedging everything that
//! is slow doubles the load exactly when the provider is slow because of load
//! (Dean and Barroso, "The Tail at Scale", 2013).

use super::model::Moment;
use super::sliding::{FIRST as REQUESTS, SECOND as HEDGES, Sliding};
use std::time::Duration;

/// The numbers of hedging.
///
/// | field | default | why |
/// |---|---|---|
/// | `enabled` | no | a hedge is billed twice |
/// | `percentile` | 95 | one request in twenty is slow enough to be asked for |
/// | `min_samples` | 50 | below it the percentile is decided by two requests |
/// | `percent` | 2 | a cap of its own: less than half of those that are slow |
/// | `within` | 60 s | the span of the cap |
/// | `half_life` | 5 min | what was slow this morning says nothing |
/// | `min_delay` | 100 ms | below it a hedge can gain nothing that a person notices |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HedgeConfig {
    /// Whether to hedge at all. The statistics are kept in any case.
    pub enabled: bool,
    /// Which percentile of the time to the first token is waited for; 1 to 99.
    pub percentile: u32,
    /// Samples before there is a delay; at least 20.
    pub min_samples: u32,
    /// Hedges per hundred requests.
    pub percent: u32,
    /// The span that the share is taken over.
    pub within: Duration,
    /// After so long a sample counts half.
    pub half_life: Duration,
    /// No delay is shorter.
    pub min_delay: Duration,
}

impl HedgeConfig {
    /// See the table.
    pub const DEFAULT: Self = Self {
        enabled: false,
        percentile: 95,
        min_samples: 50,
        percent: 2,
        within: Duration::from_secs(60),
        half_life: Duration::from_secs(300),
        min_delay: Duration::from_millis(100),
    };

    /// The same, switched on.
    pub const ON: Self = Self {
        enabled: true,
        ..Self::DEFAULT
    };
}

impl Default for HedgeConfig {
    /// [`HedgeConfig::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// First-token statistics and the hedge allowance of one endpoint. Constant
/// memory: a histogram whose bins grow by a twelfth to an eighth each, from one
/// millisecond to a quarter of an hour.
#[derive(Clone, Debug)]
pub struct Hedge {
    config: HedgeConfig,
    /// Weights; a sample weighs [`ONE`].
    bins: Box<[u32]>,
    /// When the weights were last halved.
    halved: Moment,
    traffic: Sliding,
}

/// Where the statistics stand, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HedgeSnapshot {
    /// Samples, the older ones counted less.
    pub samples: u64,
    /// The percentile of the time to the first token; `None` while there are too
    /// few samples.
    pub delay: Option<Duration>,
    /// Requests in the span of the cap.
    pub requests: u64,
    /// Hedges in it.
    pub hedges: u64,
}

impl Hedge {
    /// Without samples.
    pub fn new(config: HedgeConfig, now: Moment) -> Self {
        Self {
            bins: vec![0; BINS].into(),
            halved: now,
            traffic: Sliding::new(config.within),
            config,
        }
    }

    /// Counts a request, hedge or not.
    pub fn request(&mut self, now: Moment) {
        self.traffic.add(now, REQUESTS);
    }

    /// Takes a sample.
    pub fn first_token(&mut self, now: Moment, took: Duration) {
        self.decay(now);
        if let Some(weight) = self.bins.get_mut(bin(took)) {
            *weight = weight.saturating_add(ONE);
        }
    }

    /// How long to wait for the first token before a hedge is worth it; `None`
    /// while hedging is off or there are too few samples.
    pub fn delay(&mut self, now: Moment) -> Option<Duration> {
        if !self.config.enabled {
            return None;
        }
        self.percentile(now)
            .map(|delay| delay.max(self.config.min_delay))
    }

    /// Whether one more hedge is within the cap. Takes nothing.
    pub fn allows(&mut self, now: Moment) -> bool {
        let share = self
            .traffic
            .at_most(now, REQUESTS)
            .saturating_mul(u64::from(self.config.percent))
            / 100;
        self.delay(now).is_some() && self.traffic.at_least(now, HEDGES) < share
    }

    /// Whether a hedge may go out now; it is counted if so.
    pub fn allow(&mut self, now: Moment) -> bool {
        let allowed = self.allows(now);
        if allowed {
            self.traffic.add(now, HEDGES);
        }
        allowed
    }

    /// Where it stands.
    pub fn snapshot(&mut self, now: Moment) -> HedgeSnapshot {
        HedgeSnapshot {
            delay: self.percentile(now),
            samples: self.weight() / u64::from(ONE),
            requests: self.traffic.at_least(now, REQUESTS),
            hedges: self.traffic.at_least(now, HEDGES),
        }
    }

    fn weight(&self) -> u64 {
        self.bins.iter().map(|weight| u64::from(*weight)).sum()
    }

    fn percentile(&mut self, now: Moment) -> Option<Duration> {
        self.decay(now);
        let all = self.weight();
        let enough = u64::from(self.config.min_samples.max(20)) * u64::from(ONE);
        if all < enough {
            return None;
        }
        let wanted = all.saturating_mul(u64::from(self.config.percentile.clamp(1, 99)));
        let mut below = 0_u64;
        let at = self.bins.iter().position(|weight| {
            below = below.saturating_add(u64::from(*weight));
            below.saturating_mul(100) >= wanted
        })?;
        Some(upper_edge(at))
    }

    fn decay(&mut self, now: Moment) {
        let half_life = self.config.half_life.max(Duration::from_secs(1));
        let halvings = now.since(self.halved).as_nanos() / half_life.as_nanos();
        let halvings = u32::try_from(halvings).unwrap_or(u32::MAX);
        if halvings == 0 {
            return;
        }
        for weight in &mut self.bins {
            *weight = weight.checked_shr(halvings).unwrap_or(0);
        }
        self.halved = self.halved.after(half_life.saturating_mul(halvings));
    }
}

/// The weight of a fresh sample: so large that halving it a few times keeps it.
const ONE: u32 = 256;

/// Bins between one power of two and the next.
const PER_OCTAVE: u32 = 8;

/// 2^20 ms is 17 minutes, longer than any first-token clock.
const OCTAVES: u32 = 20;
const BINS: usize = (OCTAVES * PER_OCTAVE) as usize;

/// The bin of a duration: its power of two, and the eighth of the way to the
/// next.
fn bin(took: Duration) -> usize {
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    let octave = millis.ilog2();
    let above = u128::from(millis) - (1_u128 << octave);
    let eighth = (above * u128::from(PER_OCTAVE)) >> octave;
    let eighth = usize::try_from(eighth).unwrap_or(0);
    ((octave * PER_OCTAVE) as usize)
        .saturating_add(eighth)
        .min(BINS - 1)
}

fn upper_edge(bin: usize) -> Duration {
    let bin = u32::try_from(bin).unwrap_or(u32::MAX).saturating_add(1);
    let (octave, eighth) = (bin / PER_OCTAVE, bin % PER_OCTAVE);
    let start = 1_u64.checked_shl(octave).unwrap_or(u64::MAX);
    Duration::from_millis(start.saturating_add(start.saturating_mul(u64::from(eighth)) / 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(millis))
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn hedge() -> Hedge {
        Hedge::new(HedgeConfig::ON, at(0))
    }

    #[test]
    fn it_is_off_by_default_and_until_there_are_enough_samples() {
        let mut off = Hedge::new(HedgeConfig::DEFAULT, at(0));
        let mut on = hedge();
        for n in 0..100 {
            assert_eq!(on.delay(at(0)).is_some(), n >= 50, "{n}");
            on.first_token(at(0), millis(500));
            off.first_token(at(0), millis(500));
        }
        assert_eq!(off.delay(at(0)), None);
        assert!(!off.allow(at(0)));
        assert!(off.snapshot(at(0)).delay.is_some());
    }

    #[test]
    fn the_delay_is_the_percentile_of_what_came_lately() {
        let mut hedge = hedge();
        for n in 1..=1000 {
            hedge.first_token(at(0), millis(n));
        }
        let delay = hedge.delay(at(0)).unwrap();
        assert!((950..=1080).contains(&delay.as_millis()), "{delay:?}");
        // An hour later the provider is slower, and what was is forgotten.
        for _ in 0..100 {
            hedge.first_token(at(3_600_000), millis(4000));
        }
        let delay = hedge.delay(at(3_600_000)).unwrap();
        assert!((4000..=4600).contains(&delay.as_millis()), "{delay:?}");
        // Without traffic there is nothing to go by.
        assert_eq!(hedge.delay(at(36_000_000)), None);
    }

    #[test]
    fn no_more_than_two_in_a_hundred_are_hedged_and_a_quiet_endpoint_never() {
        let mut hedge = hedge();
        for _ in 0..60 {
            hedge.first_token(at(0), millis(500));
        }
        for _ in 0..49 {
            hedge.request(at(0));
        }
        assert!(!hedge.allow(at(0)));
        for _ in 0..951 {
            hedge.request(at(0));
        }
        let allowed = (0..1000).filter(|_| hedge.allow(at(0))).count();
        assert_eq!(allowed, 20);
        assert!(!hedge.allow(at(70_000)), "the traffic is over");
    }

    #[test]
    fn absurd_durations_are_taken() {
        let mut hedge = hedge();
        for took in [Duration::ZERO, Duration::MAX] {
            for _ in 0..50 {
                hedge.first_token(at(0), took);
            }
        }
        assert!(hedge.delay(at(0)).is_some());
    }

    proptest! {
        #[test]
        fn a_bins_edges_lie_around_what_is_in_it_and_close(took in 1..2_u64.pow(20)) {
            let edge = upper_edge(bin(millis(took)));
            prop_assert!(edge >= millis(took), "{edge:?}");
            prop_assert!(edge <= millis(took + took / 7 + 1), "{edge:?}");
        }

        #[test]
        fn the_percentile_is_never_below_the_true_one(
            mut took in prop::collection::vec(1..100_000_u64, 50..400)
        ) {
            let mut hedge = hedge();
            for took in &took {
                hedge.first_token(at(0), millis(*took));
            }
            took.sort_unstable();
            let rank = (took.len() * 95).div_ceil(100) - 1;
            let exact = millis(took[rank]).max(HedgeConfig::ON.min_delay);
            let delay = hedge.delay(at(0)).unwrap();
            prop_assert!(delay >= exact && delay <= exact.mul_f64(1.15) + millis(1), "{delay:?} for {exact:?}");
        }
    }
}
