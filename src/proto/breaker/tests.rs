use super::*;
use proptest::prelude::*;

fn at(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

const PLAIN: BreakerConfig = BreakerConfig {
    jitter_percent: 0,
    ..BreakerConfig::DEFAULT
};

fn breaker() -> Breaker {
    Breaker::new(PLAIN, 1)
}

fn tell(breaker: &mut Breaker, millis: u64, verdict: Verdict) {
    breaker.report(at(millis), None, verdict, None);
}

/// One that was opened at this time.
fn opened(millis: u64) -> Breaker {
    let mut breaker = breaker();
    for n in 0..20 {
        tell(&mut breaker, millis + n / 20, Verdict::Failure);
    }
    assert!(!breaker.is_closed());
    breaker
}

fn probe(breaker: &mut Breaker, millis: u64) -> ProbeId {
    match breaker.admit(at(millis)) {
        Admission::Probe(id) => id,
        other => panic!("expected a probe at {millis} ms, but found {other:?}"),
    }
}

#[test]
fn half_of_twenty_opens_it_and_nineteen_are_too_few() {
    let mut breaker = breaker();
    for n in 0..19 {
        let verdict = if n % 2 == 0 {
            Verdict::Failure
        } else {
            Verdict::Success
        };
        tell(&mut breaker, n, verdict);
    }
    assert_eq!(breaker.admit(at(20)), Admission::Closed);
    tell(&mut breaker, 20, Verdict::Failure);
    assert_eq!(breaker.admit(at(20)), Admission::Open { until: at(30_020) });
}

#[test]
fn less_than_half_leaves_it_closed() {
    let mut breaker = breaker();
    for n in 0..1000 {
        let verdict = if n % 5 < 2 {
            Verdict::Failure
        } else {
            Verdict::Success
        };
        tell(&mut breaker, n * 10, verdict);
    }
    assert!(breaker.is_closed());
}

#[test]
fn a_run_of_five_opens_it_where_there_is_little_traffic() {
    let mut breaker = breaker();
    for n in 0..4 {
        tell(&mut breaker, n * 60_000, Verdict::Failure);
    }
    assert!(breaker.is_closed());
    tell(&mut breaker, 240_000, Verdict::Failure);
    assert!(!breaker.is_closed());
}

#[test]
fn a_connection_that_takes_many_requests_along_is_one_failure() {
    let mut breaker = breaker();
    for n in 0..50 {
        tell(&mut breaker, n, Verdict::Success);
    }
    for n in 0..30 {
        tell(&mut breaker, 1000 + n, Verdict::Failure);
    }
    assert!(breaker.is_closed());
}

#[test]
fn what_lies_outside_the_window_does_not_count() {
    let mut breaker = breaker();
    for n in 0..15 {
        tell(&mut breaker, n, Verdict::Failure);
    }
    tell(&mut breaker, 40_000, Verdict::Success);
    for n in 0..4 {
        tell(&mut breaker, 40_100 + n, Verdict::Failure);
    }
    assert!(breaker.is_closed());
}

#[test]
fn rate_limits_open_it_only_when_nothing_passes() {
    let mut mixed = breaker();
    for n in 0..1000 {
        let verdict = if n % 10 == 0 {
            Verdict::Success
        } else {
            Verdict::Throttled
        };
        tell(&mut mixed, n * 10, verdict);
    }
    assert!(mixed.is_closed());
    let mut nothing_passes = breaker();
    for n in 0..200 {
        tell(&mut nothing_passes, n * 10, Verdict::Throttled);
    }
    assert!(!nothing_passes.is_closed());
}

#[test]
fn the_callers_faults_say_nothing() {
    let mut breaker = breaker();
    for n in 0..1000 {
        tell(&mut breaker, n * 100, Verdict::Neutral);
    }
    assert!(breaker.is_closed());
}

#[test]
fn streams_that_break_after_their_first_token_open_it() {
    let mut breaker = breaker();
    // Ten are always under way, which must not hide that none arrives.
    for n in 0..10 {
        tell(&mut breaker, n, Verdict::Success);
    }
    for n in 0..40 {
        tell(&mut breaker, 10 + n, Verdict::Success);
        tell(&mut breaker, 10 + n, Verdict::Broke);
    }
    assert!(!breaker.is_closed());
}

#[test]
fn no_wait_is_longer_than_it_has_been_open_nor_than_five_minutes() {
    let mut breaker = opened(0);
    let mut now = 0;
    for wait in [30, 30, 60, 120, 240, 300, 300] {
        now += wait * 1000;
        assert!(matches!(breaker.admit(at(now - 1)), Admission::Open { .. }));
        let id = probe(&mut breaker, now);
        breaker.report(at(now), Some(id), Verdict::Failure, None);
    }
}

#[test]
fn a_probe_that_succeeds_closes_it_and_the_next_wait_begins_at_thirty_seconds() {
    let mut breaker = opened(0);
    let id = probe(&mut breaker, 30_000);
    breaker.report(at(30_000), Some(id), Verdict::Failure, None);
    let id = probe(&mut breaker, 60_000);
    breaker.report(at(60_000), Some(id), Verdict::Failure, None);
    let id = probe(&mut breaker, 120_000);
    breaker.report(at(121_000), Some(id), Verdict::Success, None);
    assert_eq!(breaker.admit(at(121_000)), Admission::Closed);
    for n in 0..20 {
        tell(&mut breaker, 122_000 + n, Verdict::Failure);
    }
    assert_eq!(breaker.refuses_until(at(122_020)), Some(at(152_019)));
}

#[test]
fn what_was_counted_before_it_closed_does_not_open_it_again() {
    let config = BreakerConfig {
        open_for: Duration::from_secs(1),
        ..PLAIN
    };
    let mut breaker = Breaker::new(config, 1);
    for n in 0..100 {
        tell(&mut breaker, n, Verdict::Failure);
    }
    let id = probe(&mut breaker, 2000);
    breaker.report(at(2000), Some(id), Verdict::Success, None);
    for n in 0..4 {
        tell(&mut breaker, 2000 + n, Verdict::Failure);
    }
    assert!(breaker.is_closed());
}

#[test]
fn a_success_takes_back_what_was_said_about_waiting() {
    let mut breaker = opened(0);
    let id = probe(&mut breaker, 30_000);
    // One that went out before it opened is told to wait for long.
    let wait = Some(Duration::from_secs(900));
    breaker.report(at(30_001), None, Verdict::Failure, wait);
    breaker.report(at(30_002), Some(id), Verdict::Success, None);
    for n in 0..20 {
        tell(&mut breaker, 31_000 + n, Verdict::Failure);
    }
    assert_eq!(breaker.refuses_until(at(31_019)), Some(at(61_019)));
}

#[test]
fn more_than_one_probe_may_be_asked_to_succeed() {
    let config = BreakerConfig {
        successes_to_close: 3,
        ..PLAIN
    };
    let mut breaker = Breaker::new(config, 1);
    for n in 0..20 {
        tell(&mut breaker, n, Verdict::Failure);
    }
    for n in 0..3 {
        assert!(!breaker.is_closed());
        let id = probe(&mut breaker, 40_000 + n);
        breaker.report(at(40_000 + n), Some(id), Verdict::Success, None);
    }
    assert!(breaker.is_closed());
}

#[test]
fn one_probe_at_a_time_and_a_lost_one_is_replaced() {
    let mut breaker = opened(0);
    let lost = probe(&mut breaker, 30_000);
    assert_eq!(
        breaker.admit(at(30_001)),
        Admission::Open { until: at(90_000) }
    );
    let next = probe(&mut breaker, 90_000);
    assert_ne!(lost, next);
    // The lost one reports after all; it is not the one that is out.
    breaker.report(at(90_001), Some(lost), Verdict::Failure, None);
    assert!(matches!(breaker.admit(at(90_001)), Admission::Open { .. }));
    breaker.report(at(90_002), Some(next), Verdict::Success, None);
    assert!(breaker.is_closed());
}

#[test]
fn a_probe_that_says_nothing_makes_room_for_the_next() {
    let mut breaker = opened(0);
    let id = probe(&mut breaker, 30_000);
    breaker.report(at(30_001), Some(id), Verdict::Neutral, None);
    probe(&mut breaker, 30_001);
}

#[test]
fn no_probe_goes_out_before_the_provider_said() {
    let mut breaker = breaker();
    let wait = Some(Duration::from_secs(100));
    for n in 0..20 {
        breaker.report(at(n), None, Verdict::Failure, wait);
    }
    assert_eq!(
        breaker.admit(at(100_018)),
        Admission::Open { until: at(100_019) }
    );
    let id = probe(&mut breaker, 100_019);
    // And a success takes it back.
    breaker.report(at(100_020), Some(id), Verdict::Success, None);
    assert!(breaker.is_closed());
}

#[test]
fn an_absurd_wait_is_a_day() {
    let mut breaker = opened(0);
    let id = probe(&mut breaker, 30_000);
    let wait = Some(Duration::MAX);
    breaker.report(at(30_000), Some(id), Verdict::Throttled, wait);
    let until = breaker.refuses_until(at(30_000)).unwrap();
    assert_eq!(until, at(30_000).after(Duration::from_secs(24 * 3600)));
}

#[test]
fn the_jitter_makes_waits_longer_never_shorter_and_depends_on_the_seed() {
    let waits: Vec<_> = (0..32)
        .map(|seed| {
            let mut breaker = Breaker::new(BreakerConfig::DEFAULT, seed);
            for _ in 0..20 {
                tell(&mut breaker, 0, Verdict::Failure);
            }
            breaker.refuses_until(at(0)).unwrap().since(at(0))
        })
        .collect();
    let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(*least >= Duration::from_secs(30) && *most <= Duration::from_secs(33));
    assert!(*most > *least + Duration::from_secs(2), "{waits:?}");
}

#[test]
fn off_is_off() {
    let mut breaker = Breaker::new(BreakerConfig::OFF, 1);
    for n in 0..10_000 {
        tell(&mut breaker, n * 10, Verdict::Failure);
    }
    assert!(breaker.is_closed());
}

#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    Admit,
    /// One of those that are out reports.
    Report(usize, Verdict, Option<u64>),
    Lose(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let verdict = prop::sample::select(vec![
        Verdict::Success,
        Verdict::Failure,
        Verdict::Failure,
        Verdict::Throttled,
        Verdict::Broke,
        Verdict::Neutral,
    ]);
    let wait = prop::option::weighted(0.2, 0..200_000_u64);
    prop_oneof![
        3 => (0..20_000_u64).prop_map(Act::Pass),
        6 => Just(Act::Admit),
        6 => (any::<usize>(), verdict, wait).prop_map(|(n, v, w)| Act::Report(n, v, w)),
        1 => any::<usize>().prop_map(Act::Lose),
    ]
}

proptest! {
    #[test]
    fn one_probe_is_out_at_most_and_it_closes_whenever_probes_succeed(
        acts in prop::collection::vec(act(), 1..400), seed in any::<u64>()
    ) {
        let mut breaker = Breaker::new(BreakerConfig::DEFAULT, seed);
        let mut now = 0;
        let mut out: Vec<Option<ProbeId>> = Vec::new();
        let mut probe_out: Option<(ProbeId, u64)> = None;
        let mut told_to_wait = 0;
        for act in acts {
            match act {
                Act::Pass(millis) => now += millis,
                Act::Admit => match breaker.admit(at(now)) {
                    Admission::Closed => out.push(None),
                    Admission::Probe(id) => {
                        if let Some((_, since)) = probe_out {
                            prop_assert!(now >= since + 60_000, "two probes are out");
                        }
                        prop_assert!(now >= told_to_wait, "earlier than the provider said");
                        probe_out = Some((id, now));
                        out.push(Some(id));
                    }
                    Admission::Open { until } => prop_assert!(until > at(now)),
                },
                Act::Report(n, verdict, wait) if !out.is_empty() => {
                    let probe = out.swap_remove(n % out.len());
                    let was_closed = breaker.is_closed();
                    let is_current = probe.is_some() && probe_out.map(|p| p.0) == probe;
                    breaker.report(at(now), probe, verdict, wait.map(Duration::from_millis));
                    if is_current {
                        probe_out = None;
                    }
                    match verdict {
                        Verdict::Success if was_closed || is_current => told_to_wait = 0,
                        Verdict::Success | Verdict::Neutral => {}
                        _ => told_to_wait = told_to_wait.max(now + wait.unwrap_or(0)),
                    }
                    if breaker.is_closed() {
                        probe_out = None;
                    }
                }
                Act::Report(..) => {}
                Act::Lose(n) if !out.is_empty() => {
                    out.swap_remove(n % out.len());
                }
                Act::Lose(_) => {}
            }
        }
        // Recovery: from here on every probe succeeds.
        let mut steps = 0;
        while !breaker.is_closed() {
            match breaker.admit(at(now)) {
                Admission::Probe(id) => breaker.report(at(now), Some(id), Verdict::Success, None),
                Admission::Open { until } => now = u64::try_from(until.since_origin().as_millis()).unwrap() + 1,
                Admission::Closed => {}
            }
            steps += 1;
            prop_assert!(steps < 10, "it never closes");
        }
    }
}
