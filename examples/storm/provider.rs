//! A provider with invented time: fine, down, or turning requests away.

use std::time::Duration;
use streamkeep::proto::model::Moment;
use streamkeep::proto::seeded::Seeded;

/// What the provider is like from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// It answers, as long as it is not asked for more than its capacity.
    Fine,
    /// It answers with 500, 503 and 429, and nothing else.
    Down,
    /// It serves so many requests a second and answers 429 to the rest, with or
    /// without a `retry-after` in seconds.
    Throttling {
        per_second: u32,
        retry_after: Option<u32>,
    },
}

/// What it answers to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A stream: its first token after one time, its end after another.
    Stream { first: Duration, rest: Duration },
    /// An error.
    Error {
        after: Duration,
        status: u16,
        retry_after: Option<u32>,
    },
}

#[derive(Debug)]
pub(crate) struct Provider {
    weather: Vec<(Moment, Weather)>,
    /// Requests a second that it can serve; above that it answers 503.
    capacity: u32,
    capacity_left: Allowance,
    rate_left: Allowance,
    chance: Seeded,
}

/// Requests that may still be served, with one second's worth as the most.
#[derive(Debug)]
struct Allowance {
    thousandths: u64,
    filled: Moment,
}

impl Allowance {
    fn full(per_second: u32) -> Self {
        Self {
            thousandths: u64::from(per_second) * 1000,
            filled: Moment::ORIGIN,
        }
    }

    fn take(&mut self, now: Moment, per_second: u32) -> bool {
        let full = u64::from(per_second) * 1000;
        let millis = now.since(self.filled).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        if millis > 0 {
            let more = millis.saturating_mul(u64::from(per_second));
            self.thousandths = self.thousandths.saturating_add(more).min(full);
            self.filled = now;
        }
        let is_there = self.thousandths >= 1000;
        if is_there {
            self.thousandths -= 1000;
        }
        is_there
    }
}

impl Provider {
    pub(crate) fn new(weather: &[(Duration, Weather)], capacity: u32, seed: u64) -> Self {
        let mut weather: Vec<_> = weather
            .iter()
            .map(|(from, weather)| (Moment::from_origin(*from), *weather))
            .collect();
        weather.sort_by_key(|(from, _)| *from);
        Self {
            weather,
            capacity,
            capacity_left: Allowance::full(capacity),
            rate_left: Allowance::full(0),
            chance: Seeded::new(seed),
        }
    }

    pub(crate) fn ask(&mut self, now: Moment) -> Answer {
        let weather = self.weather.iter().rev().find(|(from, _)| *from <= now);
        match weather.map_or(Weather::Fine, |(_, weather)| *weather) {
            Weather::Down => {
                let status = match self.chance.bits() % 3 {
                    0 => 500,
                    1 => 503,
                    _ => 429,
                };
                self.error(status, None)
            }
            Weather::Throttling {
                per_second,
                retry_after,
            } => {
                if self.rate_left.take(now, per_second) {
                    self.stream()
                } else {
                    self.error(429, retry_after)
                }
            }
            Weather::Fine => {
                if self.capacity_left.take(now, self.capacity) {
                    self.stream()
                } else {
                    self.error(503, None)
                }
            }
        }
    }

    fn stream(&mut self) -> Answer {
        Answer::Stream {
            first: self.between(300, 1200),
            rest: self.between(800, 3000),
        }
    }

    fn error(&mut self, status: u16, retry_after: Option<u32>) -> Answer {
        Answer::Error {
            after: self.between(20, 80),
            status,
            retry_after,
        }
    }

    fn between(&mut self, least: u64, most: u64) -> Duration {
        let span = Duration::from_millis(most - least);
        Duration::from_millis(least) + span.mul_f64(self.chance.unit())
    }
}
