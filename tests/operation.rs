//! The operation machine: one story per test, with invented time.

#![cfg(test)] // else the lints take the helpers for production code

#[path = "operation/counting.rs"]
mod counting;
#[path = "support/events.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod events;
#[path = "support/machine.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod machine;
#[path = "operation/recovering.rs"]
mod recovering;

use events::{DONE, ROLE, STOP, delta};
use machine::{World, chat, messages};
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::journal::RecoveryOption;
use streamkeep::proto::operation::{Hold, Input, Outcome, Reply};
use streamkeep::proto::retry::RetryPolicy;
use streamkeep::proto::timeouts::Timeouts;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_answer_that_comes_whole_is_complete_and_every_event_is_delivered_once() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(ROLE);
    world.chunk(format!("{}{}", delta("Hello"), delta(" world")));
    world.chunk(STOP);
    assert!(
        world.outcome.is_none(),
        "usage and the end marker may follow"
    );
    world.chunk(DONE);
    assert_eq!(world.ended(), "complete");
    assert_eq!(world.text(), "Hello world");
    assert_eq!(world.delivered().len(), 5);
    assert_eq!(world.attempts(), ["first"]);
}

#[test]
fn no_request_leaves_before_its_record_is_acknowledged() {
    let mut world = World::new(chat());
    world.auto_ack = false;
    world.head(503, &[]);
    world.end();
    world.pass(SECOND * 30);
    assert_eq!(world.sent.len(), 1, "the retry waits for its record");
    assert!(world.in_flight.is_some());
    world.ack();
    assert_eq!(
        world.sent.len(),
        1,
        "the record of the retry itself is still out"
    );
    world.ack();
    assert_eq!(world.sent.len(), 2);
}

#[test]
fn a_failure_before_output_sends_the_whole_request_again_and_drops_the_preamble() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(ROLE);
    world.chunk("data: {\"error\":{\"message\":\"overloaded\",\"type\":\"overloaded_error\"}}\n\n");
    let waited = world.until_next_request();
    assert!(waited <= SECOND * 2, "{waited:?}");
    world.stream();
    world.chunk(ROLE.replace("c1", "c2"));
    world.chunk(delta("Hi"));
    world.chunk(STOP);
    world.chunk(DONE);
    assert_eq!(world.ended(), "complete");
    assert_eq!(world.attempts(), ["first", "retry"]);
    assert!(
        world.delivered()[0].contains("c2"),
        "one start, of the attempt that answered"
    );
    assert_eq!(world.delivered().len(), 4);
}

#[test]
fn a_failure_after_output_is_an_interruption_and_never_a_second_request() {
    for kind in [
        ErrorKind::Reset,
        ErrorKind::BodyFraming,
        ErrorKind::ConnectionClosed,
        ErrorKind::Decode,
    ] {
        let mut world = World::new(chat());
        world.stream();
        world.chunk(delta("The quick "));
        world.chunk(delta("brown "));
        world.fail(kind, true);
        world.pass(SECOND * 600);
        assert_eq!(world.ended(), "interrupted");
        assert_eq!(world.failure(), Some(kind.code()));
        assert_eq!(world.sent.len(), 1);
        assert_eq!(world.text(), "The quick brown ");
    }
}

#[test]
fn a_clean_end_without_proof_is_a_truncation() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("Hello wor"));
    world.end();
    assert_eq!(world.ended(), "interrupted");
    assert_eq!(world.failure(), Some("truncated"));
    let Some(Outcome::Interrupted(interrupted)) = &world.outcome else {
        panic!()
    };
    assert_eq!(
        interrupted.options.last(),
        Some(&RecoveryOption::Regenerate)
    );
}

#[test]
fn an_end_marker_alone_is_only_a_claim() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("Done"));
    world.chunk(DONE);
    assert_eq!(world.ended(), "claimed");
    let Some(Outcome::Ended(ended)) = &world.outcome else {
        panic!()
    };
    assert_eq!(ended.warnings, ["missing_stop_reason"]);
}

#[test]
fn a_claim_is_not_enough_for_a_tool_call_that_is_not_whole() {
    let call = |arguments: &str| {
        let arguments = serde_json::to_string(arguments).unwrap();
        format!(
            "data: {{\"id\":\"c1\",\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"t\",\"type\":\"function\",\"function\":{{\"name\":\"f\",\"arguments\":{arguments}}}}}]}},\"finish_reason\":null}}]}}\n\n"
        )
    };
    for (arguments, ended) in [("{\"a\":1}", "claimed"), ("{\"a\":[1,2", "interrupted")] {
        let mut world = World::new(chat());
        world.stream();
        world.chunk(call(arguments));
        world.chunk(DONE);
        assert_eq!(world.ended(), ended, "{arguments}");
    }
}

#[test]
fn a_stop_reason_without_an_end_marker_completes_after_the_grace() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("Hi"));
    world.chunk(STOP);
    world.pass(SECOND);
    assert!(world.outcome.is_none());
    world.pass(SECOND * 2);
    assert_eq!(world.ended(), "complete");
    assert!(world.open.is_none(), "the upstream is closed");
}

