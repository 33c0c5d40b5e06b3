//! Ten thousand clients and a provider that fails: what the guards promise then.
//!
//! Invented time, the real operation machine, the real guards; the storms are
//! those of `examples/storm`, which draws them. Each promise is asserted with the
//! guards, and without them it is seen to be broken.

#![cfg(test)] // else the lints take the helpers for production code

#[path = "../examples/storm/provider.rs"]
mod provider;
#[path = "../examples/storm/seen.rs"]
mod seen;
#[path = "../examples/storm/sim.rs"]
mod sim;
#[path = "../examples/storm/storms.rs"]
#[expect(dead_code, reason = "the example draws more than is asserted")]
mod storms;

use seen::{Seen, Slice};
use sim::Storm;
use std::time::Duration;
use storms::{BURST, LENGTH, OUTAGE, burst, outage};
use streamkeep::proto::breaker::{BreakerConfig, BreakerState};
use streamkeep::proto::budget::BudgetConfig;
use streamkeep::proto::guards::GuardConfig;
use streamkeep::proto::limits::LimitConfig;
use streamkeep::proto::retry::RetryPolicy;

const GUARDED: GuardConfig = GuardConfig::DEFAULT;
const BARE: GuardConfig = GuardConfig::OFF;

fn second(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

fn play(storm: Storm) -> Seen {
    storm.play().unwrap()
}

/// The seconds in which the breaker changed, with its new state.
fn states(seen: &Seen) -> Vec<(u64, BreakerState)> {
    let states = seen.states.iter();
    states
        .map(|(at, state)| (at.since_origin().as_secs(), *state))
        .collect()
}

/// Of the calls that ended between two seconds, those that have their answer, in
/// percent.
fn answered(seen: &Seen, from: u64, to: u64) -> u32 {
    let sum = |what: fn(&Slice) -> u32| seen.sum(second(from), second(to), what);
    let (answered, failed) = (sum(|slice| slice.answered), sum(|slice| slice.failed));
    answered * 100 / (answered + failed).max(1)
}

#[test]
fn an_outage_never_meets_more_than_a_tenth_above_the_healthy_load() {
    let seen = play(outage(&GUARDED));
    let worst = seen.worst_load(10, 0, second(LENGTH.0));
    assert!(worst <= 1.1, "{worst:.2} times the healthy load");
}

#[test]
fn an_outage_opens_the_circuit_and_only_probes_go_out_until_it_closes_for_good() {
    let seen = play(outage(&GUARDED));
    let states = states(&seen);
    let opened = states[1];
    assert!(
        opened.1 == BreakerState::Open && opened.0 <= OUTAGE.0 + 5,
        "{states:?}"
    );
    let while_open = seen.sum(second(opened.0 + 1), second(OUTAGE.1), |s| s.attempts);
    assert!(
        (1..=5).contains(&while_open),
        "{while_open} attempts while it was open"
    );
    let (closed, state) = *states.last().unwrap();
    assert_eq!(state, BreakerState::Closed, "{states:?}");
    // No wait is longer than it has been open, a minute at most here, and jitter
    // adds a tenth.
    assert!(
        (OUTAGE.1..=OUTAGE.1 + 67).contains(&closed),
        "it closed at {closed} s"
    );
    // And that was all: nothing had to be turned away again.
    let closings = states.iter().filter(|(_, s)| *s == BreakerState::Closed);
    assert_eq!(closings.count(), 2, "{states:?}");
    let again = seen.sum(second(closed + 1), second(LENGTH.0), |s| s.turned_away);
    assert_eq!(again, 0, "a second wave");
    assert_eq!(answered(&seen, closed + 5, LENGTH.0), 100);
}

#[test]
fn without_guards_the_same_outage_meets_more_than_twice_the_load() {
    let seen = play(outage(&BARE));
    let worst = seen.worst_load(10, 0, second(LENGTH.0));
    assert!(worst > 2.0, "{worst:.2} times the healthy load");
}

#[test]
fn the_budget_alone_keeps_the_load_down_too() {
    let alone = GuardConfig {
        breaker: BreakerConfig::OFF,
        limit: BARE.limit,
        ..GUARDED
    };
    let seen = play(outage(&alone));
    let worst = seen.worst_load(10, 0, second(LENGTH.0));
    assert!(worst <= 1.1, "{worst:.2} times the healthy load");
    // Without the bucket the window has to do it, for as long as it lasts.
    let window = BudgetConfig {
        bucket: None,
        ..BudgetConfig::ENDPOINT
    };
    let alone = GuardConfig {
        endpoint_budget: window,
        process_budget: BudgetConfig::UNLIMITED,
        ..alone
    };
    let seen = play(outage(&alone));
    let load = seen.worst_load(10, second(OUTAGE.0) + 30, second(OUTAGE.1));
    assert!((1.05..=1.12).contains(&load), "{load:.2}");
}

#[test]
fn ten_processes_with_a_thousand_clients_each_keep_the_promise_together() {
    let storm = Storm {
        processes: 10,
        ..outage(&GUARDED)
    };
    let seen = play(storm);
    let worst = seen.worst_load(10, 0, second(LENGTH.0));
    assert!(worst <= 1.1, "{worst:.2} times the healthy load");
    let closed = OUTAGE.1 + 70;
    assert_eq!(answered(&seen, closed, LENGTH.0), 100);
}

/// The retries of each second in which there may be some.
fn retries(seen: &Seen) -> Vec<u32> {
    let all = seen.by_second(|slice| slice.retries);
    all[second(BURST.0)..second(BURST.1) + 10].to_vec()
}

#[test]
fn a_burst_of_429s_is_retried_sparsely_and_evenly() {
    for (retry_after, spread_hints) in [(None, false), (Some(3), false), (Some(3), true)] {
        let storm = burst(&GUARDED, retry_after);
        let retry = RetryPolicy {
            spread_hints,
            ..storm.retry
        };
        let seen = play(Storm { retry, ..storm });
        let context = format!("retry-after: {retry_after:?}, spread: {spread_hints}");
        let bins = retries(&seen);
        let all: u32 = bins.iter().sum();
        let calls = seen.sum(second(BURST.0), second(BURST.1), |s| s.arrivals);
        assert!(all > 100, "{context}: too few to tell: {bins:?}");
        assert!(all * 10 <= calls, "{context}: {all} of {calls}");
        let most = *bins.iter().max().unwrap();
        let seconds = u32::try_from(BURST.1 - BURST.0).unwrap();
        assert!(most * seconds <= 4 * all, "{context}: a wave: {bins:?}");
        let worst = seen.worst_load(10, 0, second(LENGTH.1));
        assert!(worst <= 1.25, "{context}: {worst:.2}");
        // When it is over, it is over, and nearly everybody gets an answer.
        let late = seen.sum(second(BURST.1) + 10, second(LENGTH.1), |s| s.turned_away);
        assert!(late <= 20, "{context}: {late} were turned away later");
        let after = seen.worst_load(10, second(BURST.1) + 1, second(LENGTH.1));
        assert!(after <= 1.1, "{context}: a second wave: {after:.2}");
        assert!(answered(&seen, BURST.1 + 30, LENGTH.1) >= 99, "{context}");
    }
}

#[test]
fn without_guards_a_burst_of_429s_is_retried_as_often_as_it_is_asked() {
    let seen = play(burst(&BARE, None));
    let all: u32 = retries(&seen).iter().sum();
    let calls = seen.sum(second(BURST.0), second(BURST.1), |s| s.arrivals);
    assert!(all > calls, "{all} retries of {calls} calls");
}

#[test]
fn equal_seeds_give_equal_storms() {
    let storm = |seed| Storm {
        clients: 500,
        think: Duration::from_secs(10),
        seed,
        length: Duration::from_secs(75),
        guards: GuardConfig {
            limit: LimitConfig {
                max: 100,
                ..LimitConfig::DEFAULT
            },
            ..GUARDED
        },
        ..outage(&GUARDED)
    };
    assert_eq!(play(storm(1)), play(storm(1)));
    assert_ne!(play(storm(1)), play(storm(2)));
}
