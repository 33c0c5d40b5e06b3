//! The one place where clocks are read.

use crate::proto::model::{Moment, WallTime};
use crate::proto::operation::Now;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Both clocks of this process. The monotonic one is tokio's, so that a paused
/// runtime drives a whole client in tests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    pub(super) fn now(&self) -> Now {
        Now {
            moment: Moment::from_origin(self.origin.elapsed()),
            wall: wall_clock(),
        }
    }

    /// When a moment is, on tokio's clock.
    pub(super) fn instant(&self, moment: Moment) -> Instant {
        self.origin
            .checked_add(moment.since_origin())
            .unwrap_or_else(|| self.origin + std::time::Duration::from_secs(30 * 365 * 24 * 3600))
    }
}

/// The wall clock. A clock before 1970 reads as 1970: times in records are for
/// people and for expiry, and neither is worth a panic.
pub(crate) fn wall_clock() -> WallTime {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    WallTime::from_millis(0).after(since)
}
