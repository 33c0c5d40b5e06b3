//! What all operations of a process share: one door to each endpoint. Floor 2.
//!
//! An operation looks after itself; the guards look after the provider and
//! after everybody else. Every attempt [arrives](Guards::arrive) and is
//! [done](Guards::done); every retry, rerun, failover and hedge is
//! [paid for](Guards::spend) before its wait. Pure values and invented time, as
//! everything here: the locks and the waiting are in `client::Gate`.

mod config;
mod report;
mod snapshot;

pub use config::GuardConfig;
pub use report::{Report, Reported, verdict};
pub use snapshot::{EndpointSnapshot, GuardsSnapshot};

use super::breaker::{Admission, Breaker, ProbeId, Verdict};
use super::budget::{Budgets, Cost, Exhausted, Form, Scope};
use super::endpoints::Endpoints;
use super::hedge::Hedge;
use super::limits::{Bulkhead, Entry, Leaving, Ticket};
use super::model::{EndpointId, Moment};
use super::seeded::Seeded;
use crate::error::ErrorKind;
use std::collections::BTreeMap;
use std::time::Duration;

/// The guards of one process.
///
/// Bounded: so many endpoints, so many tickets inside and waiting at each. A
/// ticket that is never reported keeps its place for ever, so whoever holds one
/// must see to it that it is [done](Self::done) or [forgotten](Self::forget).
#[derive(Clone, Debug)]
pub struct Guards {
    config: GuardConfig,
    budgets: Budgets,
    endpoints: Endpoints<Guarded>,
    /// Shared by the endpoints for which there was no room.
    others: Guarded,
    tickets: BTreeMap<Ticket, Held>,
    seeds: Seeded,
}

/// The guards of one endpoint, budget aside.
#[derive(Clone, Debug)]
struct Guarded {
    breaker: Breaker,
    bulkhead: Bulkhead,
    hedge: Hedge,
}

/// What is known of a ticket.
#[derive(Clone, Debug)]
struct Held {
    endpoint: EndpointId,
    /// Whether it stands at the shared door.
    at_others: bool,
    class: AttemptClass,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Waiting,
    Inside {
        /// The probe it is, until it has been decided.
        probe: Option<ProbeId>,
        was_probe: bool,
        seen: Seen,
    },
}

/// What the first token of an attempt was counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    InTime,
    TooLate,
}

/// Why an attempt is made, as far as the guards care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptClass {
    /// What a caller wants: the first attempt, or a continuation that was asked
    /// for. The retry budget is a share of these.
    First,
    /// One that follows from a failure: a retry, rerun, resume or failover.
    Again,
    /// A second one beside one that is slow.
    Hedge,
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrival {
    /// Send. The place is held until the attempt is done.
    Go {
        /// Whether this is the probe of a circuit that is not closed: everybody
        /// else waits for it, so send the cheapest thing that proves something.
        probe: bool,
    },
    /// Wait for a [`Woken`] of this ticket.
    Wait,
    /// The endpoint is down. Try another one, or say so.
    CircuitOpen {
        /// When the next probe may go out; see [`Admission::Open`].
        until: Moment,
    },
    /// As many as may wait are waiting.
    QueueFull,
    /// The deadline came while it waited.
    TooLate,
}

/// A ticket that waited and waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// Which.
    pub ticket: Ticket,
    /// What became of it; never [`Arrival::Wait`].
    pub arrival: Arrival,
}

impl Guards {
    /// Guards that have seen nothing yet. The seed is for the jitter of the
    /// breakers, and comes from a source of randomness above.
    pub fn new(config: GuardConfig, now: Moment, seed: u64) -> Self {
        let mut seeds = Seeded::new(seed);
        Self {
            budgets: Budgets::new(
                config.endpoint_budget,
                config.process_budget,
                config.max_endpoints,
            ),
            endpoints: Endpoints::new(config.max_endpoints),
            others: Guarded::new(&config, now, seeds.bits()),
            tickets: BTreeMap::new(),
            seeds,
            config,
        }
    }