#[test]
fn what_breaks_after_the_proof_harms_nothing() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("Hi"));
    world.chunk(STOP);
    world.fail(ErrorKind::Reset, true);
    assert_eq!(world.ended(), "complete");
}

#[test]
fn a_held_answer_is_rerun_whole_and_the_reader_sees_one() {
    let mut plan = chat();
    plan.hold = Hold::UntilComplete;
    let mut world = World::new(plan);
    world.stream();
    world.chunk(delta("Half of "));
    assert!(world.delivered().is_empty());
    world.end();
    world.until_next_request();
    world.stream();
    world.chunk(delta("Whole"));
    world.chunk(STOP);
    world.chunk(DONE);
    assert_eq!(world.ended(), "complete");
    assert_eq!(world.attempts(), ["first", "rerun"]);
    assert_eq!(world.text(), "Whole");
    assert_eq!(world.delivered().len(), 3);
}

#[test]
fn a_held_answer_that_cannot_be_had_keeps_what_was_paid_for() {
    let mut plan = chat();
    plan.hold = Hold::UntilComplete;
    plan.retry = RetryPolicy::NEVER;
    let mut world = World::new(plan);
    world.stream();
    world.chunk(delta("Half of "));
    world.end();
    assert_eq!(world.ended(), "interrupted");
    assert_eq!(world.text(), "Half of ");
    assert_eq!(world.delivered().len(), 1);
}

#[test]
fn a_hold_ends_by_tokens_or_by_time() {
    let hold = Hold::Until {
        tokens: 3,
        time: SECOND,
    };
    let mut plan = chat();
    plan.hold = hold;
    let mut by_tokens = World::new(plan.clone());
    by_tokens.stream();
    by_tokens.chunk(delta("12345678901"));
    assert!(by_tokens.delivered().is_empty());
    by_tokens.chunk(delta("2"));
    assert_eq!(by_tokens.delivered().len(), 2);

    let mut by_time = World::new(plan);
    by_time.stream();
    by_time.chunk(delta("a"));
    by_time.pass(SECOND / 2);
    assert!(by_time.delivered().is_empty());
    by_time.pass(SECOND);
    assert_eq!(by_time.delivered().len(), 1);
}

#[test]
fn pings_do_not_stop_the_first_token_clock_but_output_does() {
    let mut plan = messages("claude-opus-4-6");
    plan.retry = RetryPolicy::NEVER;
    plan.timeouts = Timeouts {
        first_token: Some(SECOND),
        idle: Some(SECOND / 2),
        ..Timeouts::CHAT
    };
    let mut world = World::new(plan);
    world.stream();
    for _ in 0..9 {
        world.chunk("event: ping\ndata: {\"type\":\"ping\"}\n\n");
        world.pass(SECOND / 10);
    }
    assert!(world.outcome.is_none());
    world.pass(SECOND / 10);
    assert_eq!(world.ended(), "failed");
    assert_eq!(world.failure(), Some("first_token_timeout"));
}

#[test]
fn the_idle_clock_runs_from_the_first_output_and_any_byte_rearms_it() {
    let mut plan = chat();
    plan.timeouts = Timeouts {
        first_token: Some(SECOND * 10),
        idle: Some(SECOND),
        progress: Some(SECOND * 3),
        ..Timeouts::CHAT
    };
    let mut world = World::new(plan);
    world.stream();
    world.chunk(ROLE);
    world.pass(SECOND * 5);
    assert!(
        world.outcome.is_none(),
        "before the first output only the first-token clock runs"
    );
    world.chunk(delta("a"));
    for _ in 0..5 {
        world.pass(SECOND / 2);
        world.chunk(": keep-alive\n\n");
    }
    assert!(world.outcome.is_none(), "comments are bytes");
    world.pass(SECOND);
    assert_eq!(
        world.failure(),
        Some("progress_timeout"),
        "but they are not progress"
    );
}

#[test]
fn silence_after_output_is_an_idle_timeout() {
    let mut plan = chat();
    plan.timeouts = Timeouts {
        idle: Some(SECOND),
        ..Timeouts::CHAT
    };
    let mut world = World::new(plan);
    world.stream();
    world.chunk(delta("a"));
    world.pass(SECOND);
    assert_eq!(world.failure(), Some("idle_timeout"));
    assert!(world.open.is_none());
}

#[test]
fn the_deadline_is_checked_before_each_sleep_and_ends_everything() {
    let mut plan = chat();
    plan.timeouts.overall = Some(SECOND * 2);
    let mut world = World::new(plan.clone());
    world.head(429, &[("retry-after", "5")]);
    world.end();
    assert_eq!(
        world.ended(),
        "failed",
        "no sleep that the deadline cannot carry"
    );
    assert_eq!(world.failure(), Some("rate_limited"));
    assert_eq!(world.sent.len(), 1);

    let mut world = World::new(plan);
    world.stream();
    world.chunk(delta("a"));
    world.pass(SECOND * 2);
    assert_eq!(world.ended(), "interrupted");
    assert_eq!(world.failure(), Some("deadline_exceeded"));
}

