//! The operation machine and bodies that are no answer, or not the one that was
//! asked for: one story per test.

#![cfg(test)] // else the lints take the helpers for production code

#[path = "support/events.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod events;
#[path = "support/machine.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod machine;

use events::{DONE, ROLE, STOP, delta};
use machine::{World, chat};
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::operation::Outcome;

/// What was decided about the first exchange: the kind of its failure, and what
/// follows.
fn decided(world: &World) -> (Option<String>, String) {
    use streamkeep::proto::journal::Control;
    let ended = world.controls().find_map(|control| match control {
        Control::AttemptEnded(ended) => Some(ended.clone()),
        _ => None,
    });
    let ended = ended.expect("the first exchange has ended");
    (ended.failure.map(|failure| failure.kind), ended.decision)
}

#[track_caller]
fn check(world: &World, kind: &str, decision: &str) {
    assert_eq!(decided(world), (Some(kind.to_owned()), decision.to_owned()));
}

// vLLM's engine broke before its first token, and the server sent the end marker
// alone: that passed as an empty, complete answer.
#[test]
fn an_end_marker_behind_nothing_claims_nothing() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(DONE);
    check(&world, "empty_response", "retry");

    let mut world = World::new(chat());
    world.stream();
    world.chunk(ROLE);
    world.chunk(DONE);
    check(&world, "truncated", "retry");
    assert_eq!(world.delivered(), [""; 0]);
}

// llama.cpp wrote its errors under a field that no standard knows, and its end
// marker behind them: half an answer passed as a whole one.
#[test]
fn an_error_under_a_field_of_no_standard_is_an_error() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("Part"));
    world.chunk("error: {\"code\":500,\"message\":\"slot failed\",\"type\":\"server_error\"}\n");
    check(&world, "server_error", "interrupt");
    assert_eq!(world.text(), "Part");
}

// A gateway gives up after ten minutes and writes a bare JSON error into the
// stream; a decoder by the book passes over it, and the reader is told of a cut.
#[test]
fn a_bare_json_error_in_the_stream_is_an_error() {
    let bare = "[{\n \"error\": {\n  \"code\": 503,\n  \"message\": \"worn out\"\n }\n}]";
    for (bytes, ends) in [
        (bare.to_owned(), true),
        (format!("{bare}\n"), true),
        (format!("{bare}\n"), false),
        (bare.replace(['\n', ' '], ""), false),
        (format!("{bare}\n\n{DONE}"), true),
    ] {
        for before in ["", &delta("Part")] {
            let mut world = World::new(chat());
            world.stream();
            world.chunk(before.to_owned());
            world.chunk(bytes.clone());
            if ends {
                world.end();
            } else {
                world.fail(ErrorKind::Reset, true);
            }
            let follows = if before.is_empty() {
                "retry"
            } else {
                "interrupt"
            };
            check(&world, "overloaded", follows);
        }
    }
}

#[test]
fn other_lines_outside_the_events_change_nothing() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(format!("foo: bar\n{}{{\nid\n", delta("Hi")));
    world.chunk(format!("{STOP}nonsense\n{DONE}"));
    assert_eq!(world.ended(), "complete");
    assert_eq!(world.text(), "Hi");
}

/// A body of this content type that is all there is.
fn body(content_type: Option<&str>, bytes: &str) -> World {
    let mut world = World::new(chat());
    let headers: Vec<_> = content_type
        .iter()
        .map(|ct| ("content-type", *ct))
        .collect();
    world.head(200, &headers);
    world.chunk(bytes.to_owned());
    world.end();
    world
}

// A page under no name, or under the name of text, was asked for again and again;
// under its own name it never was.
#[test]
fn a_body_that_is_no_stream_is_not_asked_for_again() {
    for content_type in [None, Some("text/plain"), Some("text/event-stream")] {
        for bytes in [
            "<html><body>Sign in</body></html>",
            "upstream connect error",
            "\u{feff}<!DOCTYPE html>\n",
        ] {
            check(&body(content_type, bytes), "protocol", "stop");
        }
    }
}

