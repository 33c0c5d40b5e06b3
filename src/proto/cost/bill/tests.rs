use super::*;
use crate::proto::cost::noted;
use crate::proto::model::Usage;

const CHAT: Dialect = Dialect::OpenAiChat;

fn began(attempt: u32, kind: AttemptKind) -> AttemptStarted {
    AttemptStarted {
        route: "main".to_owned(),
        model: Some("m".to_owned()),
        ..AttemptStarted::new(attempt, kind)
    }
}

/// An attempt that was cut after so many characters.
fn cut(decision: &str, phase: Phase, chars: u64) -> AttemptEnded {
    AttemptEnded {
        failure: Some(noted("reset", None)),
        usage_basis: (chars > 0).then_some(UsageBasis::Estimated),
        output_chars: chars,
        ..AttemptEnded::new(0, phase, decision)
    }
}

fn whole(input: u64, output: u64) -> AttemptEnded {
    AttemptEnded {
        usage: Usage {
            input: Some(input),
            output: Some(output),
            ..Usage::default()
        },
        usage_basis: Some(UsageBasis::Reported),
        output_chars: output * 4,
        ..AttemptEnded::new(0, Phase::MidStream, "finish")
    }
}

fn bill(attempts: &[(AttemptKind, AttemptEnded)]) -> Bill {
    let mut bill = Bill::default();
    for (number, (kind, ended)) in (1..).zip(attempts) {
        bill.add(CHAT, &began(number, *kind), ended);
    }
    bill
}

/// Input, output and fate of each line that has to be paid.
fn told(bill: &Bill) -> Vec<(Option<u64>, u64, &'static str)> {
    bill.lines()
        .iter()
        .filter_map(|line| {
            let tokens = line.own_tokens()?;
            Some((tokens.prompt(), tokens.output, line.fate.as_str()))
        })
        .collect()
}

fn prices() -> PriceTable {
    let json = r#"{"currency":"USD","models":{"m":{"input":"1.00","output":"10.00"}}}"#;
    serde_json::from_str(json).unwrap()
}

#[test]
fn what_was_given_up_is_told_apart_and_has_the_prompt_that_another_attempt_counted() {
    let bill = bill(&[
        (AttemptKind::First, cut("rerun", Phase::PreStream, 400)),
        (AttemptKind::Rerun, whole(3_000, 250)),
    ]);
    assert_eq!(
        told(&bill),
        [
            (Some(3_000), 100, "orphan"),
            (Some(3_000), 250, "delivered")
        ]
    );
    let prices = prices();
    let total = |fate| bill.total(fate, Some(&prices)).amount.unwrap().nanos();
    assert_eq!(total(Some(Fate::Orphan)), 3_000_000 + 1_000_000);
    assert_eq!(total(Some(Fate::Delivered)), 3_000_000 + 2_500_000);
    assert_eq!(total(None), 9_500_000);
    let all = bill.total(None, None);
    assert_eq!((all.input, all.output, all.amount), (6_000, 350, None));
    assert_eq!(all.basis, Some(UsageBasis::Estimated));
}

#[test]
fn a_prompt_is_shared_only_by_requests_that_are_the_same() {
    let mut bill = Bill::default();
    bill.add(
        CHAT,
        &began(1, AttemptKind::First),
        &cut("failover", Phase::PreStream, 8),
    );
    let mut other = began(2, AttemptKind::Failover);
    other.model = Some("larger".to_owned());
    bill.add(CHAT, &other, &whole(3_000, 2));
    assert_eq!(
        told(&bill),
        [(None, 2, "orphan"), (Some(3_000), 2, "delivered")]
    );
    let total = bill.total(None, Some(&prices()));
    assert_eq!((total.without_input, total.unknown_models), (1, 1));
}

#[test]
fn a_response_that_was_resumed_is_paid_once() {
    let bill = bill(&[
        (AttemptKind::First, cut("resume", Phase::MidStream, 400)),
        (AttemptKind::Resume, cut("resume", Phase::MidStream, 40)),
        (AttemptKind::Resume, whole(9, 130)),
    ]);
    assert_eq!(told(&bill), [(Some(9), 130, "delivered")]);
    let counted: Vec<_> = bill.lines().iter().map(|line| line.counted_in).collect();
    assert_eq!(counted, [Some(3), Some(3), None]);
}

#[test]
fn a_response_whose_resumes_never_counted_is_the_sum_of_its_parts() {
    let bill = bill(&[
        (AttemptKind::First, cut("resume", Phase::MidStream, 400)),
        (AttemptKind::Resume, cut("interrupt", Phase::MidStream, 40)),
    ]);
    assert_eq!(
        told(&bill),
        [(None, 100, "delivered"), (None, 10, "delivered")]
    );
}

/// What was resumed while it was held back went nowhere when it was given up.
#[test]
fn a_held_response_that_is_run_again_is_orphaned_with_all_its_parts() {
    let bill = bill(&[
        (AttemptKind::First, cut("resume", Phase::PreStream, 400)),
        (AttemptKind::Resume, cut("rerun", Phase::PreStream, 40)),
        (AttemptKind::Rerun, whole(9, 200)),
    ]);
    let fates: Vec<_> = told(&bill).into_iter().map(|line| line.2).collect();
    assert_eq!(fates, ["orphan", "orphan", "delivered"]);
}

#[test]
fn a_continuation_is_paid_beside_what_it_goes_on_with() {
    let bill = bill(&[
        (AttemptKind::First, cut("interrupt", Phase::MidStream, 40)),
        (AttemptKind::Continue, cut("continue", Phase::PreStream, 0)),
        (AttemptKind::Continue, whole(31, 12)),
    ]);
    assert_eq!(
        told(&bill),
        [(None, 10, "delivered"), (Some(31), 12, "delivered")]
    );
}

#[test]
fn the_loser_of_a_race_and_a_refusal_with_a_count_reached_nobody() {
    let lost = AttemptEnded {
        usage: Usage {
            input: Some(31),
            ..Usage::default()
        },
        usage_basis: Some(UsageBasis::LastSeen),
        ..AttemptEnded::new(0, Phase::PreStream, "lost")
    };
    let stopped = AttemptEnded {
        decision: "stop".to_owned(),
        ..lost.clone()
    };
    let bill = bill(&[(AttemptKind::First, lost), (AttemptKind::Hedge, stopped)]);
    assert_eq!(
        told(&bill),
        [(Some(31), 0, "orphan"), (Some(31), 0, "orphan")]
    );
}

#[test]
fn what_may_have_been_billed_without_a_word_is_said() {
    let refused = AttemptEnded {
        failure: Some(noted("rate_limited", Some(429))),
        ..AttemptEnded::new(0, Phase::PreStream, "retry")
    };
    let bill = bill(&[
        (AttemptKind::First, refused),
        (AttemptKind::Retry, cut("retry", Phase::PreSend, 0)),
        (AttemptKind::Retry, cut("retry", Phase::PreStream, 0)),
        (AttemptKind::Retry, whole(9, 2)),
    ]);
    let unknown: Vec<_> = bill
        .lines()
        .iter()
        .map(|line| (line.may_be_billed, line.tokens.is_some()))
        .collect();
    assert_eq!(
        unknown,
        [(false, false), (false, false), (true, false), (false, true)]
    );
}