    /// An attempt wants to go out, and may wait until `deadline` for its turn.
    ///
    /// A ticket that is known already gets the answer it has; it takes no second
    /// place.
    pub fn arrive(
        &mut self,
        now: Moment,
        endpoint: &EndpointId,
        ticket: Ticket,
        deadline: Moment,
        class: AttemptClass,
    ) -> Arrival {
        if let Some(held) = self.tickets.get(&ticket) {
            return match held.place {
                Place::Waiting => Arrival::Wait,
                Place::Inside { was_probe, .. } => Arrival::Go { probe: was_probe },
            };
        }
        let seed = self.seeds.bits();
        let config = &self.config;
        let make = || Guarded::new(config, now, seed);
        let own = self
            .endpoints
            .get_or_make(now, endpoint, make, Guarded::worth);
        let at_others = own.is_none();
        let guarded = own.unwrap_or(&mut self.others);
        if let Some(until) = guarded.breaker.refuses_until(now) {
            return Arrival::CircuitOpen { until };
        }
        let held = |place| Held {
            endpoint: endpoint.clone(),
            at_others,
            class,
            place,
        };
        match guarded.bulkhead.enter(now, ticket, deadline) {
            Entry::Full => Arrival::QueueFull,
            Entry::Queued => {
                self.tickets.insert(ticket, held(Place::Waiting));
                Arrival::Wait
            }
            Entry::Entered => {
                self.tickets.insert(ticket, held(Place::Waiting));
                self.admit(now, ticket)
            }
        }
    }

    /// Pays for one more attempt at this endpoint, or takes nothing. Asked by an
    /// operation before it waits, so that one that may not try again says so at
    /// once. A hedge has to be within its own share as well.
    ///
    /// # Errors
    ///
    /// The budget that has too little.
    pub fn spend(
        &mut self,
        now: Moment,
        endpoint: &EndpointId,
        cost: Cost,
    ) -> Result<(), Exhausted> {
        if cost != Cost::Hedge {
            return self.budgets.spend(now, endpoint, cost);
        }
        let guarded = self.endpoints.get_mut(endpoint);
        let hedge = &mut guarded.unwrap_or(&mut self.others).hedge;
        if !hedge.allows(now) {
            return Err(Exhausted {
                scope: Scope::Endpoint,
                which: Form::Hedges,
                retry_after: None,
            });
        }
        self.budgets.spend(now, endpoint, cost)?;
        hedge.allow(now);
        Ok(())
    }

    /// How long to wait for a first token of this endpoint before a hedge is
    /// worth it; `None` while that is off or not known.
    pub fn hedge_delay(&mut self, now: Moment, endpoint: &EndpointId) -> Option<Duration> {
        self.endpoints.get_mut(endpoint)?.hedge.delay(now)
    }

    /// The first token came, so long after the attempt went out. The place is
    /// kept; a probe is decided, as waiting for the end of a long stream would
    /// keep everybody else out.
    #[must_use = "somebody who waited has to be told"]
    pub fn first_token(&mut self, now: Moment, ticket: Ticket, took: Duration) -> Vec<Woken> {
        let Some(held) = self.tickets.get_mut(&ticket) else {
            return Vec::new();
        };
        let Place::Inside { probe, seen, .. } = &mut held.place else {
            return Vec::new();
        };
        if *seen != Seen::Nothing {
            return Vec::new();
        }
        let probe = probe.take();
        let (at_others, endpoint) = (held.at_others, held.endpoint.clone());
        let guarded = door(&mut self.endpoints, &mut self.others, at_others, &endpoint);
        let slow = guarded.breaker.slow_first_token();
        let too_late = slow.is_some_and(|limit| took > limit);
        let verdict = if too_late {
            *seen = Seen::TooLate;
            Verdict::Failure
        } else {
            *seen = Seen::InTime;
            Verdict::Success
        };
        guarded.hedge.first_token(now, took);
        guarded.breaker.report(now, probe, verdict, None);
        self.settle(now, at_others, &endpoint, Vec::new())
    }

