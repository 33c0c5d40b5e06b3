//! How long to wait: random delays below a bound that doubles.

use super::RetryPolicy;
use crate::proto::seeded::Seeded;
use std::time::Duration;

/// How delays are spread, so that callers that failed together do not come back
/// together.
///
/// | | retry `n`, from 0 | mean of the first | when |
/// |---|---|---|---|
/// | `Full` (default) | uniform in [0, bound] | base / 2 | empties a queue fastest with the least work |
/// | `Equal` | uniform in [bound / 2, bound] | 3/4 base | a provider that must never be asked again at once |
/// | `Decorrelated` | uniform in [base, 3 x the delay before] | 2 base | long outages: delays of one caller wander apart |
///
/// The bound is `min(cap, base * 2^n * stretch)`. The names and their comparison
/// are from the AWS Architecture Blog, "Exponential Backoff And Jitter" (2015).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Jitter {
    /// Anything up to the bound.
    #[default]
    Full,
    /// The upper half of it.
    Equal,
    /// Between the base and three times the delay before, up to the cap.
    Decorrelated,
}

/// Draws the delays of one operation. The seed comes from above the waterline,
/// once.
#[derive(Clone, Debug)]
pub struct Schedule {
    policy: RetryPolicy,
    chance: Seeded,
    /// The delay before, for [`Jitter::Decorrelated`]; without the stretch.
    before: Duration,
}

impl Schedule {
    /// A schedule for this policy. Equal seeds give equal delays.
    pub const fn new(policy: RetryPolicy, seed: u64) -> Self {
        Self {
            policy,
            chance: Seeded::new(seed),
            before: policy.base,
        }
    }

    /// The delay before retry number `retry`, from 0, spread as the policy says,
    /// but at least `min_delay` and at most `cap` (or `min_delay`, where that is
    /// more). `stretch` is above 1 for failures that need longer (overload).
    pub fn delay(&mut self, retry: u32, stretch: u32) -> Duration {
        let RetryPolicy { base, cap, .. } = self.policy;
        let stretch = stretch.max(1);
        let doubled = 1_u32.checked_shl(retry).unwrap_or(u32::MAX);
        let bound = base
            .saturating_mul(doubled)
            .saturating_mul(stretch)
            .min(cap);
        let drawn = match self.policy.jitter {
            Jitter::Full => self.between(Duration::ZERO, bound),
            Jitter::Equal => self.between(bound / 2, bound),
            Jitter::Decorrelated => {
                if retry == 0 {
                    self.before = base;
                }
                let most = self.before.saturating_mul(3).min(cap);
                self.before = self.between(base.min(most), most);
                self.before.saturating_mul(stretch).min(cap)
            }
        };
        drawn.max(self.policy.min_delay)
    }

    /// The delay where the other side said how long to wait: that long, never
    /// less, and at least `min_delay`. With `spread_hints` up to the base or a
    /// tenth of it more: whoever is told "in five seconds" with a thousand others
    /// would else be back with all of them.
    pub fn after_hint(&mut self, hint: Duration) -> Duration {
        let RetryPolicy { base, cap, .. } = self.policy;
        let more = if self.policy.spread_hints {
            self.between(Duration::ZERO, base.max(hint / 10).min(cap))
        } else {
            Duration::ZERO
        };
        hint.saturating_add(more).max(self.policy.min_delay)
    }

    fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = most.saturating_sub(least);
        least
            .saturating_add(span.mul_f64(self.chance.unit()))
            .min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Jitter; 3] = [Jitter::Full, Jitter::Equal, Jitter::Decorrelated];

    fn with(jitter: Jitter) -> RetryPolicy {
        RetryPolicy {
            jitter,
            ..RetryPolicy::INTERACTIVE
        }
    }

    fn mean(delays: &[Duration]) -> u128 {
        delays.iter().map(Duration::as_micros).sum::<u128>() / delays.len() as u128 / 1000
    }

    #[test]
    fn the_first_bound_is_the_base_and_delays_fill_it() {
        let draw = |jitter, seed| Schedule::new(with(jitter), seed).delay(0, 1);
        for (jitter, least, most, expected) in [
            (Jitter::Full, 0, 500, 240..260),
            (Jitter::Equal, 250, 500, 365..385),
            (Jitter::Decorrelated, 500, 1500, 980..1020),
        ] {
            // Of many operations, not of one: they are what must not meet.
            let delays: Vec<_> = (0..20_000).map(|seed| draw(jitter, seed)).collect();
            let mean = mean(&delays);
            assert!(expected.contains(&mean), "{jitter:?}: {mean} ms");
            let mut bins = [0_u32; 10];
            for delay in &delays {
                let micros = delay.as_micros();
                assert!((least * 1000..=most * 1000).contains(&micros));
                let bin = (micros - least * 1000) * 10 / ((most - least) * 1000 + 1);
                bins[usize::try_from(bin).unwrap()] += 1;
            }
            for bin in bins {
                assert!((1800..=2200).contains(&bin), "{jitter:?}: {bins:?}");
            }
        }
    }

    #[test]
    fn the_bound_doubles_with_each_retry_up_to_the_cap() {
        for jitter in [Jitter::Full, Jitter::Equal] {
            for (retry, bound) in [(0, 500), (1, 1000), (3, 4000), (10, 20_000)] {
                let draw = |seed| Schedule::new(with(jitter), seed).delay(retry, 1);
                let longest = (0..2000).map(draw).max().unwrap();
                let bound = Duration::from_millis(bound);
                assert!(longest <= bound && longest > bound.mul_f64(0.98));
            }
        }
    }

    #[test]
    fn the_delays_of_one_operation_wander_apart() {
        // The spread at the fifth retry is far wider than at the first.
        let fifth = |seed| {
            let mut schedule = Schedule::new(with(Jitter::Decorrelated), seed);
            for n in 0..4 {
                schedule.delay(n, 1);
            }
            schedule.delay(4, 1)
        };
        let delays: Vec<_> = (0..2000).map(fifth).collect();
        let (shortest, longest) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
        let wide = *shortest < Duration::from_secs(2) && *longest > Duration::from_secs(15);
        assert!(wide, "{shortest:?} to {longest:?}");
        // And a new series begins at the base again.
        let mut schedule = Schedule::new(with(Jitter::Decorrelated), 1);
        for n in 0..8 {
            schedule.delay(n, 1);
        }
        assert!(schedule.delay(0, 1) <= Duration::from_millis(1500));
    }

    #[test]
    fn equal_seeds_draw_equal_delays_and_others_do_not() {
        for jitter in ALL {
            let draw = |seed| {
                let mut schedule = Schedule::new(with(jitter), seed);
                (0..8).map(|n| schedule.delay(n, 1)).collect::<Vec<_>>()
            };
            assert_eq!(draw(3), draw(3));
            assert_ne!(draw(3), draw(4));
        }
    }

    #[test]
    fn those_who_are_told_to_wait_equally_long_can_come_back_one_by_one() {
        for (hint, spread) in [(0, 500), (5_000, 500), (20_000, 2000)] {
            let hint = Duration::from_millis(hint);
            let exact = Schedule::new(RetryPolicy::INTERACTIVE, 1).after_hint(hint);
            assert_eq!(exact, hint.max(RetryPolicy::INTERACTIVE.min_delay));
            let policy = RetryPolicy {
                spread_hints: true,
                ..RetryPolicy::INTERACTIVE
            };
            let draw = |seed| Schedule::new(policy, seed).after_hint(hint);
            let delays: Vec<_> = (0..2000).map(draw).collect();
            assert!(delays.iter().all(|delay| *delay >= hint));
            let longest = delays.iter().max().unwrap().saturating_sub(hint);
            let spread = Duration::from_millis(spread);
            assert!(longest <= spread && longest > spread.mul_f64(0.98));
        }
    }

    proptest! {
        #[test]
        fn every_delay_lies_between_the_floor_and_the_cap(
            jitter in prop::sample::select(&ALL),
            base in 0..u64::MAX,
            cap in 0..u64::MAX,
            floor in 0..100_000_u64,
            retries in prop::collection::vec((any::<u32>(), any::<u32>()), 1..20),
            seed in any::<u64>(),
        ) {
            let policy = RetryPolicy {
                base: Duration::from_millis(base),
                cap: Duration::from_millis(cap),
                min_delay: Duration::from_millis(floor),
                ..with(jitter)
            };
            let mut schedule = Schedule::new(policy, seed);
            for (retry, stretch) in retries {
                let delay = schedule.delay(retry, stretch);
                prop_assert!(delay >= policy.min_delay);
                prop_assert!(delay <= policy.cap.max(policy.min_delay), "{delay:?}");
            }
            let hinted = schedule.after_hint(policy.base);
            prop_assert!(hinted >= policy.base.max(policy.min_delay));
        }

        #[test]
        fn small_retries_of_sane_policies_keep_their_own_bounds(
            jitter in prop::sample::select(&ALL), retry in 0..6_u32, stretch in 1..5_u32, seed in any::<u64>(),
        ) {
            let policy = with(jitter);
            let bound = (policy.base * (1 << retry) * stretch).min(policy.cap);
            let mut schedule = Schedule::new(policy, seed);
            for earlier in 0..retry {
                schedule.delay(earlier, 1);
            }
            let delay = schedule.delay(retry, stretch);
            match jitter {
                Jitter::Full => prop_assert!(delay <= bound),
                Jitter::Equal => prop_assert!(delay >= bound / 2 && delay <= bound),
                Jitter::Decorrelated => prop_assert!(delay >= policy.base * stretch || delay == policy.cap),
            }
        }
    }
}
