//! Counting what happened lately, in constant memory. Floor 0.

use super::model::Moment;
use std::time::Duration;

/// How many slices make the span. One more is kept, see [`Sliding::at_least`].
const SLICES: usize = 12;
const KEPT: usize = SLICES + 1;

/// Two counters over a span of time that moves with the clock.
///
/// The span is cut into twelve slices, so a count is off by one slice at most,
/// and the reader chooses the side: [`at_least`](Self::at_least) covers the span
/// and up to a slice more, [`at_most`](Self::at_most) up to a slice less. A limit
/// that compares the first of what it limits with the second of what it allows
/// by is never broken, in any position of the span.
///
/// A clock that goes back counts as one that stands still.
#[derive(Clone, Debug)]
pub struct Sliding {
    slice: Duration,
    /// The number of the newest slice since the origin.
    head: u64,
    /// Slice `n` is at `n % KEPT`.
    slices: [[u32; 2]; KEPT],
}

/// The first of the two counters.
pub const FIRST: usize = 0;
/// The second of the two counters.
pub const SECOND: usize = 1;

impl Sliding {
    /// Counters over `span`; at least 12 ms, so that a slice is never empty.
    pub fn new(span: Duration) -> Self {
        Self {
            slice: (span / 12).max(Duration::from_millis(1)),
            head: 0,
            slices: [[0; 2]; KEPT],
        }
    }

    /// Counts one.
    pub fn add(&mut self, now: Moment, counter: usize) {
        self.advance(now);
        if let Some(count) = self.slot(self.head).and_then(|s| s.get_mut(counter)) {
            *count = count.saturating_add(1);
        }
    }

    /// Takes back the newest one of this counter, if there is one.
    pub fn take_back(&mut self, now: Moment, counter: usize) {
        self.advance(now);
        for back in 0..KEPT as u64 {
            let Some(number) = self.head.checked_sub(back) else {
                return;
            };
            if let Some(count) = self.slot(number).and_then(|s| s.get_mut(counter))
                && *count > 0
            {
                *count -= 1;
                return;
            }
        }
    }

    /// What this counter counted within the span, or up to a slice longer ago.
    pub fn at_least(&mut self, now: Moment, counter: usize) -> u64 {
        self.advance(now);
        self.sum(KEPT, counter)
    }

    /// What this counter counted within the span, or up to a slice less.
    pub fn at_most(&mut self, now: Moment, counter: usize) -> u64 {
        self.advance(now);
        self.sum(SLICES, counter)
    }

    /// How long until the oldest counted one of this counter leaves
    /// [`at_least`](Self::at_least); `None` when there is none.
    pub fn frees_in(&mut self, now: Moment, counter: usize) -> Option<Duration> {
        self.advance(now);
        let oldest = (0..KEPT as u64)
            .rev()
            .filter_map(|back| self.head.checked_sub(back))
            .find(|number| self.count(*number, counter) > 0)?;
        let leaves = oldest.saturating_add(KEPT as u64);
        let at = u32::try_from(leaves).map_or(Duration::MAX, |n| self.slice.saturating_mul(n));
        Some(Moment::from_origin(at).since(now))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.slices = [[0; 2]; KEPT];
    }

    fn sum(&self, slices: usize, counter: usize) -> u64 {
        (0..slices as u64)
            .filter_map(|back| self.head.checked_sub(back))
            .map(|number| u64::from(self.count(number, counter)))
            .sum()
    }

    fn count(&self, number: u64, counter: usize) -> u32 {
        let slice = self.slices.get(place(number));
        slice.and_then(|s| s.get(counter)).copied().unwrap_or(0)
    }

    fn slot(&mut self, number: u64) -> Option<&mut [u32; 2]> {
        self.slices.get_mut(place(number))
    }

    fn advance(&mut self, now: Moment) {
        let number = now.since_origin().as_nanos() / self.slice.as_nanos().max(1);
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        if number <= self.head {
            return;
        }
        if number - self.head >= KEPT as u64 {
            self.clear();
        } else {
            for passed in self.head + 1..=number {
                if let Some(slice) = self.slot(passed) {
                    *slice = [0; 2];
                }
            }
        }
        self.head = number;
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number % KEPT as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn what_is_counted_leaves_with_its_time() {
        let mut sliding = Sliding::new(Duration::from_secs(12));
        sliding.add(at(500), FIRST);
        sliding.add(at(11_900), SECOND);
        assert_eq!(sliding.at_most(at(11_999), FIRST), 1);
        assert_eq!(sliding.at_most(at(12_000), FIRST), 0);
        assert_eq!(sliding.at_least(at(12_999), FIRST), 1);
        let wait = sliding.frees_in(at(12_000), FIRST);
        assert_eq!(wait, Some(Duration::from_secs(1)));
        assert_eq!(sliding.at_least(at(13_000), FIRST), 0);
        assert_eq!(sliding.frees_in(at(13_000), FIRST), None);
        assert_eq!(sliding.at_least(at(13_000), SECOND), 1);
        assert_eq!(sliding.at_least(at(u64::MAX), SECOND), 0);
    }

    #[test]
    fn the_newest_is_taken_back_and_nothing_below_zero() {
        let mut sliding = Sliding::new(Duration::from_secs(12));
        sliding.add(at(0), FIRST);
        sliding.add(at(5_000), FIRST);
        sliding.take_back(at(6_000), FIRST);
        assert_eq!(sliding.at_least(at(12_999), FIRST), 1);
        assert_eq!(sliding.at_least(at(13_000), FIRST), 0);
        sliding.take_back(at(13_000), FIRST);
        assert_eq!(sliding.at_least(at(13_000), FIRST), 0);
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let mut sliding = Sliding::new(Duration::from_secs(12));
        sliding.add(at(100_000), FIRST);
        sliding.add(at(1_000), FIRST);
        assert_eq!(sliding.at_least(at(0), FIRST), 2);
        assert_eq!(sliding.at_least(at(100_000), FIRST), 2);
    }

    proptest! {
        #[test]
        fn the_true_count_lies_between_the_two(
            steps in prop::collection::vec(0..3_000_u64, 1..300), span in 1..40_u64
        ) {
            let mut sliding = Sliding::new(Duration::from_secs(span));
            let (mut now, mut log) = (0, Vec::new());
            for step in steps {
                now += step;
                sliding.add(at(now), FIRST);
                log.push(now);
                let exactly = log.iter().filter(|then| now - **then < span * 1000).count() as u64;
                prop_assert!(sliding.at_most(at(now), FIRST) <= exactly);
                prop_assert!(sliding.at_least(at(now), FIRST) >= exactly);
                let free = now + u64::try_from(sliding.frees_in(at(now), FIRST).unwrap().as_millis()).unwrap() + 1;
                let mut later = sliding.clone();
                prop_assert!(later.at_least(at(free), FIRST) < sliding.at_least(at(now), FIRST));
            }
        }
    }
}
