//! Where a request goes next: other routes, the budget that must carry it, a
//! second request beside a silent one, another credential.

#![cfg(test)] // else the lints take the helpers for production code

#[path = "support/events.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod events;
#[path = "support/machine.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod machine;

use events::{CREATED, DONE, HEL, ROLE, STOP, delta, message_begin};
use machine::{World, chat};
use std::time::Duration;
use streamkeep::proto::journal::{AttemptKind, Control, RecoveryOption};
use streamkeep::proto::operation::{
    Fact, Hold, Input, Note, Operation, Outcome, Plan, Question, Recovered, Recovery, Refusal,
    Reply, Route,
};
use streamkeep::proto::retry::RetryPolicy;
use streamkeep::proto::timeouts::Timeouts;
use streamkeep::{Dialect, ErrorKind, Request};

const SECOND: Duration = Duration::from_secs(1);

/// A chat request with a second route to another model, and a third that takes
/// more.
fn routed() -> Plan {
    let mut plan = chat();
    let url = "http://127.0.0.1:10/v1/chat/completions";
    let second = Route::like("second", plan.request(), url, Some("m2")).unwrap();
    let large = Route::like("large", plan.request(), url, Some("m-large")).unwrap();
    plan.fallbacks = vec![second.degraded(true), large.larger_context(true)];
    plan
}

fn answer(world: &mut World) {
    world.stream();
    world.chunk(format!("{ROLE}{}{STOP}{DONE}", delta("Hello")));
}

fn refuse(world: &mut World, status: u16, body: &'static str) {
    world.head(status, &[("content-type", "application/json")]);
    world.chunk(body);
    world.end();
}

