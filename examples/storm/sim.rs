//! Ten thousand clients, the real machine and the real guards, with invented time.
//!
//! Everything that decides is the library's own: `Operation` decides what follows
//! from a failure, `Guards` who may send and who may try again. Between them stands
//! what the client's driver does, without its waiting. What is played is the
//! provider and the clock. Equal seeds give equal storms.

use crate::provider::{Answer, Provider, Weather};
use crate::seen::Seen;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;
use streamkeep::proto::budget::Cost;
use streamkeep::proto::guards::{Arrival, AttemptClass, GuardConfig, Guards, Report, Woken};
use streamkeep::proto::journal::{AttemptEnded, AttemptKind, End};
use streamkeep::proto::limits::Ticket;
use streamkeep::proto::model::{EndpointId, Moment, ResponseHead, WallTime};
use streamkeep::proto::operation::{
    Fact, Input, Note, Now, Operation, Outcome, Output, Plan, Question, Refusal, Reply,
};
use streamkeep::proto::retry::RetryPolicy;
use streamkeep::proto::seeded::Seeded;
use streamkeep::{Dialect, ErrorKind, Key, Request};

/// One storm.
#[derive(Clone, Debug)]
pub(crate) struct Storm {
    /// Clients, each of which has one call at a time.
    pub(crate) clients: u32,
    /// How long a client waits between the end of a call and its next, on
    /// average; half of it at least and one and a half times at most.
    pub(crate) think: Duration,
    /// Processes that the clients are spread over; each has guards of its own.
    pub(crate) processes: u32,
    pub(crate) weather: Vec<(Duration, Weather)>,
    /// Requests a second that the provider can serve.
    pub(crate) capacity: u32,
    pub(crate) length: Duration,
    pub(crate) guards: GuardConfig,
    pub(crate) retry: RetryPolicy,
    pub(crate) seed: u64,
}

/// How long an attempt may wait for its turn; as in the client.
const PATIENCE: Duration = Duration::from_secs(30);

/// 2026-12-01T00:00:00Z
const EPOCH: WallTime = WallTime::from_millis(1_796_083_200_000);

impl Storm {
    /// Plays it.
    pub(crate) fn play(self) -> Result<Seen, streamkeep::Error> {
        let mut world = World::new(self)?;
        while let Some(Reverse((at, _, event))) = world.events.pop() {
            if at.since_origin() >= world.storm.length {
                break;
            }
            world.now = at;
            world.happen(event);
        }
        Ok(world.seen)
    }
}

/// A call of one client.
struct Call {
    number: u64,
    client: u32,
    process: usize,
    machine: Operation,
    /// The attempt that is open.
    attempt: u32,
    ticket: Option<Ticket>,
    timer: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The client calls.
    Call { client: u32 },
    /// A clock of the machine may have run out.
    Timer { client: u32, number: u64 },
    /// The provider answers.
    Answer {
        client: u32,
        number: u64,
        attempt: u32,
        part: Part,
    },
    /// A ticket that waited has its turn, or has not.
    Turn { ticket: Ticket, go: bool },
    /// Somebody may have waited too long.
    Look { process: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    FirstToken { rest: Duration },
    Rest,
    Error { status: u16, wait: Option<u32> },
}

struct World {
    storm: Storm,
    now: Moment,
    events: BinaryHeap<Reverse<(Moment, u64, Event)>>,
    /// Events of the same moment happen in the order in which they were made.
    order: u64,
    chance: Seeded,
    provider: Provider,
    guards: Vec<Guards>,
    endpoint: EndpointId,
    plan: Plan,
    calls: BTreeMap<u32, Call>,
    /// Who holds a ticket.
    holders: BTreeMap<Ticket, u32>,
    next: u64,
    seen: Seen,
}

impl World {
    fn new(storm: Storm) -> Result<Self, streamkeep::Error> {
        let mut chance = Seeded::new(storm.seed);
        let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}"#;
        let url = "http://127.0.0.1:9/v1/chat/completions";
        let request = Request::new(Dialect::OpenAiChat, url, body)?;
        let plan = Plan {
            retry: storm.retry,
            ..Plan::new(Key::new("storm")?, request)
        };
        let guards = (0..storm.processes.max(1))
            .map(|_| Guards::new(storm.guards, Moment::ORIGIN, chance.bits()))
            .collect();
        let mut world = Self {
            now: Moment::ORIGIN,
            events: BinaryHeap::new(),
            order: 0,
            provider: Provider::new(&storm.weather, storm.capacity, chance.bits()),
            guards,
            endpoint: EndpointId::of("127.0.0.1", "m", "only"),
            plan,
            calls: BTreeMap::new(),
            holders: BTreeMap::new(),
            next: 0,
            seen: Seen::new(storm.length),
            chance,
            storm,
        };
        for client in 0..world.storm.clients {
            let wait = world.rest_of_a_pause();
            world.later(wait, Event::Call { client });
        }
        for process in 0..world.guards.len() {
            world.later(Duration::ZERO, Event::Look { process });
        }
        Ok(world)
    }

