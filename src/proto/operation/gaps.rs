//! The times between arrivals of output, counted without keeping them.

use std::time::Duration;

/// How long a reader waited between two arrivals of output, as a histogram of
/// fixed size: what is counted for every token must neither allocate nor grow.
///
/// Output that arrives together has no gap, so this is the rhythm of the network
/// and not of the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    buckets: [Bucket; Self::BOUNDS.len() + 1],
    longest: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bucket {
    count: u64,
    total: Duration,
}

impl Gaps {
    /// Upper bounds of the buckets, each belonging to its own; a last bucket has
    /// none. From the rhythm of a fast model (10 ms) to the progress clock of a
    /// reasoning one (15 min is its limit, and whatever is above 2 min is a
    /// stall, however long).
    pub const BOUNDS: [Duration; 12] = [
        Duration::from_millis(10),
        Duration::from_millis(25),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(250),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_millis(2500),
        Duration::from_secs(5),
        Duration::from_secs(15),
        Duration::from_secs(60),
        Duration::from_secs(120),
    ];

    /// Counts a gap. No time at all is none.
    pub(super) fn record(&mut self, gap: Duration) {
        if gap.is_zero() {
            return;
        }
        self.longest = self.longest.max(gap);
        let position = Self::BOUNDS
            .iter()
            .take_while(|bound| gap > **bound)
            .count();
        if let Some(bucket) = self.buckets.get_mut(position) {
            bucket.count = bucket.count.saturating_add(1);
            bucket.total = bucket.total.saturating_add(gap);
        }
    }

    /// The longest; `None` when there was none.
    pub fn longest(&self) -> Option<Duration> {
        (!self.longest.is_zero()).then_some(self.longest)
    }

    /// How many there were, and how long they were on average, for each bucket
    /// that has any.
    pub fn counted(&self) -> impl Iterator<Item = (u64, Duration)> + '_ {
        self.buckets.iter().filter_map(|bucket| {
            let count = u32::try_from(bucket.count).unwrap_or(u32::MAX);
            let mean = bucket.total.checked_div(count)?;
            Some((bucket.count, mean))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_where_they_belong_and_their_sum_is_kept() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.longest(), None);
        for millis in [0, 10, 4, 11, 120_000, 900_000] {
            gaps.record(Duration::from_millis(millis));
        }
        let counted: Vec<_> = gaps
            .counted()
            .map(|(count, mean)| (count, mean.as_millis()))
            .collect();
        assert_eq!(counted, [(2, 7), (1, 11), (1, 120_000), (1, 900_000)]);
        assert_eq!(gaps.longest(), Some(Duration::from_secs(900)));
    }

    #[test]
    fn the_bounds_rise() {
        assert!(Gaps::BOUNDS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
