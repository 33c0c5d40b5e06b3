//! The storms that are asserted and drawn.

use crate::provider::Weather;
use crate::seen::{PER_SECOND, Seen, Slice};
use crate::sim::Storm;
use std::time::Duration;
use streamkeep::proto::guards::GuardConfig;
use streamkeep::proto::retry::RetryPolicy;

/// When the provider goes down, and when it is back, in seconds.
pub(crate) const OUTAGE: (u64, u64) = (45, 135);
/// When it turns requests away, and when it stops, in seconds.
pub(crate) const BURST: (u64, u64) = (45, 75);
/// How long each storm is watched, in seconds.
pub(crate) const LENGTH: (u64, u64) = (210, 135);

/// A hundred calls a second: ten thousand clients that call every hundred
/// seconds, and a provider that can serve a quarter more.
fn calm() -> Storm {
    Storm {
        clients: 10_000,
        think: Duration::from_secs(97),
        processes: 1,
        weather: Vec::new(),
        capacity: 125,
        length: Duration::ZERO,
        guards: GuardConfig::DEFAULT,
        retry: RetryPolicy::INTERACTIVE,
        seed: 1,
    }
}

/// Everything fails for a minute and a half.
pub(crate) fn outage(guards: &GuardConfig) -> Storm {
    Storm {
        weather: vec![
            (Duration::from_secs(OUTAGE.0), Weather::Down),
            (Duration::from_secs(OUTAGE.1), Weather::Fine),
        ],
        length: Duration::from_secs(LENGTH.0),
        guards: *guards,
        ..calm()
    }
}

/// For half a minute only two of five requests are let through.
pub(crate) fn burst(guards: &GuardConfig, retry_after: Option<u32>) -> Storm {
    let throttling = Weather::Throttling {
        per_second: 40,
        retry_after,
    };
    Storm {
        weather: vec![
            (Duration::from_secs(BURST.0), throttling),
            (Duration::from_secs(BURST.1), Weather::Fine),
        ],
        length: Duration::from_secs(LENGTH.1),
        guards: *guards,
        ..calm()
    }
}

/// What was seen of those that are drawn.
pub(crate) struct All {
    pub(crate) outage_guarded: Seen,
    pub(crate) outage_bare: Seen,
    pub(crate) burst_guarded: Seen,
    pub(crate) burst_bare: Seen,
}

impl All {
    pub(crate) fn play() -> Result<Self, streamkeep::Error> {
        Ok(Self {
            outage_guarded: outage(&GuardConfig::DEFAULT).play()?,
            outage_bare: outage(&GuardConfig::OFF).play()?,
            burst_guarded: burst(&GuardConfig::DEFAULT, None).play()?,
            burst_bare: burst(&GuardConfig::OFF, None).play()?,
        })
    }

    pub(crate) fn by_name(&self) -> [(&'static str, &Seen); 4] {
        [
            ("outage, with guards", &self.outage_guarded),
            ("outage, without", &self.outage_bare),
            ("429s, with guards", &self.burst_guarded),
            ("429s, without", &self.burst_bare),
        ]
    }
}

/// The figures of one storm, in a line.
pub(crate) fn in_short(seen: &Seen) -> String {
    let length = seen.slices.len() / PER_SECOND;
    let sum = |what: fn(&Slice) -> u32| seen.sum(0, length, what);
    format!(
        "{} calls, {} answered; {} attempts, {} of them retries, {} turned away; \
         {} not let out; load at most {:.2} of the healthy one",
        sum(|slice| slice.arrivals),
        sum(|slice| slice.answered),
        sum(|slice| slice.attempts),
        sum(|slice| slice.retries),
        sum(|slice| slice.turned_away),
        sum(|slice| slice.refused),
        seen.worst_load(10, 0, length),
    )
}
