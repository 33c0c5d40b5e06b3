//! The guards of a process as async code sees them: one door, and a place to wait.

use super::clock::Clock;
use crate::error::{Error, ErrorKind};
use crate::proto::budget::{Cost, Exhausted};
use crate::proto::guards::{
    Arrival, AttemptClass, GuardConfig, Guards, GuardsSnapshot, Report, Woken,
};
use crate::proto::limits::Ticket;
use crate::proto::model::{EndpointId, Moment};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// The door to the endpoints that all operations of a process share. Cheap to
/// clone; several clients may share one.
///
/// No lock is held while anything waits, and nothing is decided here: that is
/// [`Guards`].
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    guards: Guards,
    waiting: HashMap<Ticket, oneshot::Sender<Arrival>>,
    next: u64,
}

/// The right to have one attempt in flight. Give it back with
/// [`done`](Self::done); one that is dropped before counts as cancelled, so a
/// future that is dropped halfway leaks nothing.
#[must_use = "a permit that is dropped is given back"]
pub struct Permit {
    gate: Gate,
    ticket: Ticket,
    probe: bool,
    given_back: bool,
}

/// Why an attempt was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The endpoint is down.
    CircuitOpen {
        /// After how long the next probe may go out.
        wait: Duration,
    },
    /// As many as may wait are waiting.
    QueueFull,
    /// Its turn did not come before the deadline.
    TooLate,
}

/// How often somebody who waits looks whether the limit has grown: it grows by
/// itself, without anybody leaving.
const LOOK: Duration = Duration::from_secs(6);

impl Gate {
    /// A gate with guards that have seen nothing yet.
    pub fn new(config: GuardConfig) -> Self {
        Self::seeded(config, rand::random())
    }

    /// The same with a seed for the jitter of the breakers, for tests.
    pub fn seeded(config: GuardConfig, seed: u64) -> Self {
        let clock = Clock::new();
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                guards: Guards::new(config, clock.now().moment, seed),
                waiting: HashMap::new(),
                next: 0,
            }),
            clock,
        }))
    }

    /// Waits for the turn of one attempt, until `deadline` at the latest.
    ///
    /// # Errors
    ///
    /// Why it may not go out. Nothing was sent, and nothing is held.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropped while it waits it gives up its place, and a turn that had
    /// come already goes to the next.
    pub async fn enter(
        &self,
        endpoint: &EndpointId,
        class: AttemptClass,
        deadline: Instant,
    ) -> Result<Permit, Refused> {
        let (waiter, mut turn) = {
            let now = self.now();
            let until = now.after(deadline.saturating_duration_since(Instant::now()));
            let mut state = self.lock();
            let ticket = Ticket(state.next);
            state.next = state.next.wrapping_add(1);
            let permit = |probe| Permit {
                gate: self.clone(),
                ticket,
                probe,
                given_back: false,
            };
            match state.guards.arrive(now, endpoint, ticket, until, class) {
                Arrival::Go { probe } => return Ok(permit(probe)),
                Arrival::Wait => {
                    let (told, turn) = oneshot::channel();
                    state.waiting.insert(ticket, told);
                    // Whatever becomes of this future, the ticket is given back.
                    (permit(false), turn)
                }
                other => return Err(refused(now, other)),
            }
        };
        let mut permit = waiter;
        loop {
            let look = deadline.min(Instant::now() + LOOK);
            match timeout_at(look, &mut turn).await {
                Ok(Ok(Arrival::Go { probe })) => {
                    permit.probe = probe;
                    return Ok(permit);
                }
                Ok(Ok(other)) => {
                    // The guards have let go of the ticket already.
                    permit.given_back = true;
                    return Err(refused(self.now(), other));
                }
                Ok(Err(_)) => return Err(Refused::TooLate),
                Err(_) if look >= deadline => return Err(Refused::TooLate),
                Err(_) => self.change(|state, now| state.guards.handle_timeout(now)),
            }
        }
    }

    /// Pays for one more attempt at this endpoint, or takes nothing. Ask before
    /// the wait.
    ///
    /// # Errors
    ///
    /// The budget that has too little.
    pub fn spend(&self, endpoint: &EndpointId, cost: Cost) -> Result<(), Exhausted> {
        let now = self.now();
        self.lock().guards.spend(now, endpoint, cost)
    }

    /// How long to wait for a first token of this endpoint before a hedge is
    /// worth it; `None` while that is off or not known.
    pub fn hedge_delay(&self, endpoint: &EndpointId) -> Option<Duration> {
        let now = self.now();
        self.lock().guards.hedge_delay(now, endpoint)
    }

    /// Where everything stands, for metrics.
    pub fn snapshot(&self) -> GuardsSnapshot {
        let now = self.now();
        self.lock().guards.snapshot(now)
    }

    fn now(&self) -> Moment {
        self.0.clock.now().moment
    }

    /// A panic elsewhere cannot leave the guards half changed: they are plain
    /// values, and each call leaves them whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the guards and tells everybody whom it concerns, outside the
    /// lock. A future that is gone hears nothing, and does not have to: its
    /// permit gives the turn back when it is dropped.
    fn change(&self, change: impl FnOnce(&mut State, Moment) -> Vec<Woken>) {
        let now = self.now();
        let told: Vec<_> = {
            let state = &mut *self.lock();
            let woken = change(state, now).into_iter();
            let with_sender =
                woken.filter_map(|woken| Some((state.waiting.remove(&woken.ticket)?, woken)));
            with_sender.collect()
        };
        for (sender, woken) in told {
            let _ = sender.send(woken.arrival);
        }
    }
}

