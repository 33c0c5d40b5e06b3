//! The bulkhead: how many requests to one endpoint may be in flight. Floor 1.
//!
//! The limit gives way when the provider says "too much" and grows back slowly:
//! additive increase, multiplicative decrease, as TCP does it (RFC 5681). What
//! does not fit waits in a queue, first come first served. A retry is a request
//! like any other: there is no second door.

mod config;
mod queue;

pub use config::LimitConfig;

use super::model::Moment;
use queue::Queue;
use std::collections::BTreeSet;
use std::time::Duration;

/// Names one attempt at the guards. The caller chooses it, and never uses one
/// twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The bulkhead of one endpoint.
///
/// Invariants: never more in flight than the limit was when they entered; a
/// ticket is inside, waiting, or unknown, and is let in once; while anybody
/// waits, somebody is inside.
#[derive(Clone, Debug)]
pub struct Bulkhead {
    config: LimitConfig,
    /// In thousandths.
    limit: u64,
    grown: Moment,
    /// When it was last cut.
    cut: Option<Moment>,
    inside: BTreeSet<Ticket>,
    queue: Queue,
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It is inside: send.
    Entered,
    /// It waits; [`Bulkhead::leave`] and its kin name it when it is inside.
    Queued,
    /// The queue is full.
    Full,
}

/// What the end of an attempt says about the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Nothing.
    Quietly,
    /// The provider said that it was too much: a rate limit or an overload.
    Throttled,
}

/// Where a bulkhead stands, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSnapshot {
    /// Attempts in flight.
    pub in_flight: usize,
    /// How many may be.
    pub limit: usize,
    /// Attempts that wait.
    pub queued: usize,
}

impl Bulkhead {
    /// An empty one with its limit at the maximum.
    pub fn new(config: LimitConfig, now: Moment) -> Self {
        Self {
            limit: thousandths(config.max.max(1)),
            grown: now,
            cut: None,
            inside: BTreeSet::new(),
            queue: Queue::default(),
            config,
        }
    }

    /// A ticket arrives and may wait until `deadline`. One that is known already
    /// keeps its place.
    pub fn enter(&mut self, now: Moment, ticket: Ticket, deadline: Moment) -> Entry {
        self.grow(now);
        if self.inside.contains(&ticket) {
            return Entry::Entered;
        }
        if self.queue.contains(ticket) {
            return Entry::Queued;
        }
        if self.has_room() && !self.queue.somebody_waits(now) {
            self.inside.insert(ticket);
            return Entry::Entered;
        }
        if self.queue.len() >= self.config.max_queue {
            return Entry::Full;
        }
        self.queue.push(ticket, deadline);
        Entry::Queued
    }

    /// A ticket is done. Gives those that are inside now in its place. One that
    /// is not inside changes nothing.
    pub fn leave(&mut self, now: Moment, ticket: Ticket, how: Leaving) -> Vec<Ticket> {
        self.grow(now);
        if self.inside.contains(&ticket) {
            if how == Leaving::Throttled {
                self.throttle(now);
            }
            self.inside.remove(&ticket);
        }
        self.let_in(now)
    }

    /// A ticket is gone, from inside or from the queue. Gives those that are
    /// inside now in its place.
    pub fn forget(&mut self, now: Moment, ticket: Ticket) -> Vec<Ticket> {
        self.queue.remove(ticket);
        self.leave(now, ticket, Leaving::Quietly)
    }

    /// Takes those out of the queue whose deadline has come.
    pub fn expire(&mut self, now: Moment) -> Vec<Ticket> {
        self.queue.expire(now)
    }

    /// When [`expire`](Self::expire) next has something to give.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.queue.next_deadline()
    }

    /// Takes everybody out of the queue, in their order.
    pub fn turn_away(&mut self) -> Vec<Ticket> {
        self.queue.drain()
    }

    /// Lets in whoever has room by now, as the limit grows by itself.
    pub fn let_in(&mut self, now: Moment) -> Vec<Ticket> {
        self.grow(now);
        let mut entered = Vec::new();
        while self.has_room() {
            let Some(ticket) = self.queue.pop(now) else {
                break;
            };
            self.inside.insert(ticket);
            entered.push(ticket);
        }
        entered
    }

    /// Whether nobody is inside and nobody waits.
    pub fn is_idle(&self) -> bool {
        self.inside.is_empty() && self.queue.is_empty()
    }

    /// Whether the limit was as high as it can be when somebody last looked.
    pub fn is_wide_open(&self) -> bool {
        self.limit >= thousandths(self.config.max)
    }

    /// Where it stands.
    pub fn snapshot(&mut self, now: Moment) -> LimitSnapshot {
        self.grow(now);
        LimitSnapshot {
            in_flight: self.inside.len(),
            limit: self.whole(),
            queued: self.queue.len(),
        }
    }

    fn whole(&self) -> usize {
        usize::try_from(self.limit / 1000)
            .unwrap_or(usize::MAX)
            .max(1)
    }

    fn has_room(&self) -> bool {
        self.inside.len() < self.whole()
    }

    /// Halves what is really in flight, which may be far less than the limit
    /// (RFC 5681 section 3.1 takes the flight size for the same reason).
    fn throttle(&mut self, now: Moment) {
        let recent = self
            .cut
            .is_some_and(|cut| now.since(cut) < self.config.cut_interval);
        if recent {
            return;
        }
        self.cut = Some(now);
        let used = thousandths(self.inside.len()).min(self.limit);
        let floor = thousandths(self.config.min.max(1));
        self.limit = (used / 2).max(floor).min(self.limit);
    }

    /// Adds what the time since the last look has earned.
    fn grow(&mut self, now: Moment) {
        let max = thousandths(self.config.max.max(1));
        if self.limit >= max {
            self.grown = self.grown.max(now);
            return;
        }
        let steps = now.since(self.grown).as_millis() / STEP.as_millis();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        // Ten steps a minute, each a tenth of what a minute brings.
        let minute = max / 100 * u64::from(self.config.grow_percent);
        let more = (minute / 10).max(100).saturating_mul(u64::from(steps));
        self.limit = self.limit.saturating_add(more).min(max);
        self.grown = self.grown.after(STEP.saturating_mul(steps));
    }
}

const STEP: Duration = Duration::from_secs(6);

fn thousandths(whole: usize) -> u64 {
    u64::try_from(whole)
        .unwrap_or(u64::MAX)
        .saturating_mul(1000)
}

#[cfg(test)]
mod tests;
