//! Full jitter: each delay is uniform between zero and a bound that doubles.

use super::RetryPolicy;
use crate::proto::seeded::Seeded;
use std::time::Duration;

/// Draws the delays of one operation.
///
/// Full jitter spreads callers that failed together over the whole interval,
/// which is what empties a queue fastest (AWS Architecture Blog, "Exponential
/// Backoff And Jitter"). The seed comes from above the waterline, once.
#[derive(Clone, Debug)]
pub struct Schedule {
    policy: RetryPolicy,
    chance: Seeded,
}

impl Schedule {
    /// A schedule for this policy. Equal seeds give equal delays.
    pub const fn new(policy: RetryPolicy, seed: u64) -> Self {
        Self {
            policy,
            chance: Seeded::new(seed),
        }
    }

    /// The delay before retry number `retry`, from 0: uniform between zero and
    /// `min(cap, base * 2^retry * stretch)`, but at least `min_delay`. `stretch`
    /// is above 1 for failures that need longer (overload).
    pub fn delay(&mut self, retry: u32, stretch: u32) -> Duration {
        let doubled = 1_u32.checked_shl(retry).unwrap_or(u32::MAX);
        let bound = self
            .policy
            .base
            .saturating_mul(doubled)
            .saturating_mul(stretch.max(1))
            .min(self.policy.cap);
        let drawn = bound.mul_f64(self.chance.unit());
        drawn.max(self.policy.min_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_delay_lies_between_the_floor_and_the_cap_for_any_retry_and_stretch() {
        let policy = RetryPolicy::INTERACTIVE;
        let mut schedule = Schedule::new(policy, 7);
        for retry in (0..40).chain([u32::MAX - 1, u32::MAX]) {
            for stretch in [0, 1, 4, u32::MAX] {
                let delay = schedule.delay(retry, stretch);
                assert!(
                    delay >= policy.min_delay && delay <= policy.cap,
                    "{delay:?}"
                );
            }
        }
    }

    #[test]
    fn the_first_bound_is_the_base_and_delays_fill_it() {
        let mut schedule = Schedule::new(RetryPolicy::INTERACTIVE, 1);
        let delays: Vec<_> = (0..1000).map(|_| schedule.delay(0, 1)).collect();
        assert!(delays.iter().all(|d| *d <= Duration::from_millis(500)));
        let mean = delays.iter().sum::<Duration>() / 1000;
        assert!((200..300).contains(&mean.as_millis()), "{mean:?}");
    }

    #[test]
    fn equal_seeds_draw_equal_delays_and_others_do_not() {
        let draw = |seed| {
            let mut schedule = Schedule::new(RetryPolicy::BATCH, seed);
            (0..8).map(|n| schedule.delay(n, 1)).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
