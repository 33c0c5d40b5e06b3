//! The failure cases, played over sockets against the whole client.
//!
//! Each is a script of bytes that a provider was seen to send, and what has to
//! come of it. All failures of a run are told together.
#![cfg(all(feature = "reqwest", feature = "testkit"))]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too, and they compare values as they come"
)]

#[path = "cases/actions.rs"]
mod actions;
#[path = "cases/check.rs"]
mod check;
#[path = "support/cases.rs"]
mod fixtures;
#[path = "cases/left_out.rs"]
mod left_out;
#[path = "cases/play.rs"]
mod play;
#[path = "cases/view.rs"]
mod view;
#[path = "cases/watched.rs"]
mod watched;
#[path = "cases/words.rs"]
mod words;

use actions::PLAYED;
use fixtures::{Case, Protocol, Step};
use left_out::LEFT_OUT;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Cases that are played at the same time: many, since most of their time is
/// pauses of their scripts, and few enough that none starves.
const AT_ONCE: usize = 24;

/// A case that takes longer than this hangs. The longest script takes 15 s.
const HANGS: Duration = Duration::from_secs(60);

#[test]
fn every_case_that_others_met_ends_as_it_should() {
    let cases = fixtures::all();
    let cases = cases
        .iter()
        .filter(|case| !is_left_out(case))
        .flat_map(Case::expanded)
        .flat_map(|case| in_every_dialect(&case))
        .collect();
    play_all(cases);
}

#[test]
fn every_case_of_our_own_ends_as_it_should() {
    play_all(fixtures::all_in("failures-own"));
}

#[test]
fn every_case_is_played_or_left_out_for_a_reason() {
    let cases = fixtures::all();
    let mut left_out: BTreeSet<&str> = LEFT_OUT.iter().map(|(id, _)| *id).collect();
    assert_eq!(left_out.len(), LEFT_OUT.len(), "one reason a case");
    for case in &cases {
        let left_out = left_out.remove(case.id.as_str());
        let acts = PLAYED.contains(&case.id.as_str());
        let id = &case.id;
        assert!(!(left_out && acts), "{id} is played, and left out");
        assert!(
            left_out || words::dialect_of(case.protocol).is_some(),
            "{id} is of a dialect that is not played here, and not left out"
        );
        assert!(
            left_out || acts || case.actions.is_empty(),
            "{id} has actions that nobody plays, and is not left out"
        );
        let unread = check::unread(case);
        assert!(
            left_out || acts || unread.is_empty(),
            "{id} expects {unread:?}, which is not looked at"
        );
    }
    assert_eq!(
        left_out,
        BTreeSet::new(),
        "left out, but there is no such case"
    );
    for case in fixtures::all_in("failures-own") {
        assert_eq!(check::unread(&case), [""; 0], "{}", case.id);
        assert_eq!(case.actions, [""; 0], "{}", case.id);
    }
}

