use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

fn at(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

const LATER: Moment = Moment::from_origin(Duration::from_secs(1_000_000));

fn bulkhead(max: usize) -> Bulkhead {
    let config = LimitConfig {
        max,
        max_queue: 3,
        ..LimitConfig::DEFAULT
    };
    Bulkhead::new(config, at(0))
}

fn enter(bulkhead: &mut Bulkhead, millis: u64, tickets: std::ops::Range<u64>) -> Vec<Entry> {
    tickets
        .map(|ticket| bulkhead.enter(at(millis), Ticket(ticket), LATER))
        .collect()
}

fn limit(bulkhead: &mut Bulkhead, millis: u64) -> usize {
    bulkhead.snapshot(at(millis)).limit
}

#[test]
fn so_many_enter_so_many_wait_and_the_rest_is_refused() {
    use Entry::{Entered, Full, Queued};
    let mut bulkhead = bulkhead(2);
    assert_eq!(
        enter(&mut bulkhead, 0, 0..7),
        [Entered, Entered, Queued, Queued, Queued, Full, Full]
    );
    let woken = bulkhead.leave(at(1), Ticket(0), Leaving::Quietly);
    assert_eq!(woken, [Ticket(2)]);
    let snapshot = bulkhead.snapshot(at(1));
    assert_eq!((snapshot.in_flight, snapshot.queued), (2, 2));
}

#[test]
fn nobody_overtakes_those_who_wait() {
    let mut bulkhead = bulkhead(4);
    enter(&mut bulkhead, 0, 0..4);
    for ticket in 0..4 {
        let woken = bulkhead.leave(at(0), Ticket(ticket), Leaving::Throttled);
        assert_eq!(woken, []);
    }
    // The limit is 2 now.
    assert_eq!(
        enter(&mut bulkhead, 0, 10..13),
        [Entry::Entered, Entry::Entered, Entry::Queued]
    );
    // Later there is room for one more, and it is not for the new one.
    let late = bulkhead.enter(at(30_000), Ticket(20), LATER);
    assert_eq!(late, Entry::Queued);
    assert_eq!(bulkhead.let_in(at(30_000)), [Ticket(12)]);
}

/// These leave, and say that it was too much.
fn refuse(bulkhead: &mut Bulkhead, millis: u64, tickets: std::ops::Range<u64>) {
    for ticket in tickets {
        let _ = bulkhead.leave(at(millis), Ticket(ticket), Leaving::Throttled);
    }
}

#[test]
fn a_burst_of_refusals_halves_the_limit_once() {
    let mut bulkhead = bulkhead(100);
    enter(&mut bulkhead, 0, 0..100);
    for n in 0..29 {
        refuse(&mut bulkhead, n * 1000, n..n + 1);
    }
    assert_eq!(limit(&mut bulkhead, 29_999), 50);
    refuse(&mut bulkhead, 30_000, 50..51);
    assert_eq!(limit(&mut bulkhead, 30_000), 25);
}

#[test]
fn what_is_halved_is_what_was_in_flight_lately() {
    let mut bulkhead = bulkhead(1024);
    enter(&mut bulkhead, 0, 0..300);
    for ticket in 0..299 {
        let _ = bulkhead.leave(at(1000), Ticket(ticket), Leaving::Quietly);
    }
    refuse(&mut bulkhead, 60_000, 299..300);
    assert_eq!(limit(&mut bulkhead, 60_000), 150);
    // And what was long ago is forgotten.
    let mut bulkhead = self::bulkhead(160);
    enter(&mut bulkhead, 0, 0..100);
    for ticket in 0..80 {
        let _ = bulkhead.leave(at(1000), Ticket(ticket), Leaving::Quietly);
    }
    refuse(&mut bulkhead, 180_000, 80..81);
    assert_eq!(limit(&mut bulkhead, 180_000), 10);
}

#[test]
fn one_refusal_in_a_quiet_moment_leaves_room_for_a_busy_one() {
    let mut bulkhead = bulkhead(1024);
    enter(&mut bulkhead, 0, 0..1);
    refuse(&mut bulkhead, 0, 0..1);
    assert_eq!(limit(&mut bulkhead, 0), 64);
    assert_eq!(limit(&mut bulkhead, 12_000), 460);
}

#[test]
fn where_it_lasts_the_limit_comes_down_to_what_the_provider_takes() {
    // It takes ten at once and refuses the rest; a hundred always want to.
    let mut bulkhead = Bulkhead::new(
        LimitConfig {
            max_queue: 0,
            ..LimitConfig::DEFAULT
        },
        at(0),
    );
    let (mut next, mut refused, mut seen) = (0, 0, Vec::new());
    for second in 0..1200 {
        let now = second * 1000;
        let mut inside = Vec::new();
        for _ in 0..100 {
            if bulkhead.enter(at(now), Ticket(next), LATER) == Entry::Entered {
                inside.push(next);
            }
            next += 1;
        }
        for (n, ticket) in inside.iter().enumerate() {
            let how = if n < 10 {
                Leaving::Quietly
            } else {
                Leaving::Throttled
            };
            refused += u32::from(second >= 600 && n >= 10);
            let _ = bulkhead.leave(at(now), Ticket(*ticket), how);
        }
        if second >= 600 {
            seen.push(inside.len().min(10));
        }
    }
    let used: usize = seen.iter().sum();
    assert!(used >= 600 * 7, "it serves {used} of {}", 600 * 10);
    assert!(refused <= 600 * 2, "{refused} of {used} were refused");
}

#[test]
fn it_never_falls_below_one_and_grows_by_one_slot_a_minute_at_least() {
    let mut bulkhead = bulkhead(3);
    for n in 0..10 {
        enter(&mut bulkhead, n * 30_000, n..n + 1);
        refuse(&mut bulkhead, n * 30_000, n..n + 1);
    }
    let held = 272_000;
    assert_eq!(limit(&mut bulkhead, held), 1);
    assert_eq!(limit(&mut bulkhead, held + 55_000), 1);
    assert_eq!(limit(&mut bulkhead, held + 60_000), 2);
    assert_eq!(limit(&mut bulkhead, held + 120_000), 3);
    assert_eq!(limit(&mut bulkhead, u64::MAX), 3);
}

#[test]
fn it_climbs_quickly_to_where_it_was_cut_and_slowly_beyond() {
    let mut bulkhead = bulkhead(1000);
    enter(&mut bulkhead, 0, 0..600);
    refuse(&mut bulkhead, 0, 0..1);
    assert_eq!(limit(&mut bulkhead, 0), 300);
    // It waits whether more of it comes.
    assert_eq!(limit(&mut bulkhead, 2_000), 300);
    assert_eq!(limit(&mut bulkhead, 7_000), 420);
    assert_eq!(limit(&mut bulkhead, 12_000), 540);
    assert_eq!(limit(&mut bulkhead, 72_000), 600);
    assert_eq!(limit(&mut bulkhead, 132_000), 660);
    assert_eq!(limit(&mut bulkhead, 3_600_000), 1000);
}

#[test]
fn it_does_not_grow_while_the_provider_still_refuses() {
    let mut bulkhead = bulkhead(1000);
    enter(&mut bulkhead, 0, 0..600);
    for n in 0..25 {
        refuse(&mut bulkhead, n * 1000, n..n + 1);
    }
    assert_eq!(limit(&mut bulkhead, 26_000), 300);
    assert_eq!(limit(&mut bulkhead, 27_000), 324);
}

#[test]
fn those_whose_deadline_came_are_told_and_not_let_in() {
    let mut bulkhead = bulkhead(1);
    enter(&mut bulkhead, 0, 0..1);
    for (ticket, deadline) in [(1, 3_000), (2, 9_000), (3, 1_000)] {
        let entry = bulkhead.enter(at(0), Ticket(ticket), at(deadline));
        assert_eq!(entry, Entry::Queued);
    }
    assert_eq!(bulkhead.next_deadline(), Some(at(1_000)));
    let woken = bulkhead.leave(at(3_000), Ticket(0), Leaving::Quietly);
    assert_eq!(woken, [Ticket(2)]);
    assert_eq!(bulkhead.expire(at(3_000)), [Ticket(3), Ticket(1)]);
    assert_eq!(bulkhead.next_deadline(), None);
}

#[test]
fn a_ticket_that_is_known_takes_no_second_place() {
    let mut bulkhead = bulkhead(1);
    assert_eq!(
        enter(&mut bulkhead, 0, 0..2),
        [Entry::Entered, Entry::Queued]
    );
    assert_eq!(
        enter(&mut bulkhead, 0, 0..2),
        [Entry::Entered, Entry::Queued]
    );
    let snapshot = bulkhead.snapshot(at(0));
    assert_eq!((snapshot.in_flight, snapshot.queued), (1, 1));
}

/// The same thing, written down naively.
#[derive(Default)]
struct Model {
    inside: Vec<u64>,
    waiting: VecDeque<(u64, u64)>,
}

#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    Enter(u64),
    Leave(usize, bool),
    LeaveUnknown(u64),
    Forget(u64),
    Expire,
    LetIn,
    TurnAway,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..30_000_u64).prop_map(Act::Pass),
        12 => (0..60_000_u64).prop_map(Act::Enter),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(n, t)| Act::Leave(n, t)),
        1 => (0..40_u64).prop_map(Act::LeaveUnknown),
        2 => (0..40_u64).prop_map(Act::Forget),
        2 => Just(Act::Expire),
        1 => Just(Act::LetIn),
        1 => Just(Act::TurnAway),
    ]
}