    /// How long a client waits between two calls.
    fn pause(&mut self) -> Duration {
        self.storm.think.mul_f64(0.5 + self.chance.unit())
    }

    /// What is left of a pause at a moment that has nothing to do with it. More
    /// moments lie in long pauses; without that the calls would come in waves of
    /// their own.
    fn rest_of_a_pause(&mut self) -> Duration {
        loop {
            let pause = self.pause();
            if pause.div_duration_f64(self.storm.think) / 1.5 > self.chance.unit() {
                return pause.mul_f64(self.chance.unit());
            }
        }
    }

    fn later(&mut self, wait: Duration, event: Event) {
        self.at(self.now.after(wait), event);
    }

    fn at(&mut self, at: Moment, event: Event) {
        self.order += 1;
        self.events
            .push(Reverse((at.max(self.now), self.order, event)));
    }

    fn time(&self) -> Now {
        Now {
            moment: self.now,
            wall: EPOCH.after(self.now.since_origin()),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Call { client } => self.call(client),
            Event::Timer { client, number } => self.with(client, number, |world, call| {
                call.timer = None;
                call.machine.handle_timeout(world.time());
            }),
            Event::Answer {
                client,
                number,
                attempt,
                part,
            } => self.with(client, number, |world, call| {
                if call.attempt == attempt {
                    world.answer(call, part);
                }
            }),
            Event::Turn { ticket, go } => {
                let Some(client) = self.holders.get(&ticket).copied() else {
                    return;
                };
                let Some(number) = self.calls.get(&client).map(|call| call.number) else {
                    return;
                };
                self.with(client, number, |world, call| {
                    if go {
                        world.send(call);
                    } else {
                        world.refuse(call, ErrorKind::Saturated);
                    }
                });
            }
            Event::Look { process } => {
                let now = self.now;
                let woken = self.guards.get_mut(process).map(|g| g.handle_timeout(now));
                self.wake(woken.unwrap_or_default());
                if process == 0 {
                    self.note_state();
                }
                self.later(Duration::from_millis(100), Event::Look { process });
            }
        }
    }

    fn call(&mut self, client: u32) {
        self.next += 1;
        let number = self.next;
        self.seen.arrived(self.now);
        let machine = Operation::new(self.plan.clone(), self.time(), self.chance.bits());
        let process = usize::try_from(client % self.storm.processes.max(1)).unwrap_or(0);
        let call = Call {
            number,
            client,
            process,
            machine,
            attempt: 0,
            ticket: None,
            timer: None,
        };
        self.calls.insert(client, call);
        self.with(client, number, |_, _| {});
    }

