//! Two kinds of time, both handed in from outside.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A point on the monotonic clock of one process, counted from an arbitrary
/// origin. Tests invent it; the driver reads it from its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The origin.
    pub const ORIGIN: Self = Self(Duration::ZERO);

    /// The moment this long after the origin.
    pub const fn from_origin(since: Duration) -> Self {
        Self(since)
    }

    /// How long after the origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// This moment plus `wait`, or the end of time.
    pub const fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// How long it is since `earlier`; zero when `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Wall-clock time: milliseconds since 1970-01-01T00:00:00Z.
///
/// Used for what outlives a process (records, leases, expiry) and for
/// `Retry-After` dates; never to measure how long something took.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct WallTime(u64);

impl WallTime {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This time plus `wait`, or the end of time.
    pub fn after(self, wait: Duration) -> Self {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// How long it is since `earlier`; zero when `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}
