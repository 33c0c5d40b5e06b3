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