    /// Changes a call, and carries out what its machine orders then. Nothing
    /// happens to a call that is over.
    fn with(&mut self, client: u32, number: u64, change: impl FnOnce(&mut Self, &mut Call)) {
        if self.calls.get(&client).map(|call| call.number) != Some(number) {
            return;
        }
        let Some(mut call) = self.calls.remove(&client) else {
            return;
        };
        change(self, &mut call);
        if self.obey(&mut call) {
            let pause = self.pause();
            self.later(pause, Event::Call { client });
            return;
        }
        let next = call.machine.next_timeout();
        if let Some(next) = next
            && call.timer.is_none_or(|timer| next < timer)
        {
            call.timer = Some(next);
            self.at(next, Event::Timer { client, number });
        }
        self.calls.insert(client, call);
    }

    /// Carries out orders. Gives whether the call is over.
    fn obey(&mut self, call: &mut Call) -> bool {
        while let Some(order) = call.machine.poll() {
            match order {
                Output::Append(append) => {
                    if let Some(last) = append.records.last() {
                        let input = Input::Appended(last.seq);
                        call.machine.handle(self.time(), input);
                    }
                }
                Output::Open { attempt, .. } => self.open(call, attempt),
                Output::Ask { id, question } => {
                    let reply = self.reply(call, question);
                    let input = Input::Replied { id, reply };
                    call.machine.handle(self.time(), input);
                }
                Output::Note(Note::FirstOutput { after, .. }) => {
                    self.guards(call, |guards, now, ticket| {
                        guards.first_token(now, ticket, after)
                    });
                }
                Output::Note(Note::Ended(attempt)) => self.ended(call, &attempt.ended),
                Output::Finish(outcome) => {
                    self.finished(&outcome);
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    fn reply(&mut self, call: &Call, question: Question) -> Reply {
        let no = |message: String, retry_after| Reply::No {
            message,
            retry_after,
        };
        let Question::Spend { failure, .. } = question else {
            return no("there is no other credential".to_owned(), None);
        };
        let Some(guards) = self.guards.get_mut(call.process) else {
            return Reply::Yes;
        };
        let cost = failure.map_or(Cost::Hedge, Cost::of);
        let spent = guards.spend(self.now, &self.endpoint, cost);
        self.seen.asked(self.now, spent.is_ok());
        match spent {
            Ok(()) => Reply::Yes,
            Err(exhausted) => no(exhausted.to_string(), exhausted.retry_after),
        }
    }

    fn ended(&mut self, call: &mut Call, ended: &AttemptEnded) {
        let report = match &ended.failure {
            Some(failure) => {
                let kind = ErrorKind::from_code(&failure.kind).unwrap_or(ErrorKind::Internal);
                let wait = failure.retry_after_ms.map(Duration::from_millis);
                Report::failure(kind).with_retry_after(wait)
            }
            None => Report::success(),
        };
        self.guards(call, |guards, now, ticket| {
            guards.done(now, ticket, &report)
        });
        if let Some(ticket) = call.ticket.take() {
            self.holders.remove(&ticket);
        }
    }

    /// Tells the guards something about the attempt that is open, if it holds a
    /// ticket, and everybody whom it concerns.
    fn guards(
        &mut self,
        call: &Call,
        change: impl FnOnce(&mut Guards, Moment, Ticket) -> Vec<Woken>,
    ) {
        if let Some(ticket) = call.ticket
            && let Some(guards) = self.guards.get_mut(call.process)
        {
            let woken = change(guards, self.now, ticket);
            self.wake(woken);
        }
    }

    fn open(&mut self, call: &mut Call, attempt: u32) {
        self.next += 1;
        let ticket = Ticket(self.next);
        let class = match call.machine.kind_of(attempt) {
            Some(AttemptKind::First) | None => AttemptClass::First,
            Some(_) => AttemptClass::Again,
        };
        call.attempt = attempt;
        let deadline = self.now.after(PATIENCE);
        let Some(guards) = self.guards.get_mut(call.process) else {
            return;
        };
        let arrival = guards.arrive(self.now, &self.endpoint, ticket, deadline, class);
        match arrival {
            Arrival::Go { .. } => {
                call.ticket = Some(ticket);
                self.send(call);
            }
            Arrival::Wait => {
                call.ticket = Some(ticket);
                self.holders.insert(ticket, call.client);
                self.fact(call, Fact::Queued);
            }
            Arrival::CircuitOpen { .. } => self.refuse(call, ErrorKind::CircuitOpen),
            _ => self.refuse(call, ErrorKind::Saturated),
        }
    }

    fn refuse(&mut self, call: &mut Call, kind: ErrorKind) {
        if let Some(ticket) = call.ticket.take() {
            self.holders.remove(&ticket);
        }
        self.seen.refused(self.now);
        let refusal = Refusal {
            kind,
            message: "not let in".to_owned(),
            retry_after: None,
        };
        self.fact(call, Fact::Refused(refusal));
    }

    fn send(&mut self, call: &mut Call) {
        self.fact(call, Fact::Admitted);
        self.seen.sent(self.now, call.attempt > 1);
        let (after, part) = match self.provider.ask(self.now) {
            Answer::Stream { first, rest } => (first, Part::FirstToken { rest }),
            Answer::Error {
                after,
                status,
                retry_after,
            } => {
                self.seen.turned_away(self.now);
                let wait = retry_after;
                (after, Part::Error { status, wait })
            }
        };
        self.answer_in(call, after, part);
    }

    fn answer_in(&mut self, call: &Call, after: Duration, part: Part) {
        let answer = Event::Answer {
            client: call.client,
            number: call.number,
            attempt: call.attempt,
            part,
        };
        self.later(after, answer);
    }

    fn answer(&mut self, call: &mut Call, part: Part) {
        let head = |status, kind: &str, wait: Option<u32>| {
            let mut headers = vec![("content-type".to_owned(), kind.to_owned())];
            headers.extend(wait.map(|wait| ("retry-after".to_owned(), wait.to_string())));
            Fact::Head(ResponseHead { status, headers })
        };
        match part {
            Part::FirstToken { rest } => {
                self.fact(call, head(200, "text/event-stream", None));
                self.fact(call, Fact::Chunk(FIRST.into()));
                self.answer_in(call, rest, Part::Rest);
            }
            Part::Rest => self.fact(call, Fact::Chunk(REST.into())),
            Part::Error { status, wait } => {
                self.fact(call, head(status, "application/json", wait));
                let kind = if status == 429 {
                    "rate_limit_error"
                } else {
                    "server_error"
                };
                let body = format!(r#"{{"error":{{"message":"no","type":"{kind}"}}}}"#);
                self.fact(call, Fact::Chunk(body.into()));
                self.fact(call, Fact::EndOfBody);
            }
        }
    }

    fn fact(&self, call: &mut Call, fact: Fact) {
        let attempt = call.attempt;
        call.machine
            .handle(self.time(), Input::Upstream { attempt, fact });
    }

    fn wake(&mut self, woken: Vec<Woken>) {
        for Woken { ticket, arrival } in woken {
            let go = matches!(arrival, Arrival::Go { .. });
            self.later(Duration::ZERO, Event::Turn { ticket, go });
        }
    }

    fn note_state(&mut self) {
        if let Some(guards) = self.guards.first_mut() {
            let snapshot = guards.snapshot(self.now);
            if let Some(endpoint) = snapshot.endpoints.first() {
                self.seen.state(self.now, endpoint.breaker.state);
            }
        }
    }

    fn finished(&mut self, outcome: &Outcome) {
        let answered = matches!(outcome, Outcome::Ended(ended) if ended.end == End::Complete);
        self.seen.finished(self.now, answered);
    }
}

const FIRST: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello\"},\"finish_reason\":null}]}\n\n";
const REST: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
