//! What must hold of the operation machine for any order of inputs.
//!
//! The harness checks every order as it comes: no request before its record is
//! acknowledged, one append in flight, dense numbers, no announcement ahead of
//! the store, no replay of the original request after output was committed,
//! nothing after `Finish`. These tests throw everything at it.

#![cfg(test)] // else the lints take the helpers for production code

#[path = "support/events.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod events;
#[path = "support/machine.rs"]
#[expect(dead_code, reason = "the stories use the rest of the harness")]
mod machine;

use events::{DONE, ROLE, STOP, delta};
use machine::{World, background, chat, messages};
use proptest::prelude::*;
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::model::{ResponseHead, TransportFailure};
use streamkeep::proto::operation::{Fact, Hold, Input, Plan, Recovered, Refusal, Reply, Route};
use streamkeep::proto::timeouts::Timeouts;

#[derive(Clone, Debug)]
enum Act {
    Head(u16, Option<&'static str>, Option<&'static str>),
    Chunk(Vec<u8>),
    End,
    Failed(ErrorKind, bool),
    Late(u32),
    Queued,
    Admitted,
    NotLetThrough(ErrorKind),
    /// The next fact is about the other of two exchanges.
    Other,
    Reply(bool),
    Ack,
    AckWrong(u64),
    StoreFails,
    Cancel,
    Pass(u64),
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let error = "data: {\"error\":{\"message\":\"x\",\"type\":\"overloaded_error\"}}\n\n";
    let created = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",\"output\":[]}}\n\n";
    let text = |n: u64| {
        format!(
            "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"sequence_number\":{n},\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"x\"}}\n\n"
        )
    };
    let completed = "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":9,\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",\"output\":[]}}\n\n";
    let message = [
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"y\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    ];
    let whole: Vec<String> = vec![
        ROLE.into(),
        delta("abc"),
        STOP.into(),
        DONE.into(),
        error.into(),
        created.into(),
        text(1),
        text(2),
        text(5),
        completed.into(),
        ": keep-alive\n\n".into(),
        "data: {broken\n\n".into(),
        "{\"error\":{\"message\":\"bare\"}}".into(),
        "{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"queued\",\"output\":[]}".into(),
        "{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"id\":\"i\",\"content\":[{\"type\":\"output_text\",\"text\":\"xxx\"}]}]}".into(),
    ];
    let whole: Vec<String> = whole.into_iter().chain(message.map(String::from)).collect();
    prop_oneof![
        8 => (proptest::sample::select(whole), any::<proptest::sample::Index>(), prop::bool::weighted(0.2)).prop_map(|(text, at, cut)| {
            let text_len = text.len();
            let bytes = text.into_bytes();
            if cut { bytes.into_iter().take(at.index(text_len + 1)).collect() } else { bytes }
        }),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let statuses = vec![
        200_u16, 200, 200, 200, 204, 301, 400, 401, 404, 410, 429, 500, 502, 503, 529,
    ];
    let types = vec![
        Some("text/event-stream"),
        Some("text/event-stream"),
        Some("application/json"),
        Some("text/html"),
        None,
    ];
    let waits = vec![None, None, Some("0"), Some("1"), Some("99999"), Some("-3")];
    let kinds = vec![
        ErrorKind::Reset,
        ErrorKind::BodyFraming,
        ErrorKind::ConnectionClosed,
        ErrorKind::Connect,
        ErrorKind::Dns,
        ErrorKind::Decode,
        ErrorKind::Config,
    ];
    prop_oneof![
        6 => (proptest::sample::select(statuses), proptest::sample::select(types), proptest::sample::select(waits))
            .prop_map(|(status, kind, wait)| Act::Head(status, kind, wait)),
        14 => piece().prop_map(Act::Chunk),
        4 => Just(Act::End),
        3 => (proptest::sample::select(kinds), any::<bool>()).prop_map(|(kind, sent)| Act::Failed(kind, sent)),
        1 => (0_u32..6).prop_map(Act::Late),
        1 => prop_oneof![Just(Act::Queued), Just(Act::Admitted)],
        1 => proptest::sample::select(vec![ErrorKind::CircuitOpen, ErrorKind::Saturated])
            .prop_map(Act::NotLetThrough),
        3 => Just(Act::Other),
        6 => prop::bool::weighted(0.7).prop_map(Act::Reply),
        10 => Just(Act::Ack),
        1 => (0_u64..30).prop_map(Act::AckWrong),
        1 => prop::bool::weighted(0.1).prop_map(|fails| if fails { Act::StoreFails } else { Act::Ack }),
        1 => prop::bool::weighted(0.2).prop_map(|cancel| if cancel { Act::Cancel } else { Act::End }),
        6 => prop_oneof![0_u64..100, 0_u64..5_000, 0_u64..200_000].prop_map(Act::Pass),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let holds = vec![
        Hold::None,
        Hold::UntilComplete,
        Hold::Until {
            tokens: 2,
            time: Duration::from_millis(500),
        },
    ];
    (
        0_usize..4,
        proptest::sample::select(holds),
        prop::option::of(1_u64..60_000),
        any::<bool>(),
        prop::collection::vec((0_usize..4, any::<bool>()), 0..3),
        prop::option::of(1_u64..10_000),
    )
        .prop_map(|(dialect, hold, overall, keyed, fallbacks, hedge)| {
            let of = |dialect| match dialect {
                0 => chat(),
                1 => background(),
                2 => messages("claude-sonnet-4-5"),
                _ => messages("claude-opus-4-6"),
            };
            let mut plan = of(dialect);
            plan.fallbacks = fallbacks
                .into_iter()
                .zip(["second", "third"])
                .map(|((dialect, larger), name)| {
                    Route::new(name, of(dialect).request().clone()).larger_context(larger)
                })
                .collect();
            plan.hedge_after = hedge.map(Duration::from_millis);
            plan.hold = hold;
            plan.retry_unknown = keyed;
            plan.limits.max_answer_bytes = 4_000;
            plan.limits.max_event_bytes = 2_000;
            plan.timeouts = Timeouts {
                overall: overall.map(Duration::from_millis),
                ..Timeouts::CHAT
            };
            plan
        })
}

fn no() -> Reply {
    Reply::No {
        message: "x".into(),
        retry_after: Some(Duration::from_secs(5)),
    }
}

fn apply(world: &mut World, act: Act) {
    match act {
        // A transport sends nothing about an exchange that is not open.
        Act::Head(..)
        | Act::Chunk(_)
        | Act::End
        | Act::Failed(..)
        | Act::Queued
        | Act::Admitted
        | Act::NotLetThrough(_)
            if world.open.is_none() => {}
        Act::Queued => world.fact(Fact::Queued),
        Act::Admitted => world.fact(Fact::Admitted),
        Act::NotLetThrough(kind) => world.fact(Fact::Refused(Refusal {
            kind,
            message: "x".into(),
            retry_after: Some(Duration::from_secs(3)),
        })),
        Act::Other => {
            if world.rival.is_some() {
                std::mem::swap(&mut world.open, &mut world.rival);
            }
        }
        Act::Reply(yes) => {
            if !world.asked.is_empty() {
                world.reply(if yes { Reply::Yes } else { no() });
            }
        }
        Act::Head(status, kind, wait) => {
            let mut headers = Vec::new();
            headers.extend(kind.map(|v| ("content-type".to_owned(), v.to_owned())));
            headers.extend(wait.map(|v| ("retry-after".to_owned(), v.to_owned())));
            world.fact(Fact::Head(ResponseHead { status, headers }));
        }
        Act::Chunk(bytes) => world.fact(Fact::Chunk(bytes.into())),
        Act::End => world.fact(Fact::EndOfBody),
        Act::Failed(kind, sent) => {
            world.fact(Fact::Failed(TransportFailure {
                kind,
                sent,
                message: "x".into(),
            }));
        }
        Act::Late(attempt) => {
            if world.open != Some(attempt) && world.rival != Some(attempt) {
                world.input(Input::Upstream {
                    attempt,
                    fact: Fact::EndOfBody,
                });
            }
        }
        Act::Ack => world.ack(),
        Act::AckWrong(seq) => {
            let seq = streamkeep::proto::model::Seq::new(seq);
            if world.in_flight != Some(seq) {
                world.input(Input::Appended(seq));
            }
        }
        Act::StoreFails => {
            if world.in_flight.take().is_some() {
                world.input(Input::AppendFailed {
                    kind: ErrorKind::StoreUnavailable,
                    message: "x".into(),
                });
            }
        }
        Act::Cancel => world.input(Input::Cancel),
        Act::Pass(millis) => world.pass(Duration::from_millis(millis)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn any_order_of_inputs_keeps_the_invariants_and_comes_to_an_end(
        plan in plan(),
        acts in prop::collection::vec(act(), 0..60),
        slow_store in any::<bool>(),
        slow_replies in any::<bool>(),
    ) {
        let mut world = World::new(plan);
        world.auto_ack = !slow_store;
        world.auto_reply = (!slow_replies).then_some(Reply::Yes);
        for act in acts {
            apply(&mut world, act);
        }
        // From here on the world only answers what it is asked: every wait of
        // the machine is bounded, so it must come to its end.
        world.auto_ack = true;
        for _ in 0..2_000 {
            if world.outcome.is_some() {
                break;
            }
            world.ack();
            if !world.asked.is_empty() {
                world.reply(no());
            }
            // The turn of every request comes, or does not.
            if world.open.is_some() {
                world.fact(Fact::Admitted);
            }
            world.pass(Duration::from_secs(60));
        }
        prop_assert!(world.outcome.is_some(), "no end: {:?}", world.machine);
        prop_assert!(world.open.is_none(), "the upstream was left open");
        prop_assert!(world.rival.is_none(), "the hedge was left open");
    }

    #[test]
    fn whatever_was_recorded_folds_and_agrees_with_the_machine(
        plan in plan(),
        acts in prop::collection::vec(act(), 0..60),
    ) {
        let mut world = World::new(plan);
        for act in acts {
            apply(&mut world, act);
        }
        let recovered = Recovered::fold(&world.records).expect("a journal of ours folds");
        prop_assert_eq!(recovered.head(), world.appended);
        prop_assert_eq!(recovered.is_committed(), !world.delivered().is_empty());
        if world.machine.is_committed() && !world.delivered().is_empty() {
            prop_assert_eq!(recovered.answer().text(), world.text());
        }
        prop_assert_eq!(recovered.outcome(), world.outcome);
    }
}