#[test]
fn a_failing_route_has_its_retries_and_then_the_next_takes_over() {
    let mut world = World::new(routed());
    for _ in 0..3 {
        refuse(&mut world, 503, "{}");
        world.until_next_request();
    }
    assert_eq!(world.attempts(), ["first", "retry", "retry", "failover"]);
    assert_eq!(world.routes, [0, 0, 0, 1]);
    let (_, request) = world.sent.last().unwrap();
    assert!(request.url.starts_with("http://127.0.0.1:10/"));
    assert!(String::from_utf8_lossy(&request.body).contains(r#""model":"m2""#));
    answer(&mut world);
    assert_eq!(world.ended(), "complete");
    let started: Vec<_> = world
        .controls()
        .filter_map(|control| match control {
            Control::AttemptStarted(started) => Some((&*started.route, started.model.as_deref())),
            _ => None,
        })
        .collect();
    assert_eq!(started.last(), Some(&("second", Some("m2"))));
}

#[test]
fn a_silent_route_is_not_asked_twice() {
    let mut world = World::new(routed());
    world.stream();
    world.chunk(ROLE);
    world.pass(SECOND * 61);
    assert_eq!(world.attempts(), ["first", "failover"]);
    answer(&mut world);
    let roles = world
        .delivered()
        .iter()
        .filter(|data| data.contains("role"))
        .count();
    assert_eq!(roles, 1, "the silent route's start is not shown");
}

#[test]
fn a_stream_that_falls_silent_while_it_is_held_goes_elsewhere_at_once() {
    let mut plan = routed();
    plan.hold = Hold::UntilComplete;
    let mut world = World::new(plan);
    world.stream();
    world.chunk(format!("{ROLE}{}", delta("Hel")));
    world.pass(SECOND * 61);
    assert_eq!(world.routes, [0, 1]);
    answer(&mut world);
    assert_eq!(world.text(), "Hello");
}

#[test]
fn refusals_of_content_and_credential_are_never_routed_around() {
    let content = r#"{"error":{"message":"no","type":"invalid_request_error","code":"content_policy_violation"}}"#;
    let key =
        r#"{"error":{"message":"no","type":"invalid_request_error","code":"invalid_api_key"}}"#;
    for (status, body, kind) in [(400, content, "content_policy"), (401, key, "auth")] {
        let mut world = World::new(routed());
        world.auto_reply = None;
        refuse(&mut world, status, body);
        if kind == "auth" {
            let question = world.reply(Reply::No {
                message: "there is no other".to_owned(),
                retry_after: None,
            });
            assert_eq!(question, Question::Refresh { route: 0 });
        }
        assert_eq!(world.failure(), Some(kind));
        assert_eq!(world.sent.len(), 1);
    }
}

#[test]
fn a_context_that_is_too_long_goes_only_to_a_route_that_takes_more() {
    let body = r#"{"error":{"message":"long","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    let mut world = World::new(routed());
    refuse(&mut world, 400, body);
    world.until_next_request();
    assert_eq!(world.routes, [0, 2]);
    refuse(&mut world, 400, body);
    world.pass(SECOND * 60);
    assert_eq!(world.failure(), Some("context_length"));
    assert_eq!(world.sent.len(), 2);
}

#[test]
fn a_500_goes_elsewhere_at_once_where_the_policy_says_so() {
    let body = r#"{"error":{"message":"x","type":"server_error","code":"server_error"}}"#;
    for (retry, expected) in [
        (RetryPolicy::REFERENCE, "failover"),
        (RetryPolicy::INTERACTIVE, "retry"),
    ] {
        let mut plan = routed();
        plan.retry = retry;
        let mut world = World::new(plan);
        refuse(&mut world, 500, body);
        world.until_next_request();
        assert_eq!(world.attempts(), ["first", expected]);
    }
}

#[test]
fn a_wait_that_is_too_long_becomes_failover_or_an_error_that_carries_it() {
    let mut world = World::new(routed());
    world.head(429, &[("retry-after", "3600")]);
    world.end();
    world.until_next_request();
    assert_eq!(world.routes, [0, 1]);

    let mut world = World::new(chat());
    world.head(429, &[("retry-after", "3600")]);
    world.end();
    let Some(Outcome::Ended(ended)) = &world.outcome else {
        panic!("not ended");
    };
    let failure = ended.failure.as_ref().unwrap();
    assert_eq!(failure.retry_after_ms, Some(3_600_000));
}

#[test]
fn an_error_behind_lifecycle_events_still_fails_over_and_they_are_dropped() {
    let mut plan = routed();
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let url = "http://127.0.0.1:9/v1/messages";
    plan.route = Route::new(
        "first",
        Request::new(Dialect::AnthropicMessages, url, body).unwrap(),
    );
    plan.fallbacks.truncate(1);
    let mut world = World::new(plan);
    let start = message_begin("x");
    let start = start.split("event: content_block_start").next().unwrap();
    for _ in 0..3 {
        world.stream();
        world.chunk(start.to_owned());
        world.chunk("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n");
        world.until_next_request();
    }
    assert_eq!(world.routes, [0, 0, 0, 1]);
    answer(&mut world);
    assert_eq!(world.ended(), "complete");
    assert!(
        !world
            .delivered()
            .iter()
            .any(|data| data.contains("message_start"))
    );

    // The journal alone tells whose answer it is: its events are of another
    // dialect than the first route's.
    let recovered = Recovered::fold(&world.records).unwrap();
    assert_eq!(recovered.answer().text(), "Hello");
    assert_eq!(recovered.request().model(), Some("m2"));
}

#[test]
fn without_leave_to_repeat_an_unknown_outcome_is_not_repeated_elsewhere_either() {
    let mut plan = routed();
    plan.retry_unknown = false;
    let mut world = World::new(plan);
    world.fail(ErrorKind::ConnectionClosed, true);
    world.pass(SECOND * 60);
    assert_eq!(world.sent.len(), 1);
    assert_eq!(world.failure(), Some("connection_closed"));
}

#[test]
fn nothing_goes_elsewhere_after_the_commit_point() {
    let mut world = World::new(routed());
    world.stream();
    world.chunk(format!("{ROLE}{}", delta("Hel")));
    world.fail(ErrorKind::Reset, true);
    world.pass(SECOND * 600);
    assert_eq!(world.sent.len(), 1);
    assert_eq!(world.ended(), "interrupted");
}

#[test]
fn the_budget_is_asked_before_the_sleep_and_its_no_fails_at_once() {
    let mut world = World::new(chat());
    world.auto_reply = None;
    refuse(&mut world, 503, "{}");
    assert_eq!(world.asked.len(), 1, "asked before any time passes");
    assert_eq!(world.machine.next_timeout(), None, "it does not sleep yet");
    let question = world.reply(Reply::No {
        message: "the retry budget is spent".to_owned(),
        retry_after: Some(SECOND * 7),
    });
    assert_eq!(
        question,
        Question::Spend {
            kind: AttemptKind::Retry,
            route: 0,
            failure: Some(ErrorKind::Overloaded),
        }
    );
    assert_eq!(world.failure(), Some("budget_exhausted"));
    let Some(Outcome::Ended(ended)) = &world.outcome else {
        panic!("not ended");
    };
    let failure = ended.failure.as_ref().unwrap();
    assert_eq!(failure.retry_after_ms, Some(7_000));
    assert_eq!(failure.status, Some(503), "what led there is told");
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn a_question_without_a_reply_is_bounded_by_the_deadline_and_by_cancel() {
    let mut plan = chat();
    plan.timeouts.overall = Some(SECOND * 5);
    let mut world = World::new(plan);
    world.auto_reply = None;
    refuse(&mut world, 503, "{}");
    world.pass(SECOND * 5);
    assert_eq!(world.failure(), Some("deadline_exceeded"));

    let mut world = World::new(chat());
    world.auto_reply = None;
    refuse(&mut world, 503, "{}");
    world.input(Input::Cancel);
    assert_eq!(world.ended(), "cancelled");
    let late = world.asked[0].0;
    world.input(Input::Replied {
        id: late,
        reply: Reply::Yes,
    });
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn a_refused_credential_is_refreshed_once_and_the_request_sent_again_if_it_changed() {
    let mut world = World::new(chat());
    world.auto_reply = None;
    world.head(401, &[]);
    world.end();
    assert_eq!(world.reply(Reply::Yes), Question::Refresh { route: 0 });
    assert!(matches!(world.reply(Reply::Yes), Question::Spend { .. }));
    world.until_next_request();
    assert_eq!(world.attempts(), ["first", "retry"]);
    world.head(401, &[]);
    world.end();
    assert!(world.asked.is_empty(), "once is enough");
    assert_eq!(world.failure(), Some("auth"));
}

#[test]
fn a_request_that_is_not_let_through_goes_elsewhere_or_says_until_when() {
    let refusal = || {
        Fact::Refused(Refusal {
            kind: ErrorKind::CircuitOpen,
            message: "the circuit is open".to_owned(),
            retry_after: Some(SECOND * 30),
        })
    };
    let mut world = World::new(routed());
    world.fact(refusal());
    world.until_next_request();
    assert_eq!(world.routes, [0, 1]);

    let mut world = World::new(chat());
    world.fact(refusal());
    assert_eq!(world.failure(), Some("circuit_open"));
    let Some(Outcome::Ended(ended)) = &world.outcome else {
        panic!("not ended");
    };
    assert_eq!(ended.failure.as_ref().unwrap().retry_after_ms, Some(30_000));
}

#[test]
fn no_clock_of_the_upstream_runs_while_a_request_waits_for_its_turn() {
    let mut world = World::new(chat());
    world.fact(Fact::Queued);
    world.pass(SECOND * 300);
    assert_eq!(world.attempts(), ["first"]);
    world.fact(Fact::Admitted);
    world.pass(SECOND * 59);
    assert!(world.outcome.is_none());
    world.pass(SECOND * 2);
    assert_eq!(world.failure(), Some("first_token_timeout"));
}

/// A chat request that is hedged after two seconds.
fn hedged() -> World {
    let mut plan = chat();
    plan.hedge_after = Some(SECOND * 2);
    let mut world = World::new(plan);
    world.stream();
    world.chunk(ROLE);
    world.pass(SECOND * 3);
    assert_eq!(world.attempts(), ["first", "hedge"]);
    world
}

fn to(world: &mut World, attempt: u32, fact: Fact) {
    world.input(Input::Upstream { attempt, fact });
}

fn head() -> Fact {
    Fact::Head(streamkeep::proto::model::ResponseHead {
        status: 200,
        headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
    })
}

fn decisions(world: &World) -> Vec<(u32, &str)> {
    world
        .controls()
        .filter_map(|control| match control {
            Control::AttemptEnded(ended) => Some((ended.attempt, &*ended.decision)),
            _ => None,
        })
        .collect()
}

#[test]
fn the_first_output_wins_the_race_and_the_loser_is_closed_and_counted() {
    for winner in [1_u32, 2] {
        let mut world = hedged();
        to(&mut world, 2, head());
        to(&mut world, 2, Fact::Chunk(ROLE.into()));
        to(&mut world, winner, Fact::Chunk(delta("Hello").into()));
        assert_eq!(decisions(&world), [(3 - winner, "lost")]);
        assert_eq!(world.open, Some(winner), "one exchange is left");
        // What the loser still says is late.
        to(&mut world, 3 - winner, Fact::Chunk(delta("Hello").into()));
        to(
            &mut world,
            winner,
            Fact::Chunk(format!("{STOP}{DONE}").into()),
        );
        assert_eq!(world.ended(), "complete");
        assert_eq!(world.text(), "Hello");
        let roles = world
            .delivered()
            .iter()
            .filter(|data| data.contains("role"))
            .count();
        assert_eq!(roles, 1);
        let keys: Vec<_> = world
            .sent
            .iter()
            .map(|(_, request)| {
                &request
                    .headers
                    .iter()
                    .find(|(n, _)| n == "idempotency-key")
                    .unwrap()
                    .1
            })
            .collect();
        assert_ne!(keys[0], keys[1], "whoever looks at keys sees two requests");
        assert!(matches!(world.notes[0], Note::FirstOutput { attempt, .. } if attempt == winner));
    }
}

#[test]
fn one_of_two_that_fails_leaves_the_other_and_only_the_last_failure_counts() {
    for first_to_fail in [1_u32, 2] {
        let mut world = hedged();
        to(&mut world, 2, head());
        let broken = || {
            Fact::Failed(streamkeep::proto::model::TransportFailure {
                kind: ErrorKind::Reset,
                sent: true,
                message: "scripted".to_owned(),
            })
        };
        to(&mut world, first_to_fail, broken());
        assert!(world.outcome.is_none());
        assert_eq!(world.sent.len(), 2, "no retry while the other runs");
        to(&mut world, 3 - first_to_fail, broken());
        world.until_next_request();
        assert_eq!(world.attempts(), ["first", "hedge", "retry"]);
        answer(&mut world);
        assert_eq!(world.ended(), "complete");
    }
}

#[test]
fn a_hedge_needs_leave_and_a_silent_first_and_a_request_that_may_be_repeated() {
    // The budget says no.
    let mut plan = chat();
    plan.hedge_after = Some(SECOND * 2);
    let mut world = World::new(plan.clone());
    world.auto_reply = None;
    world.pass(SECOND * 3);
    let question = world.reply(Reply::No {
        message: "no".to_owned(),
        retry_after: None,
    });
    assert!(matches!(
        question,
        Question::Spend {
            kind: AttemptKind::Hedge,
            failure: None,
            ..
        }
    ));
    world.pass(SECOND * 30);
    assert_eq!(world.attempts(), ["first"]);

    // Output came in time.
    let mut world = World::new(plan.clone());
    world.stream();
    world.chunk(delta("x"));
    world.pass(SECOND * 10);
    assert_eq!(world.attempts(), ["first"]);

    // It may not be repeated.
    plan.retry_unknown = false;
    let mut world = World::new(plan);
    world.pass(SECOND * 10);
    assert_eq!(world.attempts(), ["first"]);

    // The provider would run both to their end.
    let mut plan = machine::background();
    plan.hedge_after = Some(SECOND * 2);
    let mut world = World::new(plan);
    world.pass(SECOND * 10);
    assert_eq!(world.attempts(), ["first"]);
}

#[test]
fn both_are_closed_by_cancel_by_the_deadline_and_by_a_store_that_failed() {
    let mut world = hedged();
    world.input(Input::Cancel);
    assert_eq!(world.ended(), "cancelled");
    assert_eq!((world.open, world.rival), (None, None));
    assert_eq!(decisions(&world).len(), 2, "each is told of");

    let mut world = hedged();
    world.auto_ack = false;
    to(&mut world, 1, Fact::Chunk(delta("x").into()));
    world.input(Input::AppendFailed {
        kind: ErrorKind::StoreFull,
        message: "full".to_owned(),
    });
    assert_eq!((world.open, world.rival), (None, None));

    let mut plan = chat();
    plan.hedge_after = Some(SECOND * 2);
    plan.timeouts = Timeouts {
        overall: Some(SECOND * 5),
        ..Timeouts::CHAT
    };
    let mut world = World::new(plan);
    world.pass(SECOND * 6);
    assert_eq!(world.failure(), Some("deadline_exceeded"));
    assert_eq!((world.open, world.rival), (None, None));
}

#[test]
fn a_recovered_answer_goes_on_with_the_provider_whose_it_is() {
    let mut plan = chat();
    let body = r#"{"model":"m","input":"hi","background":true,"stream":true}"#;
    let url = "http://127.0.0.1:11/v1/responses";
    let request = Request::new(Dialect::OpenAiResponses, url, body).unwrap();
    plan.fallbacks = vec![Route::new("background", request)];
    plan.retry = RetryPolicy::NEVER;
    let mut world = World::new(plan);
    world.head(503, &[]);
    world.end();
    world.until_next_request();
    world.stream();
    world.chunk(format!("{CREATED}{HEL}"));
    let recovered = Recovered::fold(&world.records).unwrap();
    assert!(recovered.options().contains(&RecoveryOption::Resume));
    let head = recovered.head();
    // A later caller has other routes, or none.
    let again = World::with(
        |now| Operation::recover(chat(), recovered, Recovery::Resume, now, 1).unwrap(),
        head,
    );
    let (_, request) = again.sent.last().unwrap();
    assert!(
        request
            .url
            .starts_with("http://127.0.0.1:11/v1/responses/resp_1"),
        "{}",
        request.url
    );
    assert_eq!(again.routes, [1]);
}