#[test]
fn a_stream_that_breaks_off_in_its_first_event_is_cut_and_one_of_comments_is_empty() {
    let name = Some("text/event-stream");
    for bytes in [
        "data: {\"cho",
        "d",
        "\n\nevent: x\n",
        "id",
        "data: {\"a\":1",
    ] {
        check(&body(name, bytes), "truncated", "retry");
    }
    for bytes in ["", "\n\r\n", ": k\n\n", ":"] {
        check(&body(name, bytes), "empty_response", "retry");
    }
}

// Ollama and proxies ignore `stream` and keep the name of a stream.
#[test]
fn a_whole_answer_under_the_name_of_a_stream_is_an_answer() {
    let answer = r#"{"object":"chat.completion","choices":[{"index":0,
        "message":{"content":"Hello"},"finish_reason":"stop"}]}"#;
    for content_type in [None, Some("text/event-stream"), Some("application/json")] {
        for before in ["", "\n\n", "\u{feff}"] {
            let world = body(content_type, &format!("{before}{answer}"));
            assert_eq!(world.ended(), "complete");
            assert_eq!(world.text(), "Hello");
        }
    }
}

#[test]
fn a_document_that_breaks_off_is_cut_and_a_broken_one_is_not_asked_for_again() {
    for content_type in [None, Some("application/json")] {
        check(&body(content_type, "{\"choices\":[{"), "truncated", "retry");
        check(&body(content_type, "{\"choices\":]}"), "protocol", "stop");
    }
}

// It was taken for a body that got damaged on its way, and asked for again.
#[test]
fn a_coding_that_nobody_decodes_is_refused_by_its_name() {
    for (coding, found) in [("br", "`br`"), ("identity, zstd", "`zstd`")] {
        let mut world = World::new(chat());
        let stream = ("content-type", "text/event-stream");
        world.head(200, &[stream, ("content-encoding", coding)]);
        check(&world, "protocol", "stop");
        let Some(Outcome::Ended(ended)) = &world.outcome else {
            panic!("it has ended")
        };
        let failure = ended.failure.as_ref().unwrap();
        assert!(failure.message.ends_with(found), "{}", failure.message);
    }
    let mut world = World::new(chat());
    world.head(200, &[("content-encoding", "Identity")]);
    world.chunk(format!("{}{STOP}{DONE}", delta("Hi")));
    assert_eq!(world.ended(), "complete");
}

#[test]
fn a_stream_under_the_name_of_json_is_a_stream_as_it_comes() {
    let mut world = World::new(chat());
    world.head(200, &[("content-type", "application/json")]);
    world.chunk("\n");
    world.chunk("da");
    world.chunk(delta("Hi").split_off(2));
    assert_eq!(world.text(), "Hi", "it is read before it has ended");
    world.chunk(format!("{STOP}{DONE}"));
    assert_eq!(world.ended(), "complete");
    // And text that is neither is not asked for again.
    check(
        &body(Some("application/json"), "internal error"),
        "protocol",
        "stop",
    );
}

// Servers that put a finish reason on every chunk had their answers ended in the
// middle, and told as complete: the grace began at the first one.
#[test]
fn the_grace_begins_again_at_output_behind_the_finish_reason() {
    let mut world = World::new(chat());
    world.stream();
    let every = delta("a").replace("\"finish_reason\":null", "\"finish_reason\":\"stop\"");
    for _ in 0..5 {
        world.chunk(every.clone());
        world.pass(Duration::from_millis(1_900));
    }
    assert!(world.outcome.is_none());
    world.pass(Duration::from_millis(100));
    assert_eq!(world.ended(), "complete");
    assert_eq!(world.text(), "aaaaa");
}

// The second of two candidates began after the first had finished; two seconds
// later the answer was told as whole with half of it missing.
#[test]
fn a_candidate_that_begins_late_takes_the_proof_back() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("L"));
    world.chunk(STOP);
    let right = |text: &str| text.replace("\"index\":0", "\"index\":1");
    world.chunk(right(&delta("R")));
    world.pass(Duration::from_secs(5));
    assert!(world.outcome.is_none());
    world.chunk(right(STOP));
    world.chunk(DONE);
    assert_eq!(world.ended(), "complete");
}