    /// An attempt that had been let in is over: its place is free, and every
    /// guard learns from it. Gives those who waited and wait no longer.
    #[must_use = "somebody who waited has to be told"]
    pub fn done(&mut self, now: Moment, ticket: Ticket, report: &Report) -> Vec<Woken> {
        let mut woken = match report.first_token {
            Some(took) => self.first_token(now, ticket, took),
            None => Vec::new(),
        };
        let Some(held) = self.tickets.remove(&ticket) else {
            return woken;
        };
        let Held {
            at_others,
            endpoint,
            place,
            ..
        } = held;
        let guarded = door(&mut self.endpoints, &mut self.others, at_others, &endpoint);
        let Place::Inside {
            probe,
            was_probe,
            seen,
        } = place
        else {
            let entered = guarded.bulkhead.forget(now, ticket);
            woken.extend(self.settle(now, at_others, &endpoint, entered));
            return woken;
        };
        let said = match report.outcome {
            Reported::Succeeded if seen == Seen::Nothing => Verdict::Success,
            Reported::Succeeded | Reported::Cancelled => Verdict::Neutral,
            Reported::Failed(kind) => match (verdict(kind), seen) {
                (Verdict::Failure, Seen::InTime) => Verdict::Broke,
                (Verdict::Failure | Verdict::Throttled, Seen::TooLate) => Verdict::Neutral,
                (verdict, _) => verdict,
            },
        };
        guarded.breaker.report(now, probe, said, report.retry_after);
        if report.outcome == Reported::Succeeded {
            self.budgets.success(now, &endpoint);
        }
        let how = match report.outcome {
            // A probe goes out alone: half of what was in flight says nothing.
            _ if was_probe => Leaving::Quietly,
            Reported::Failed(ErrorKind::RateLimited | ErrorKind::Overloaded) => Leaving::Throttled,
            _ => Leaving::Quietly,
        };
        let guarded = door(&mut self.endpoints, &mut self.others, at_others, &endpoint);
        let entered = guarded.bulkhead.leave(now, ticket, how);
        woken.extend(self.settle(now, at_others, &endpoint, entered));
        woken
    }

    /// Whoever held this ticket is gone, waiting or inside. It says nothing
    /// about the endpoint.
    #[must_use = "somebody who waited has to be told"]
    pub fn forget(&mut self, now: Moment, ticket: Ticket) -> Vec<Woken> {
        self.done(now, ticket, &Report::cancelled())
    }

    /// Tells the time: those whose deadline has come wait no longer, and those
    /// for whom the limit has grown enough are let in.
    #[must_use = "somebody who waited has to be told"]
    pub fn handle_timeout(&mut self, now: Moment) -> Vec<Woken> {
        let mut woken = Vec::new();
        let names: Vec<_> = self
            .endpoints
            .iter_mut()
            .filter(|(_, guarded)| !guarded.bulkhead.is_idle())
            .map(|(id, _)| (false, id.clone()))
            .chain([(true, EndpointId::new(""))])
            .collect();
        for (at_others, endpoint) in names {
            let guarded = door(&mut self.endpoints, &mut self.others, at_others, &endpoint);
            for ticket in guarded.bulkhead.expire(now) {
                self.tickets.remove(&ticket);
                let arrival = Arrival::TooLate;
                woken.push(Woken { ticket, arrival });
            }
            let entered = guarded.bulkhead.let_in(now);
            woken.extend(self.settle(now, at_others, &endpoint, entered));
        }
        woken
    }

    /// When [`handle_timeout`](Self::handle_timeout) next has something to do
    /// for a deadline.
    pub fn next_timeout(&mut self) -> Option<Moment> {
        let own = self
            .endpoints
            .iter_mut()
            .filter_map(|(_, guarded)| guarded.bulkhead.next_deadline());
        own.chain(self.others.bulkhead.next_deadline()).min()
    }

