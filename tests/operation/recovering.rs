//! What follows an interruption: resuming by cursor, polling, continuing.

use crate::SECOND;
use crate::events::{CREATED, HEL, ITEM, LO, STOP, WHOLE, completed, delta};
use crate::machine::{World, background, chat};
use streamkeep::ErrorKind;
use streamkeep::proto::journal::{Control, RecoveryOption};
use streamkeep::proto::operation::{Input, Operation, Outcome, Recovered, Recovery};

fn cut_after_hel() -> World {
    let mut world = World::new(background());
    world.stream();
    world.chunk(format!("{CREATED}{ITEM}{HEL}"));
    world.fail(ErrorKind::BodyFraming, true);
    world
}

#[test]
fn a_background_response_is_resumed_after_its_last_number() {
    let mut world = cut_after_hel();
    world.until_next_request();
    let (_, request) = &world.sent[1];
    assert_eq!(
        request.url,
        "http://127.0.0.1:9/v1/responses/resp_1?stream=true&starting_after=2"
    );
    world.stream();
    world.chunk(format!("{LO}{}", completed(4)));
    assert_eq!(world.ended(), "complete");
    assert_eq!(world.text(), "Hello");
    assert_eq!(world.attempts(), ["first", "resume"]);
    assert!(world.controls().any(|c| matches!(c, Control::Spliced(_))));
    assert!(
        world.delivered()[0].contains("response.created"),
        "it is kept"
    );
}

#[test]
fn a_resume_that_replays_from_the_start_delivers_nothing_twice() {
    let mut world = cut_after_hel();
    world.until_next_request();
    world.stream();
    world.chunk(format!("{CREATED}{ITEM}{HEL}{LO}{}", completed(4)));
    assert_eq!(world.ended(), "complete");
    assert_eq!(world.text(), "Hello");
    assert_eq!(world.delivered().len(), 5);
    assert_eq!(world.machine.counts().duplicates, 3);
}

#[test]
fn an_event_without_a_number_leaves_the_cursor_where_it_is() {
    let mut world = World::new(background());
    world.stream();
    world.chunk(format!("{CREATED}{ITEM}{HEL}event: response.vendor_note\ndata: {{\"type\":\"response.vendor_note\"}}\n\n"));
    world.end();
    world.until_next_request();
    assert!(world.sent[1].1.url.ends_with("starting_after=2"));
    assert_eq!(world.machine.counts().unknown, 1);
}

#[test]
fn a_closed_window_is_polled_and_only_what_is_missing_is_delivered() {
    let mut world = cut_after_hel();
    world.until_next_request();
    world.head(400, &[("content-type", "application/json")]);
    world.chunk(r#"{"error":{"message":"This response can no longer be streamed because it is more than 5 minutes old","type":"invalid_request_error"}}"#);
    world.end();
    assert_eq!(world.sent.len(), 3, "the poll goes out at once");
    assert_eq!(
        world.sent[2].1.url,
        "http://127.0.0.1:9/v1/responses/resp_1"
    );
    world.head(200, &[("content-type", "application/json")]);
    world.chunk(r#"{"id":"resp_1","object":"response","status":"in_progress","output":[]}"#);
    world.end();
    world.until_next_request();
    world.head(200, &[("content-type", "application/json")]);
    world.chunk(WHOLE);
    world.end();
    assert_eq!(world.ended(), "complete");
    assert_eq!(world.text(), "Hello");
    assert_eq!(world.attempts(), ["first", "resume", "poll", "poll"]);
}

#[test]
fn a_resume_of_another_response_is_no_splice() {
    // Not by a number beyond those that were seen, and not by one that was.
    for number in ["9", "0"] {
        let mut world = cut_after_hel();
        world.until_next_request();
        world.stream();
        let number = format!("\"sequence_number\":{number}");
        let other = CREATED.replace("resp_1", "resp_2");
        world.chunk(other.replace("\"sequence_number\":0", &number));
        assert_eq!(world.ended(), "interrupted");
        assert_eq!(world.failure(), Some("continuation_mismatch"));
        assert_eq!(world.text(), "Hel");
    }
}

#[test]
fn resumes_in_vain_end_and_leave_the_option() {
    let mut world = cut_after_hel();
    for _ in 0..50 {
        if world.outcome.is_some() {
            break;
        }
        world.until_next_request();
        world.fail(ErrorKind::Connect, false);
    }
    assert_eq!(world.ended(), "interrupted");
    assert_eq!(world.attempts().len(), 5, "one and four resumes");
    let Some(Outcome::Interrupted(interrupted)) = &world.outcome else {
        panic!()
    };
    assert_eq!(interrupted.options.first(), Some(&RecoveryOption::Resume));
}

#[test]
fn a_stream_cut_after_every_event_still_ends() {
    let mut world = cut_after_hel();
    let mut number = 2;
    while world.outcome.is_none() {
        world.until_next_request();
        number += 1;
        world.stream();
        world.chunk(LO.replace(
            "\"sequence_number\":3",
            &format!("\"sequence_number\":{number}"),
        ));
        world.end();
        assert!(number < 100);
    }
    assert_eq!(world.ended(), "interrupted");
    assert_eq!(world.attempts().len(), 33, "one and thirty-two resumes");
}

#[test]
fn a_cancelled_background_run_is_stopped_at_the_provider_too() {
    let mut world = World::new(background());
    world.stream();
    world.chunk(format!("{CREATED}{ITEM}{HEL}"));
    world.input(Input::Cancel);
    assert_eq!(world.told.len(), 1);
    assert_eq!(
        world.told[0].url,
        "http://127.0.0.1:9/v1/responses/resp_1/cancel"
    );
    assert_eq!(world.ended(), "cancelled");
}

#[test]
fn another_process_resumes_from_the_records_alone() {
    let mut world = World::new(background());
    world.stream();
    world.chunk(format!("{CREATED}{ITEM}{HEL}"));
    // The process dies here; the journal is all there is.
    let recovered = Recovered::fold(&world.records).unwrap();
    assert_eq!(recovered.best_recovery(true), Recovery::Resume);
    let head = recovered.head();
    let mut second = World::with(
        |now| Operation::recover(background(), recovered, Recovery::Resume, now, 2).unwrap(),
        head,
    );
    assert!(
        second.sent[0]
            .1
            .url
            .ends_with("resp_1?stream=true&starting_after=2")
    );
    second.stream();
    second.chunk(format!("{LO}{}", completed(4)));
    assert_eq!(second.ended(), "complete");
    assert_eq!(second.text(), "Hello");
}

#[test]
fn a_dead_writer_without_a_cursor_is_settled_truthfully() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("Half"));
    let recovered = Recovered::fold(&world.records).unwrap();
    assert_eq!(recovered.best_recovery(true), Recovery::Settle);
    assert!(
        recovered.check(Recovery::Restart).is_err(),
        "its output was shown"
    );
    let head = recovered.head();
    let second = World::with(
        |now| Operation::recover(chat(), recovered, Recovery::Settle, now, 2).unwrap(),
        head,
    );
    assert_eq!(second.ended(), "interrupted");
    assert!(second.sent.is_empty());
}

