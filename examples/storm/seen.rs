//! What was seen of a storm, in slices of a tenth of a second.

use std::time::Duration;
use streamkeep::proto::breaker::BreakerState;
use streamkeep::proto::model::Moment;

/// What happened within a tenth of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slice {
    /// Calls that clients made.
    pub(crate) arrivals: u32,
    /// Attempts that went out, retries included.
    pub(crate) attempts: u32,
    /// Retries that went out.
    pub(crate) retries: u32,
    /// Attempts that were answered with an error.
    pub(crate) turned_away: u32,
    /// Attempts that the guards did not let out.
    pub(crate) refused: u32,
    /// Calls that ended with their answer.
    pub(crate) answered: u32,
    /// Calls that ended without.
    pub(crate) failed: u32,
    /// Retries that the budget granted.
    pub(crate) granted: u32,
    /// Retries that it did not.
    pub(crate) denied: u32,
}

/// What was seen of a storm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) slices: Vec<Slice>,
    /// Each change of the breaker of the first process.
    pub(crate) states: Vec<(Moment, BreakerState)>,
}

pub(crate) const PER_SECOND: usize = 10;

impl Seen {
    pub(crate) fn new(length: Duration) -> Self {
        let slices = place(Moment::from_origin(length)) + 1;
        Self {
            slices: vec![Slice::default(); slices],
            states: vec![(Moment::ORIGIN, BreakerState::Closed)],
        }
    }

    pub(crate) fn arrived(&mut self, now: Moment) {
        self.note(now, |slice| slice.arrivals += 1);
    }

    pub(crate) fn sent(&mut self, now: Moment, again: bool) {
        self.note(now, |slice| {
            slice.attempts += 1;
            slice.retries += u32::from(again);
        });
    }

    pub(crate) fn turned_away(&mut self, now: Moment) {
        self.note(now, |slice| slice.turned_away += 1);
    }

    pub(crate) fn refused(&mut self, now: Moment) {
        self.note(now, |slice| slice.refused += 1);
    }

    pub(crate) fn asked(&mut self, now: Moment, granted: bool) {
        self.note(now, |slice| {
            slice.granted += u32::from(granted);
            slice.denied += u32::from(!granted);
        });
    }

    pub(crate) fn finished(&mut self, now: Moment, answered: bool) {
        self.note(now, |slice| {
            slice.answered += u32::from(answered);
            slice.failed += u32::from(!answered);
        });
    }

    pub(crate) fn state(&mut self, now: Moment, state: BreakerState) {
        if self.states.last().is_none_or(|(_, last)| *last != state) {
            self.states.push((now, state));
        }
    }

    /// Attempts in the worst window of this many seconds between two seconds, as a
    /// multiple of the calls made in it or of the calls that a window has in the
    /// first 45 seconds, when all is well, whichever are more. Windows begin at
    /// every tenth of a second.
    pub(crate) fn worst_load(&self, window: u32, from: usize, to: usize) -> f64 {
        let healthy = f64::from(self.sum(0, 45, |slice| slice.arrivals));
        let healthy = healthy / 45.0 * f64::from(window);
        let span = self.slices.get(from * PER_SECOND..to * PER_SECOND);
        let width = usize::try_from(window).unwrap_or(1) * PER_SECOND;
        let windows = span.unwrap_or_default().windows(width.max(1));
        let load = |slices: &[Slice]| {
            let arrivals: u32 = slices.iter().map(|slice| slice.arrivals).sum();
            let attempts: u32 = slices.iter().map(|slice| slice.attempts).sum();
            f64::from(attempts) / f64::from(arrivals).max(healthy).max(1.0)
        };
        windows.map(load).fold(0.0, f64::max)
    }

    /// The sum of something between two seconds.
    pub(crate) fn sum(&self, from: usize, to: usize, what: impl Fn(&Slice) -> u32) -> u32 {
        let span = self.slices.get(from * PER_SECOND..to * PER_SECOND);
        span.unwrap_or_default().iter().map(what).sum()
    }

    /// Something, second by second.
    pub(crate) fn by_second(&self, what: impl Fn(&Slice) -> u32) -> Vec<u32> {
        let seconds = self.slices.chunks(PER_SECOND);
        seconds
            .map(|slices| slices.iter().map(&what).sum())
            .collect()
    }

    fn note(&mut self, now: Moment, change: impl FnOnce(&mut Slice)) {
        if let Some(slice) = self.slices.get_mut(place(now)) {
            change(slice);
        }
    }
}

fn place(now: Moment) -> usize {
    usize::try_from(now.since_origin().as_millis() / 100).unwrap_or(usize::MAX)
}
