use super::*;
use crate::proto::breaker::{BreakerConfig, BreakerState};
use crate::proto::budget::{BudgetConfig, Tokens};
use crate::proto::classify::{Failure, Verdict as Judged, judge};
use crate::proto::hedge::HedgeConfig;
use crate::proto::limits::LimitConfig;
use crate::proto::model::Phase;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn at(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

const LATER: Moment = Moment::from_origin(Duration::from_secs(1_000_000));
const CONFIG: GuardConfig = GuardConfig {
    breaker: BreakerConfig {
        jitter_percent: 0,
        ..BreakerConfig::DEFAULT
    },
    ..GuardConfig::DEFAULT
};

fn endpoint() -> EndpointId {
    EndpointId::new("provider")
}

fn arrive(guards: &mut Guards, millis: u64, ticket: u64) -> Arrival {
    let class = AttemptClass::First;
    guards.arrive(at(millis), &endpoint(), Ticket(ticket), LATER, class)
}

/// Lets one in and reports it at once.
fn one(guards: &mut Guards, millis: u64, ticket: u64, report: &Report) {
    assert!(matches!(arrive(guards, millis, ticket), Arrival::Go { .. }));
    let _ = guards.done(at(millis), Ticket(ticket), report);
}

fn state(guards: &mut Guards, millis: u64) -> BreakerState {
    guards.snapshot(at(millis)).endpoints[0].breaker.state
}

const GO: Arrival = Arrival::Go { probe: false };
const PROBE: Arrival = Arrival::Go { probe: true };

/// Guards whose circuit opened at 19 ms.
fn down() -> Guards {
    let mut guards = Guards::new(CONFIG, at(0), 1);
    for n in 0..20 {
        one(&mut guards, n, n, &Report::failure(ErrorKind::ServerError));
    }
    guards
}

#[test]
fn a_circuit_opens_and_one_probe_closes_it_with_its_first_token() {
    let mut guards = down();
    let until = at(30_019);
    assert_eq!(arrive(&mut guards, 20, 20), Arrival::CircuitOpen { until });
    assert_eq!(arrive(&mut guards, 30_019, 21), PROBE);
    let until = at(90_019);
    assert_eq!(
        arrive(&mut guards, 30_020, 22),
        Arrival::CircuitOpen { until }
    );
    assert_eq!(state(&mut guards, 30_020), BreakerState::HalfOpen);
    // A known ticket gets the answer it has.
    assert_eq!(arrive(&mut guards, 30_020, 21), PROBE);
    let woken = guards.first_token(at(30_500), Ticket(21), Duration::from_millis(480));
    assert_eq!(woken, []);
    assert_eq!(arrive(&mut guards, 30_500, 23), GO);
    let in_flight = guards.snapshot(at(30_500)).endpoints[0].limit.in_flight;
    assert_eq!(in_flight, 2, "its place is kept until the stream ends");
}

#[test]
fn a_probe_that_is_forgotten_makes_room_for_the_next() {
    let mut guards = down();
    assert_eq!(arrive(&mut guards, 31_000, 20), PROBE);
    let _ = guards.forget(at(31_001), Ticket(20));
    assert_eq!(arrive(&mut guards, 31_001, 21), PROBE);
    let _ = guards.done(
        at(31_002),
        Ticket(21),
        &Report::failure(ErrorKind::Rejected),
    );
    assert_eq!(arrive(&mut guards, 31_002, 22), PROBE, "it said nothing");
    let _ = guards.done(at(31_003), Ticket(22), &Report::failure(ErrorKind::Connect));
    let until = at(61_003);
    assert_eq!(
        arrive(&mut guards, 31_003, 23),
        Arrival::CircuitOpen { until }
    );
}

#[test]
fn whoever_waits_is_turned_away_when_the_circuit_opens() {
    let config = GuardConfig {
        limit: LimitConfig {
            max: 20,
            ..LimitConfig::DEFAULT
        },
        ..CONFIG
    };
    let mut guards = Guards::new(config, at(0), 1);
    for ticket in 0..60 {
        arrive(&mut guards, 0, ticket);
    }
    let report = Report::failure(ErrorKind::Connect);
    let mut turned_away = 0;
    for ticket in 0..20 {
        for woken in guards.done(at(ticket), Ticket(ticket), &report) {
            match woken.arrival {
                Arrival::Go { .. } => {}
                Arrival::CircuitOpen { .. } => turned_away += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    // Nineteen places were handed on before the twentieth failure.
    assert_eq!(turned_away, 21);
    let snapshot = guards.snapshot(at(20)).endpoints[0].limit;
    assert_eq!((snapshot.in_flight, snapshot.queued), (19, 0));
}

#[test]
fn a_retry_after_keeps_the_probe_back() {
    let mut guards = Guards::new(CONFIG, at(0), 1);
    let report =
        Report::failure(ErrorKind::Overloaded).with_retry_after(Some(Duration::from_secs(120)));
    for n in 0..20 {
        one(&mut guards, n, n, &report);
    }
    let until = at(120_019);
    assert_eq!(
        arrive(&mut guards, 119_000, 20),
        Arrival::CircuitOpen { until }
    );
}

#[test]
fn the_callers_faults_change_nothing() {
    for kind in [
        ErrorKind::Rejected,
        ErrorKind::Auth,
        ErrorKind::ContextLength,
        ErrorKind::ContentPolicy,
        ErrorKind::QuotaExhausted,
        ErrorKind::Cancelled,
        ErrorKind::DeadlineExceeded,
    ] {
        let mut guards = Guards::new(CONFIG, at(0), 1);
        for n in 0..100 {
            one(&mut guards, n * 1000, n, &Report::failure(kind));
        }
        let snapshot = &guards.snapshot(at(0)).endpoints[0];
        assert_eq!(snapshot.breaker.state, BreakerState::Closed, "{kind}");
        assert_eq!(snapshot.limit.limit, 1024, "{kind}");
    }
}

#[test]
fn every_failure_that_is_retried_says_something_and_the_rest_says_nothing() {
    for kind in ErrorKind::ALL {
        let failure = Failure::new(*kind, "");
        let again = matches!(
            judge(&failure, Phase::PreStream),
            Judged::Retry { .. } | Judged::RetryIfKeyed
        );
        let says = verdict(*kind) != Verdict::Neutral;
        assert_eq!(says, again, "{kind}");
    }
}

#[test]
fn rate_limits_and_overloads_halve_what_is_in_flight() {
    for kind in [ErrorKind::RateLimited, ErrorKind::Overloaded] {
        let mut guards = Guards::new(CONFIG, at(0), 1);
        for ticket in 0..300 {
            assert_eq!(arrive(&mut guards, 0, ticket), GO);
        }
        let _ = guards.done(at(1), Ticket(0), &Report::failure(kind));
        assert_eq!(
            guards.snapshot(at(1)).endpoints[0].limit.limit,
            150,
            "{kind}"
        );
    }
    let mut guards = Guards::new(CONFIG, at(0), 1);
    arrive(&mut guards, 0, 0);
    let _ = guards.done(at(1), Ticket(0), &Report::failure(ErrorKind::ServerError));
    assert_eq!(guards.snapshot(at(1)).endpoints[0].limit.limit, 1024);
}

#[test]
fn a_probe_that_is_refused_leaves_the_limit_as_it_is() {
    let mut guards = Guards::new(CONFIG, at(0), 1);
    for n in 0..20 {
        one(&mut guards, n, n, &Report::failure(ErrorKind::Connect));
    }
    assert_eq!(arrive(&mut guards, 40_000, 20), PROBE);
    let report = Report::failure(ErrorKind::Overloaded);
    let _ = guards.done(at(40_000), Ticket(20), &report);
    assert_eq!(guards.snapshot(at(40_000)).endpoints[0].limit.limit, 1024);
}

#[test]
fn streams_that_break_count_against_the_endpoint_although_they_began() {
    let mut guards = Guards::new(CONFIG, at(0), 1);
    let cut = Report::failure(ErrorKind::Reset).with_first_token(Duration::from_millis(100));
    for n in 0..20 {
        one(&mut guards, n * 10, n, &cut);
    }
    assert_eq!(state(&mut guards, 200), BreakerState::Open);
}

#[test]
fn first_tokens_that_take_too_long_open_it_where_that_is_wanted() {
    let slow = Report::success().with_first_token(Duration::from_secs(9));
    for (limit, expected) in [
        (None, BreakerState::Closed),
        (Some(Duration::from_secs(8)), BreakerState::Open),
    ] {
        let breaker = BreakerConfig {
            slow_first_token: limit,
            ..CONFIG.breaker
        };
        let mut guards = Guards::new(GuardConfig { breaker, ..CONFIG }, at(0), 1);
        for n in 0..20 {
            one(&mut guards, n, n, &slow);
        }
        assert_eq!(state(&mut guards, 20), expected);
    }
}

#[test]
fn only_first_attempts_that_went_out_make_room_for_retries() {
    let mut guards = down();
    for n in 0..1000 {
        arrive(&mut guards, 20, 100 + n);
    }
    for n in 0..5 {
        let ticket = Ticket(5000 + n);
        let class = AttemptClass::Again;
        let other = EndpointId::new("another");
        guards.arrive(at(20), &other, ticket, LATER, class);
    }
    let budgets = guards.snapshot(at(20)).budgets;
    assert_eq!(budgets.process.requests, 20);
}

#[test]
fn a_hedge_is_paid_from_its_own_share_and_from_the_budget_or_not_at_all() {
    let hedge = HedgeConfig::ON;
    let mut guards = Guards::new(GuardConfig { hedge, ..CONFIG }, at(0), 1);
    let refused = guards.spend(at(0), &endpoint(), Cost::Hedge).unwrap_err();
    assert_eq!(refused.which, Form::Hedges);
    let answered = Report::success().with_first_token(Duration::from_millis(400));
    for n in 0..100 {
        one(&mut guards, n, n, &answered);
    }
    let delay = guards.hedge_delay(at(100), &endpoint()).unwrap();
    assert!((400..=460).contains(&delay.as_millis()), "{delay:?}");
    // Two in a hundred, and what the cap refuses costs no tokens.
    let spent = (0..10).filter(|_| guards.spend(at(100), &endpoint(), Cost::Hedge).is_ok());
    assert_eq!(spent.count(), 2);
    let tokens = guards.snapshot(at(100)).budgets.endpoints[0].1.tokens;
    assert_eq!(tokens, Some(Tokens::new(98)));
    // And what the budget refuses is not counted as a hedge.
    let broke = GuardConfig {
        hedge,
        process_budget: BudgetConfig {
            per_minute: Some(0),
            ..BudgetConfig::UNLIMITED
        },
        ..CONFIG
    };
    let mut guards = Guards::new(broke, at(0), 1);
    for n in 0..100 {
        one(&mut guards, n, n, &answered);
    }
    let refused = guards.spend(at(100), &endpoint(), Cost::Hedge).unwrap_err();
    assert_eq!(refused.scope, Scope::Process);
    assert_eq!(guards.snapshot(at(100)).endpoints[0].hedge.hedges, 0);
}

#[test]
fn the_endpoint_that_is_idle_longest_gives_way_and_one_in_use_stays() {
    let config = GuardConfig {
        max_endpoints: 2,
        ..CONFIG
    };
    let mut guards = Guards::new(config, at(0), 1);
    let mut come = |millis, name: &str, ticket| {
        let class = AttemptClass::First;
        let endpoint = EndpointId::new(name);
        let _ = guards.arrive(at(millis), &endpoint, Ticket(ticket), LATER, class);
        if name.starts_with("idle") {
            let _ = guards.done(at(millis), Ticket(ticket), &Report::success());
        }
        let snapshot = guards.snapshot(at(millis));
        let names = snapshot.endpoints.iter().map(|e| e.endpoint.to_string());
        (names.collect::<Vec<_>>(), snapshot.others.limit.in_flight)
    };
    come(0, "used", 0);
    come(1, "idle-1", 1);
    let expected = vec!["idle-2".to_owned(), "used".to_owned()];
    assert_eq!(come(2, "idle-2", 2), (expected, 0));
    let expected = vec!["also-used".to_owned(), "used".to_owned()];
    assert_eq!(come(3, "also-used", 3), (expected.clone(), 0));
    // Nobody is idle: the third shares its guards.
    assert_eq!(come(4, "used-too", 4), (expected, 1));
}

#[test]
fn those_who_wait_too_long_are_told() {
    let config = GuardConfig {
        limit: LimitConfig {
            max: 1,
            ..LimitConfig::DEFAULT
        },
        ..CONFIG
    };
    let mut guards = Guards::new(config, at(0), 1);
    assert_eq!(arrive(&mut guards, 0, 0), GO);
    let class = AttemptClass::Again;
    let waits = guards.arrive(at(0), &endpoint(), Ticket(1), at(500), class);
    assert_eq!(waits, Arrival::Wait);
    assert_eq!(guards.next_timeout(), Some(at(500)));
    let ticket = Ticket(1);
    let arrival = Arrival::TooLate;
    assert_eq!(guards.handle_timeout(at(500)), [Woken { ticket, arrival }]);
    assert_eq!(guards.next_timeout(), None);
    let _ = guards.done(at(501), Ticket(0), &Report::success());
    assert_eq!(guards.tickets.len(), 0);
}

#[test]
fn off_refuses_nothing() {
    let mut guards = Guards::new(GuardConfig::OFF, at(0), 1);
    for n in 0..5000 {
        assert_eq!(arrive(&mut guards, n, n), GO);
        assert!(guards.spend(at(n), &endpoint(), Cost::Unknown).is_ok());
    }
    for n in 0..5000 {
        let _ = guards.done(at(9000), Ticket(n), &Report::failure(ErrorKind::Overloaded));
    }
    assert_eq!(arrive(&mut guards, 9000, 9000), GO);
}

#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    Arrive(u8, u64),
    FirstToken(usize, u64),
    Done(usize, Option<ErrorKind>, Option<u64>),
    Forget(usize),
    ForgetWaiting(usize),
    Time,
    Spend(u8, Cost),
}

fn act() -> impl Strategy<Value = Act> {
    let kind = prop::option::weighted(0.7, prop::sample::select(ErrorKind::ALL));
    let ill = prop::sample::select(vec![ErrorKind::Overloaded, ErrorKind::Connect]).prop_map(Some);
    let kind = prop_oneof![kind, ill];
    let cost = prop::sample::select(vec![Cost::Throttled, Cost::Unknown, Cost::Hedge]);
    let wait = prop::option::weighted(0.1, 0..100_000_u64);
    prop_oneof![
        2 => (0..20_000_u64).prop_map(Act::Pass),
        10 => (0..6_u8, 0..60_000_u64).prop_map(|(e, d)| Act::Arrive(e, d)),
        3 => (any::<usize>(), 0..10_000_u64).prop_map(|(n, t)| Act::FirstToken(n, t)),
        8 => (any::<usize>(), kind, wait).prop_map(|(n, k, w)| Act::Done(n, k, w)),
        1 => any::<usize>().prop_map(Act::Forget),
        1 => any::<usize>().prop_map(Act::ForgetWaiting),
        1 => Just(Act::Time),
        1 => (0..6_u8, cost).prop_map(|(e, c)| Act::Spend(e, c)),
    ]
}

/// Takes what came of a change, and checks that each of them waited.
fn hear(
    woken: Vec<Woken>,
    waiting: &mut BTreeSet<u64>,
    inside: &mut Vec<u64>,
) -> Result<(), TestCaseError> {
    for Woken { ticket, arrival } in woken {
        prop_assert!(waiting.remove(&ticket.0), "{ticket:?} did not wait");
        match arrival {
            Arrival::Go { .. } => inside.push(ticket.0),
            Arrival::Wait => prop_assert!(false, "woken to wait"),
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn nobody_is_lost_nothing_grows_and_everything_recovers(
        acts in prop::collection::vec(act(), 1..400), seed in any::<u64>()
    ) {
        let config = GuardConfig {
            limit: LimitConfig { max: 4, max_queue: 3, ..LimitConfig::DEFAULT },
            max_endpoints: 3,
            ..GuardConfig::DEFAULT
        };
        let mut guards = Guards::new(config, at(0), seed);
        let (mut now, mut next) = (0, 0);
        let (mut waiting, mut inside) = (BTreeSet::new(), Vec::new());
        let name = |n: u8| EndpointId::new(&n.to_string());
        for act in acts {
            let woken = match act {
                Act::Pass(millis) => {
                    now += millis;
                    Vec::new()
                }
                Act::Arrive(endpoint, patience) => {
                    let deadline = at(now + patience);
                    let class = AttemptClass::First;
                    match guards.arrive(at(now), &name(endpoint), Ticket(next), deadline, class) {
                        Arrival::Go { .. } => inside.push(next),
                        Arrival::Wait => _ = waiting.insert(next),
                        Arrival::CircuitOpen { until } => prop_assert!(until > at(now)),
                        Arrival::QueueFull => {}
                        Arrival::TooLate => prop_assert!(false),
                    }
                    next += 1;
                    Vec::new()
                }
                Act::FirstToken(n, took) if !inside.is_empty() => {
                    let ticket = Ticket(inside[n % inside.len()]);
                    guards.first_token(at(now), ticket, Duration::from_millis(took))
                }
                Act::Done(n, kind, wait) if !inside.is_empty() => {
                    let ticket = Ticket(inside.swap_remove(n % inside.len()));
                    let report = kind.map_or(Report::success(), Report::failure);
                    let report = report.with_retry_after(wait.map(Duration::from_millis));
                    let woken = guards.done(at(now), ticket, &report);
                    prop_assert!(guards.done(at(now), ticket, &report).is_empty(), "twice");
                    woken
                }
                Act::Forget(n) if !inside.is_empty() => {
                    let ticket = Ticket(inside.swap_remove(n % inside.len()));
                    guards.forget(at(now), ticket)
                }
                Act::ForgetWaiting(n) if !waiting.is_empty() => {
                    let ticket = *waiting.iter().nth(n % waiting.len()).unwrap();
                    waiting.remove(&ticket);
                    guards.forget(at(now), Ticket(ticket))
                }
                Act::Time => guards.handle_timeout(at(now)),
                Act::Spend(endpoint, cost) => {
                    let _ = guards.spend(at(now), &name(endpoint), cost);
                    Vec::new()
                }
                _ => Vec::new(),
            };
            hear(woken, &mut waiting, &mut inside)?;
            let snapshot = guards.snapshot(at(now));
            prop_assert!(snapshot.endpoints.len() <= 3);
            prop_assert!(snapshot.budgets.endpoints.len() <= 3);
            let doors: Vec<_> = snapshot.endpoints.iter().chain([&snapshot.others]).collect();
            for door in &doors {
                prop_assert!(door.limit.limit <= 4 && door.limit.queued <= 3);
            }
            let in_flight: usize = doors.iter().map(|door| door.limit.in_flight).sum();
            let queued: usize = doors.iter().map(|door| door.limit.queued).sum();
            prop_assert_eq!(in_flight, inside.len());
            prop_assert_eq!(queued, waiting.len());
            prop_assert_eq!(guards.tickets.len(), inside.len() + waiting.len());
        }
        // Everybody who is inside finishes, again and again, until nobody waits.
        for round in 0..50 {
            let Some(ticket) = inside.pop() else { break };
            prop_assert!(round < 49);
            let woken = guards.done(at(now), Ticket(ticket), &Report::success());
            hear(woken, &mut waiting, &mut inside)?;
        }
        let woken = guards.handle_timeout(at(now));
        hear(woken, &mut waiting, &mut inside)?;
        prop_assert!(waiting.is_empty(), "{:?} wait for nothing", waiting);
        // And every circuit closes.
        for endpoint in 0..6 {
            for _ in 0..5 {
                next += 1;
                let class = AttemptClass::Again;
                match guards.arrive(at(now), &name(endpoint), Ticket(next), LATER, class) {
                    Arrival::Go { .. } => {
                        let woken = guards.done(at(now), Ticket(next), &Report::success());
                        prop_assert!(woken.is_empty());
                    }
                    Arrival::CircuitOpen { until } => {
                        now = u64::try_from(until.since_origin().as_millis()).unwrap() + 1;
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            let class = AttemptClass::Again;
            next += 1;
            let last = guards.arrive(at(now), &name(endpoint), Ticket(next), LATER, class);
            prop_assert_eq!(last, GO);
            let _ = guards.forget(at(now), Ticket(next));
        }
    }
}