#[test]
fn a_writer_that_died_before_output_is_restarted() {
    let world = World::new(chat());
    let recovered = Recovered::fold(&world.records).unwrap();
    assert_eq!(recovered.best_recovery(true), Recovery::Restart);
}

#[test]
fn a_writer_that_died_behind_the_proof_had_a_complete_answer() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("All"));
    world.chunk(STOP);
    let recovered = Recovered::fold(&world.records).unwrap();
    let head = recovered.head();
    let second = World::with(
        |now| Operation::recover(chat(), recovered, Recovery::Settle, now, 2).unwrap(),
        head,
    );
    assert_eq!(second.ended(), "complete");
}

#[test]
fn a_store_that_fails_ends_the_operation_and_closes_the_upstream() {
    let mut world = World::new(chat());
    world.auto_ack = false;
    world.stream();
    world.chunk(delta("a"));
    world.in_flight = None;
    world.input(Input::AppendFailed {
        kind: ErrorKind::StaleLease,
        message: "fenced".to_owned(),
    });
    assert!(matches!(world.outcome, Some(Outcome::StoreFailed(_))));
    assert!(world.open.is_none());
    world.chunk(delta("b"));
    world.pass(SECOND * 100);
}

#[test]
fn reading_pauses_while_the_store_is_far_behind() {
    let mut plan = chat();
    plan.limits.max_waiting_bytes = 1000;
    let mut world = World::new(plan);
    world.auto_ack = false;
    world.stream();
    world.chunk(delta("first"));
    assert!(world.machine.wants_body());
    for _ in 0..20 {
        world.chunk(delta("0123456789"));
    }
    assert!(!world.machine.wants_body());
    world.ack();
    assert!(world.machine.wants_body());
}

#[test]
fn late_facts_about_an_older_attempt_are_ignored() {
    let mut world = World::new(chat());
    world.head(503, &[]);
    world.end();
    world.until_next_request();
    world.input(Input::Upstream {
        attempt: 1,
        fact: streamkeep::proto::operation::Fact::EndOfBody,
    });
    assert!(world.outcome.is_none());
}

#[test]
fn a_dead_writers_request_is_not_sent_again_where_that_is_ruled_out() {
    let world = World::new(chat());
    let recovered = Recovered::fold(&world.records).unwrap();
    assert_eq!(recovered.best_recovery(false), Recovery::Settle);
    let head = recovered.head();
    let second = World::with(
        |now| Operation::recover(chat(), recovered, Recovery::Settle, now, 2).unwrap(),
        head,
    );
    assert!(second.sent.is_empty());
    assert_eq!(
        second.ended(),
        "failed",
        "nothing was shown, so the key is free"
    );
}

#[test]
fn a_poll_that_is_told_to_come_back_at_once_is_no_hot_loop() {
    let mut world = cut_after_hel();
    world.until_next_request();
    world.head(404, &[]);
    world.end();
    for _ in 0..5 {
        world.head(503, &[("retry-after", "0")]);
        world.end();
        assert!(
            world.until_next_request() >= SECOND,
            "the poll's own pause holds"
        );
    }
}

#[test]
fn a_resume_that_is_told_to_come_back_at_once_still_pauses() {
    let mut world = cut_after_hel();
    world.until_next_request();
    world.head(503, &[("retry-after", "0")]);
    world.end();
    assert!(world.until_next_request() >= std::time::Duration::from_millis(10));
}

#[test]
fn a_splice_names_the_cursor_it_goes_on_after() {
    let mut world = cut_after_hel();
    world.until_next_request();
    world.stream();
    world.chunk(LO);
    let spliced = world.controls().find_map(|control| match control {
        Control::Spliced(spliced) => Some(spliced.after),
        _ => None,
    });
    assert_eq!(spliced, Some(Some(2)));
}

#[test]
fn a_later_answer_of_the_same_key_is_another_request_upstream() {
    let mut plan = chat();
    plan.generation = plan.generation.next();
    let world = World::new(plan);
    let headers = &world.sent[0].1.headers;
    let key = headers.iter().find(|(name, _)| name == "idempotency-key");
    assert_eq!(key.map(|(_, key)| key.as_str()), Some("k-1-2"));
}
