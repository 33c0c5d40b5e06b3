//! The bulkhead: how many requests to one endpoint may be in flight. Floor 1.
//!
//! The limit is halved when the provider says "too much", and grows by steps of
//! equal size: multiplicative decrease, additive increase, as TCP does it (RFC
//! 5681). It climbs quickly to where it was cut, and slowly beyond (the idea of
//! RFC 9438): a burst of seconds is not paid for with minutes of waiting. What
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
    /// In thousandths, as the three below.
    limit: u64,
    /// What was in flight before the provider first said that it was too much.
    full: u64,
    /// What the limit climbs back to quickly, and by how much a second.
    aim: u64,
    climb: u64,
    /// Until when it has grown.
    grown: Moment,
    /// When it was last cut.
    cut: Option<Moment>,
    peak: Peak,
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
            full: 0,
            aim: 0,
            climb: 0,
            grown: now,
            cut: None,
            peak: Peak::default(),
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
            self.go_in(now, ticket);
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
            self.go_in(now, ticket);
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

    fn go_in(&mut self, now: Moment, ticket: Ticket) {
        self.inside.insert(ticket);
        self.peak.note(now, self.inside.len());
    }

    /// Halves what was really in flight lately, which may be far less than the
    /// limit (RFC 5681 section 3.1 takes the flight size, RFC 7661 that of the
    /// last minutes, for the same reason).
    ///
    /// Where next to nothing was, one message says little about busier times: a
    /// cut leaves a sixteenth of the limit, and the climb goes to half of it.
    /// Where the last climb did not come to its end, the aim is lowered by a
    /// quarter: by and by it learns what the provider takes.
    fn throttle(&mut self, now: Moment) {
        self.grown = self.grown.max(now.after(self.config.hold));
        let recent = self
            .cut
            .is_some_and(|cut| now.since(cut) < self.config.cut_interval);
        if recent {
            return;
        }
        self.cut = Some(now);
        self.peak.note(now, self.inside.len());
        let before = self.limit;
        let quiet = before / 16;
        let least = thousandths(self.config.min.max(1));
        let used = thousandths(self.peak.lately()).min(before);
        self.limit = (used / 2).max(quiet).max(least).min(before);
        if before < self.aim {
            self.aim = self.aim / 4 * 3;
        } else {
            self.full = if used < quiet { before / 2 } else { used };
            // Not all of it: the peak is above the mean, and those who waited in
            // the meantime come on top.
            self.aim = self.full / 10 * 9;
        }
        let seconds = self.config.regain_within.as_secs().max(1);
        self.climb = self.aim.saturating_sub(self.limit).div_ceil(seconds);
    }

    /// Adds what the time since the last look has earned, second by second.
    fn grow(&mut self, now: Moment) {
        let max = thousandths(self.config.max.max(1));
        if self.limit >= max {
            self.grown = self.grown.max(now);
            return;
        }
        let seconds = now.since(self.grown).as_secs();
        let minute = self.full / 100 * u64::from(self.config.grow_percent);
        let slowly = (minute / 60).max(17);
        let quickly = self.climb.max(slowly);
        let missing = self.aim.saturating_sub(self.limit);
        let quick = missing.div_ceil(quickly).min(seconds);
        let climbed = quickly.saturating_mul(quick).min(missing);
        let grown = slowly.saturating_mul(seconds - quick);
        self.limit = self
            .limit
            .saturating_add(climbed)
            .saturating_add(grown)
            .min(max);
        self.grown = self.grown.after(Duration::from_secs(seconds));
    }
}

/// The most that was in flight in this minute and the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    minute: u64,
    this: usize,
    before: usize,
}

impl Peak {
    fn lately(self) -> usize {
        self.this.max(self.before)
    }

    fn note(&mut self, now: Moment, in_flight: usize) {
        let minute = now.since_origin().as_secs() / 60;
        if minute > self.minute {
            self.before = if minute == self.minute + 1 {
                self.this
            } else {
                0
            };
            self.this = 0;
            self.minute = minute;
        }
        self.this = self.this.max(in_flight);
    }
}

fn thousandths(whole: usize) -> u64 {
    u64::try_from(whole)
        .unwrap_or(u64::MAX)
        .saturating_mul(1000)
}

#[cfg(test)]
mod tests;