    /// Where everything stands, for metrics.
    pub fn snapshot(&mut self, now: Moment) -> GuardsSnapshot {
        GuardsSnapshot {
            budgets: self.budgets.snapshot(now),
            endpoints: self
                .endpoints
                .iter_mut()
                .map(|(id, guarded)| guarded.snapshot(now, id.clone()))
                .collect(),
            others: self.others.snapshot(now, EndpointId::new("others")),
        }
    }

    /// Asks the breaker for a ticket that the bulkhead has let in.
    fn admit(&mut self, now: Moment, ticket: Ticket) -> Arrival {
        let Some(held) = self.tickets.get_mut(&ticket) else {
            return Arrival::TooLate;
        };
        let guarded = door(
            &mut self.endpoints,
            &mut self.others,
            held.at_others,
            &held.endpoint,
        );
        let probe = match guarded.breaker.admit(now) {
            Admission::Closed => None,
            Admission::Probe(id) => Some(id),
            Admission::Open { until } => {
                self.tickets.remove(&ticket);
                return Arrival::CircuitOpen { until };
            }
        };
        held.place = Place::Inside {
            probe,
            was_probe: probe.is_some(),
            seen: Seen::Nothing,
        };
        if held.class != AttemptClass::Hedge {
            guarded.hedge.request(now);
        }
        if held.class == AttemptClass::First {
            self.budgets.request(now, &held.endpoint);
        }
        Arrival::Go {
            probe: probe.is_some(),
        }
    }

    /// Gives everybody an answer whom the last change concerns: those whom the
    /// bulkhead let in, and, where the circuit is no longer closed, those who
    /// would wait for nothing.
    fn settle(
        &mut self,
        now: Moment,
        at_others: bool,
        endpoint: &EndpointId,
        mut entered: Vec<Ticket>,
    ) -> Vec<Woken> {
        let mut woken = Vec::new();
        loop {
            let mut refused = Vec::new();
            for ticket in entered {
                let arrival = self.admit(now, ticket);
                if !matches!(arrival, Arrival::Go { .. }) {
                    refused.push(ticket);
                }
                woken.push(Woken { ticket, arrival });
            }
            let guarded = door(&mut self.endpoints, &mut self.others, at_others, endpoint);
            entered = Vec::new();
            for ticket in refused {
                entered.extend(guarded.bulkhead.leave(now, ticket, Leaving::Quietly));
            }
            if entered.is_empty() {
                break;
            }
        }
        let guarded = door(&mut self.endpoints, &mut self.others, at_others, endpoint);
        if let Some(until) = guarded.breaker.refuses_until(now) {
            for ticket in guarded.bulkhead.turn_away() {
                self.tickets.remove(&ticket);
                let arrival = Arrival::CircuitOpen { until };
                woken.push(Woken { ticket, arrival });
            }
        }
        woken
    }
}

impl Guarded {
    fn new(config: &GuardConfig, now: Moment, seed: u64) -> Self {
        Self {
            breaker: Breaker::new(config.breaker, seed),
            bulkhead: Bulkhead::new(config.limit, now),
            hedge: Hedge::new(config.hedge, now),
        }
    }

    /// How much would be lost with it; `None` while it is in use.
    fn worth(&self) -> Option<u8> {
        if !self.bulkhead.is_idle() {
            return None;
        }
        Some(u8::from(!self.breaker.is_closed()) * 2 + u8::from(!self.bulkhead.is_wide_open()))
    }
}

/// The guards that a ticket stands at. An endpoint with a ticket is never
/// forgotten, so it is there.
fn door<'a>(
    endpoints: &'a mut Endpoints<Guarded>,
    others: &'a mut Guarded,
    at_others: bool,
    endpoint: &EndpointId,
) -> &'a mut Guarded {
    if at_others {
        return others;
    }
    endpoints.get_mut(endpoint).unwrap_or(others)
}

#[cfg(test)]
mod tests;