/// What is compared is really compared: each of these would pass if the field
/// were not looked at.
#[test]
fn a_case_that_expects_something_else_is_noticed() {
    let checked = |id: &str, part: &str, others: Value| {
        let played = runtime().block_on(play::play(&fixtures::one(id), &format!("{id}-changed")));
        for (field, other) in others.as_object().unwrap() {
            let mut changed = fixtures::json(id);
            changed[part][field] = other.clone();
            let found = check::check(&serde_json::from_value(changed).unwrap(), &played);
            let noticed = found.iter().any(|line| {
                [":", "."]
                    .iter()
                    .any(|mark| line.contains(&format!("{field}{mark}")))
            });
            assert!(noticed, "{id}: {part}.{field} = {other}: {found:?}");
        }
    };
    watched::listen();
    checked(
        "RP-03",
        "expect",
        json!({
            "class": "ok", "phase": "body_before_content", "text": "x", "terminal": true,
            "complete": true, "finish": "stop", "error_type": "overloaded", "retry": "none",
            "http_status": 503, "http_equiv": 503, "retry_after_ms": 501,
            "message_contains": "nothing of the kind", "errors_emitted": 1,
            "same_key_on_retry": false, "usage": {"input_tokens": 1},
        }),
    );
    checked(
        "RP-03",
        "expect_final",
        json!({
            "class": "mid_stream", "phase": "headers", "text": "Hell", "finish": "length",
            "error_type": "truncated", "retry": "continue_only", "connections": 1,
            "connections_max": 1, "requests": 3, "delay_min_ms": 600, "delay_max_ms": 400,
            "total_min_ms": 60_000, "start_events": 2, "response_id": "x", "noise_events": 1,
            "request2_line": "GET /", "request2_contains": "x y z", "request2_last_role": "tool",
        }),
    );
    checked(
        "TL-01",
        "expect",
        json!({
            "tool_calls": [], "choices": {"1": "x"}, "reasoning": "x",
            "text": "x", "within_ms": 1,
            "structured": {"ok": true},
        }),
    );
}

fn is_left_out(case: &Case) -> bool {
    LEFT_OUT.iter().any(|(id, _)| *id == case.id)
}

/// RP-09 asks for the same result in every dialect: a hint was once lost in one
/// of them only.
fn in_every_dialect(case: &Case) -> Vec<Case> {
    if case.id != "RP-09" {
        return vec![case.clone()];
    }
    let spoken = |protocol, events: &str| Case {
        protocol,
        next_scripts: vec![vec![Step::text(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{events}"
        ))]],
        ..case.clone()
    };
    let responses = concat!(
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,",
        "\"content_index\":0,\"delta\":\"Hello\"}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
    );
    let anthropic = concat!(
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,",
        "\"content_block\":{\"type\":\"text\",\"text\":\"Hello\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",",
        "\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    vec![
        case.clone(),
        spoken(Protocol::OpenaiResponses, responses),
        spoken(Protocol::Anthropic, anthropic),
    ]
}

/// Plays the cases, many at once, and fails with all that went wrong. Those with
/// clocks are played among themselves: the others keep the processor busy.
fn play_all(cases: Vec<Case>) {
    watched::listen();
    let count = cases.len();
    let (clocked, others) = cases
        .into_iter()
        .enumerate()
        .partition::<Vec<_>, _>(|(_, case)| play::stretch(case) > 1);
    let runtime = runtime();
    let mut wrong = runtime.block_on(at_once(clocked));
    wrong.extend(runtime.block_on(at_once(others)));
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} of {count} cases went wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

async fn at_once(cases: Vec<(usize, Case)>) -> Vec<String> {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for (number, case) in cases {
        let permits = Arc::clone(&permits);
        tasks.spawn(async move {
            let _permit = permits.acquire_owned().await.unwrap();
            one(case, number).await
        });
    }
    let mut wrong = Vec::new();
    while let Some(done) = tasks.join_next().await {
        wrong.extend(done.unwrap());
    }
    wrong
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Plays one case; what went wrong with it, if anything did. A panic in it is one
/// of the things that can.
async fn one(case: Case, number: usize) -> Option<String> {
    let name = format!("{} ({}, {:?})", case.id, case.title, case.protocol);
    let played = tokio::spawn(async move {
        if PLAYED.contains(&case.id.as_str()) && case.id != "ID-03" {
            actions::act(&case).await
        } else {
            let played = play::play(&case, &format!("{}-{number}", case.id)).await;
            check::check(&case, &played)
        }
    });
    let wrong = match tokio::time::timeout(HANGS, played).await {
        Ok(Ok(wrong)) => wrong,
        Ok(Err(panicked)) => vec![format!("it panicked: {panicked}")],
        Err(_) => vec!["it hangs".to_owned()],
    };
    (!wrong.is_empty()).then(|| format!("{name}\n    {}", wrong.join("\n    ")))
}