proptest! {
    #[test]
    fn nobody_is_lost_or_served_twice_and_the_limit_holds(
        acts in prop::collection::vec(act(), 1..300),
        max in 1..9_usize,
    ) {
        let config = LimitConfig { max, max_queue: 5, ..LimitConfig::DEFAULT };
        let mut bulkhead = Bulkhead::new(config, at(0));
        let mut model = Model::default();
        let (mut now, mut next) = (0, 0);
        for act in acts {
            let limit = bulkhead.snapshot(at(now)).limit;
            prop_assert!((1..=max).contains(&limit));
            let mut woken = Vec::new();
            match act {
                Act::Pass(millis) => now += millis,
                Act::Enter(patience) => {
                    let entry = bulkhead.enter(at(now), Ticket(next), at(now + patience));
                    match entry {
                        Entry::Entered => {
                            let waits = model.waiting.iter().any(|(_, deadline)| *deadline > now);
                            prop_assert!(!waits, "overtaken");
                            model.inside.push(next);
                            prop_assert!(model.inside.len() <= limit);
                        }
                        Entry::Queued => {
                            prop_assert!(!model.inside.is_empty(), "it waits for nothing");
                            model.waiting.push_back((next, now + patience));
                        }
                        Entry::Full => prop_assert_eq!(model.waiting.len(), 5),
                    }
                    next += 1;
                }
                Act::Leave(n, throttled) if !model.inside.is_empty() => {
                    let ticket = model.inside.swap_remove(n % model.inside.len());
                    let how = if throttled { Leaving::Throttled } else { Leaving::Quietly };
                    woken = bulkhead.leave(at(now), Ticket(ticket), how);
                }
                Act::Leave(..) => {}
                Act::LeaveUnknown(ahead) => {
                    woken = bulkhead.leave(at(now), Ticket(next + ahead), Leaving::Throttled);
                }
                Act::Forget(back) => {
                    let ticket = next.saturating_sub(back);
                    model.inside.retain(|t| *t != ticket);
                    model.waiting.retain(|(t, _)| *t != ticket);
                    woken = bulkhead.forget(at(now), Ticket(ticket));
                }
                Act::Expire => {
                    let mut late = bulkhead.expire(at(now));
                    late.sort_unstable();
                    let expected = model.waiting.iter().filter(|(_, deadline)| *deadline <= now);
                    let mut expected: Vec<_> = expected.map(|(t, _)| Ticket(*t)).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(late, expected);
                    model.waiting.retain(|(_, deadline)| *deadline > now);
                }
                Act::LetIn => woken = bulkhead.let_in(at(now)),
                Act::TurnAway => {
                    let away = bulkhead.turn_away();
                    let expected: Vec<_> = model.waiting.drain(..).map(|(t, _)| Ticket(t)).collect();
                    prop_assert_eq!(away, expected);
                }
            }
            for ticket in woken {
                let first = model.waiting.iter().position(|(_, deadline)| *deadline > now);
                let expected = first.and_then(|at| model.waiting.remove(at));
                prop_assert_eq!(expected.map(|(t, _)| Ticket(t)), Some(ticket), "out of turn");
                model.inside.push(ticket.0);
                prop_assert!(model.inside.len() <= bulkhead.snapshot(at(now)).limit);
            }
            let snapshot = bulkhead.snapshot(at(now));
            prop_assert_eq!(snapshot.in_flight, model.inside.len());
            prop_assert_eq!(snapshot.queued, model.waiting.len());
            prop_assert_eq!(bulkhead.is_idle(), model.inside.is_empty() && model.waiting.is_empty());
        }
    }
}