impl Permit {
    /// Whether this attempt is the probe of a circuit that is not closed:
    /// everybody else waits for it.
    pub fn is_probe(&self) -> bool {
        self.probe
    }

    /// The first token came, so long after the attempt went out. Later calls
    /// change nothing.
    pub fn first_token(&self, took: Duration) {
        let ticket = self.ticket;
        self.gate
            .change(|state, now| state.guards.first_token(now, ticket, took));
    }

    /// The attempt is over.
    pub fn done(mut self, report: &Report) {
        self.given_back = true;
        let ticket = self.ticket;
        self.gate
            .change(|state, now| state.guards.done(now, ticket, report));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.given_back {
            return;
        }
        let ticket = self.ticket;
        self.gate.change(|state, now| {
            state.waiting.remove(&ticket);
            state.guards.forget(now, ticket)
        });
    }
}

impl Refused {
    /// The error of an operation that was not let in.
    pub fn to_error(self) -> Error {
        let kind = match self {
            Self::CircuitOpen { .. } => ErrorKind::CircuitOpen,
            Self::QueueFull | Self::TooLate => ErrorKind::Saturated,
        };
        let wait = match self {
            Self::CircuitOpen { wait } => Some(wait),
            Self::QueueFull | Self::TooLate => None,
        };
        Error::new(kind, self.to_string()).with_retry_after(wait)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CircuitOpen { wait } => write!(
                f,
                "the endpoint is down and is not asked for another {} ms",
                wait.as_millis()
            ),
            Self::QueueFull => {
                f.write_str("as many attempts as may wait for their turn are waiting")
            }
            Self::TooLate => f.write_str("the turn of this attempt did not come in time"),
        }
    }
}

impl std::error::Error for Refused {}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("ticket", &self.ticket)
            .field("probe", &self.probe)
            .finish_non_exhaustive()
    }
}

fn refused(now: Moment, arrival: Arrival) -> Refused {
    match arrival {
        Arrival::CircuitOpen { until } => Refused::CircuitOpen {
            wait: until.since(now),
        },
        Arrival::QueueFull => Refused::QueueFull,
        Arrival::Go { .. } | Arrival::Wait | Arrival::TooLate => Refused::TooLate,
    }
}

#[cfg(test)]
mod tests;