#[test]
fn retry_after_is_obeyed_and_never_shortened() {
    let mut world = World::new(chat());
    world.head(429, &[("retry-after", "3")]);
    world.end();
    let waited = world.until_next_request();
    assert!(
        (SECOND * 3..SECOND * 3 + SECOND / 100).contains(&waited),
        "{waited:?}"
    );

    let mut world = World::new(chat());
    world.head(429, &[("retry-after", "3600")]);
    world.end();
    assert_eq!(world.ended(), "failed");
    let Some(Outcome::Ended(ended)) = &world.outcome else {
        panic!()
    };
    assert_eq!(
        ended.failure.as_ref().unwrap().retry_after_ms,
        Some(3_600_000)
    );
}

#[test]
fn retry_after_zero_for_ever_is_no_hot_loop() {
    let mut world = World::new(chat());
    for _ in 0..10 {
        if world.outcome.is_some() {
            break;
        }
        world.head(429, &[("retry-after", "0")]);
        world.end();
        let waited = world.until_next_request();
        assert!(world.outcome.is_some() || waited >= Duration::from_millis(10));
    }
    assert_eq!(world.sent.len(), 3);
    assert_eq!(world.ended(), "failed");
}

#[test]
fn a_final_refusal_is_asked_exactly_once() {
    for (status, body, code) in [
        (
            400,
            r#"{"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            "context_length",
        ),
        (
            400,
            r#"{"error":{"message":"x","code":"content_policy_violation"}}"#,
            "content_policy",
        ),
        (
            401,
            r#"{"error":{"message":"x","code":"invalid_api_key"}}"#,
            "auth",
        ),
        (
            429,
            r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            "quota_exhausted",
        ),
    ] {
        let mut world = World::new(chat());
        // There is no other credential.
        world.auto_reply = Some(Reply::No {
            message: "no other".to_owned(),
            retry_after: None,
        });
        world.head(status, &[("content-type", "application/json")]);
        world.chunk(body);
        world.end();
        assert_eq!(world.ended(), "failed");
        assert_eq!(world.failure(), Some(code));
        assert_eq!(world.sent.len(), 1);
    }
}

#[test]
fn every_attempt_of_one_operation_carries_the_same_key() {
    let mut world = World::new(chat());
    world.fail(ErrorKind::ConnectionClosed, true);
    world.until_next_request();
    let keys: Vec<_> = world
        .sent
        .iter()
        .map(|(_, request)| {
            request
                .headers
                .iter()
                .find(|(n, _)| n == "idempotency-key")
                .cloned()
        })
        .collect();
    assert_eq!(keys.len(), 2);
    assert!(keys[0].is_some() && keys[0] == keys[1]);
}

#[test]
fn a_cancel_closes_the_upstream_at_once_keeps_what_came_and_is_never_retried() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("kept"));
    world.input(Input::Cancel);
    assert!(world.open.is_none());
    assert_eq!(world.ended(), "cancelled");
    assert_eq!(world.delivered().len(), 1);

    let mut asleep = World::new(chat());
    asleep.head(429, &[("retry-after", "5")]);
    asleep.end();
    asleep.input(Input::Cancel);
    assert_eq!(asleep.ended(), "cancelled");
    asleep.pass(SECOND * 60);
    assert_eq!(asleep.sent.len(), 1);
}

#[test]
fn an_error_that_stands_in_no_event_is_found_when_the_end_is_missed() {
    // llama.cpp before September 2025: a field of its own, then the end marker.
    let stray = "error: {\"code\":500,\"message\":\"slot died\",\"type\":\"server_error\"}\n\n";
    for end in [DONE, ""] {
        let mut world = World::new(chat());
        world.stream();
        world.chunk(delta("Half "));
        world.chunk(stray);
        world.chunk(end);
        world.end();
        assert_eq!(world.ended(), "interrupted");
        assert_eq!(world.failure(), Some("server_error"));
    }
    // Behind a proof it changes nothing.
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("Whole"));
    world.chunk(STOP);
    world.chunk(stray);
    world.chunk(DONE);
    assert_eq!(world.ended(), "complete");
}

#[test]
fn an_end_for_a_reason_nobody_knows_is_a_claim_and_not_a_proof() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("x"));
    world.chunk(STOP.replace("\"stop\"", "\"because\""));
    world.chunk(DONE);
    assert_eq!(world.ended(), "claimed");
}

#[test]
fn an_incomplete_response_is_never_whole_whatever_its_reason() {
    for details in ["null", "{\"reason\":\"something_new\"}", "{}"] {
        let mut world = World::new(machine::background());
        world.stream();
        world.chunk(format!(
            "event: response.created\ndata: {{\"type\":\"response.created\",\"sequence_number\":0,\"response\":{{\"id\":\"r\",\"status\":\"in_progress\",\"output\":[]}}}}\n\n\
             event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"x\"}}\n\n\
             event: response.incomplete\ndata: {{\"type\":\"response.incomplete\",\"sequence_number\":2,\"response\":{{\"id\":\"r\",\"status\":\"incomplete\",\"incomplete_details\":{details}}}}}\n\n"
        ));
        assert_eq!(world.ended(), "truncated", "{details}");
    }
}
