//! What is wrong is said in one block, with an exit code that says who acts.

use crate::support::{Desk, PROMPT, Ran};
use streamkeep::testkit::{ClosedPort, Failure, Fault, Scenario, Upstream};

const CHAT: &str = "/v1/chat/completions";

#[track_caller]
fn is_one_block(ran: &Ran) {
    assert_eq!(ran.stderr.matches("error: ").count(), 1, "{ran:#?}");
    assert_eq!(ran.stderr.matches("to do: ").count(), 1, "{ran:#?}");
    for debug in ["panicked", "Error {", "Error(", "Some("] {
        assert!(!ran.stderr.contains(debug), "{ran:#?}");
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_object_is_refused_and_not_quoted() {
    let desk = Desk::new();
    for (body, found) in [
        (format!("{{\"model\":\n {PROMPT}}}"), "line 2 column 2"),
        ("[1]".to_owned(), "another JSON value"),
        (String::new(), "line 1 column 0"),
    ] {
        let file = desk.file("body.json", &body);
        let ran = desk
            .run(&[
                "send",
                &file,
                "--url",
                "http://127.0.0.1:1/v1/chat/completions",
            ])
            .await;
        ran.ends_with(2).says(&[
            "invalid_request",
            "expected a JSON object as the body",
            found,
        ]);
        is_one_block(&ran);
        assert!(!ran.stderr.contains(PROMPT));
    }
    assert!(
        !desk.store.exists(),
        "nothing is opened for a request that cannot be sent"
    );
}

#[tokio::test]
async fn a_dialect_is_known_or_asked_for() {
    let desk = Desk::new();
    let body = desk.body(CHAT);
    let ran = desk
        .run(&[
            "send",
            &body,
            "--url",
            "http://127.0.0.1:1/x",
            "--dialect",
            "klingon",
        ])
        .await;
    ran.ends_with(2).says(&[
        "expected one of openai_chat, openai_responses, anthropic_messages, gemini_generate, but found `klingon`",
    ]);
    let ran = desk
        .run(&["send", &body, "--url", "http://127.0.0.1:1/v1/completions"])
        .await;
    ran.ends_with(2).says(&[
        "/chat/completions, /responses, /messages or :streamGenerateContent",
        "--dialect",
    ]);
    is_one_block(&ran);
}

#[tokio::test]
async fn a_key_that_was_used_for_something_else_is_a_conflict() {
    let upstream = Upstream::start(Scenario::openai_chat().words(5))
        .await
        .unwrap();
    let desk = Desk::new();
    desk.send(&upstream.url(), CHAT, &[]).await.ends_with(0);
    let other = desk.file("other.json", r#"{"model":"other","messages":[]}"#);
    let url = format!("{}{CHAT}", upstream.url());
    let ran = desk
        .run(&["send", &other, "--url", &url, "--key", "k"])
        .await;
    ran.ends_with(3)
        .says(&["key_conflict", "use another --key"]);
    is_one_block(&ran);
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn exit_codes_say_who_has_to_act() {
    for (failure, code, kind) in [
        (Failure::Auth, 3, "auth"),
        (Failure::Quota, 3, "quota_exhausted"),
        (Failure::ContextLength, 3, "context_length"),
        (Failure::InvalidRequest, 3, "rejected"),
        (Failure::ServerError, 5, "server_error"),
        (Failure::Overloaded, 5, "overloaded"),
        (Failure::RateLimited, 5, "rate_limited"),
    ] {
        let upstream = Upstream::start(Scenario::openai_chat().otherwise(Fault::failure(failure)))
            .await
            .unwrap();
        let desk = Desk::new();
        let ran = desk
            .send(&upstream.url(), CHAT, &["--retry", "never"])
            .await;
        ran.ends_with(code).says(&[
            "error: expected an answer, but found",
            kind,
            "after 1 attempt",
            "no further attempt",
        ]);
        is_one_block(&ran);
        assert_eq!(ran.stdout, "");
        // The same key again tries again: nothing was shown.
        desk.send(&upstream.url(), CHAT, &["--retry", "never"])
            .await
            .ends_with(code);
        assert_eq!(upstream.requests().len(), 2);
    }
    let desk = Desk::new();
    let closed = ClosedPort::take().unwrap();
    let ran = desk.send(&closed.url(), CHAT, &["--retry", "never"]).await;
    ran.ends_with(4)
        .says(&["attempt 1 could not be sent: connect"]);
    is_one_block(&ran);
}

#[tokio::test]
async fn a_deadline_is_the_callers() {
    let upstream = Upstream::start(Scenario::openai_chat().otherwise(Fault::stall()))
        .await
        .unwrap();
    let desk = Desk::new();
    let ran = desk
        .send(&upstream.url(), CHAT, &["--deadline", "50ms"])
        .await;
    ran.ends_with(3)
        .says(&["deadline_exceeded", "longer --deadline"]);
    let ran = desk
        .send(
            &upstream.url(),
            CHAT,
            &["--first-token", "50ms", "--retry", "never"],
        )
        .await;
    ran.ends_with(5)
        .says(&["first_token_timeout", "--reasoning"]);
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let desk = Desk::new();
    for command in ["list", "gc", "show k", "follow k", "cancel k", "resume k"] {
        let args: Vec<&str> = command.split(' ').collect();
        let ran = desk.run(&args).await;
        ran.ends_with(2).says(&["expected a store in", "--store"]);
        is_one_block(&ran);
        assert!(!desk.store.exists(), "{command} makes no store");
    }
    let upstream = Upstream::start(Scenario::openai_chat().words(5))
        .await
        .unwrap();
    desk.send(&upstream.url(), CHAT, &[]).await.ends_with(0);
    for command in [
        "show",
        "follow",
        "cancel",
        "resume",
        "continue",
        "regenerate",
    ] {
        let ran = desk.run(&[command, "nobody"]).await;
        ran.ends_with(2).says(&["not_found", "streamkeep list"]);
        is_one_block(&ran);
    }
    let ran = desk
        .run(&[
            "send",
            "no-such-file.json",
            "--url",
            "http://127.0.0.1:1/v1/messages",
        ])
        .await;
    ran.ends_with(2)
        .says(&["expected a request body in no-such-file.json", "cause: "]);
}

#[tokio::test]
async fn an_error_is_a_line_of_json_too() {
    let upstream = Upstream::start(Scenario::openai_chat().words(5))
        .await
        .unwrap();
    let desk = Desk::new();
    desk.send(&upstream.url(), CHAT, &[]).await.ends_with(0);
    let told = &desk
        .run(&["show", "nobody", "--json"])
        .await
        .ends_with(2)
        .json()[0]["error"];
    assert_eq!(told["kind"], "not_found");
    assert_eq!(told["class"], "caller");
    assert_eq!(told["exit_code"], 2);
    let failing = Upstream::start(Scenario::openai_chat().otherwise(Fault::failure(Failure::Auth)))
        .await
        .unwrap();
    let ran = desk
        .send(&failing.url(), CHAT, &["--json", "--key", "k2"])
        .await;
    let lines = ran.ends_with(3).json();
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["outcome"], &last["exit_code"]),
        (&"failed".into(), &3.into())
    );
    assert_eq!(last["failure"]["kind"], "auth");
}

#[tokio::test]
async fn help_lists_commands_and_exit_codes() {
    let desk = Desk::new();
    let help = desk.run(&["--help"]).await;
    help.ends_with(0).shows(&[
        "send",
        "follow",
        "Exit codes:",
        "130  cancelled",
        "  6  interrupted",
    ]);
    desk.run(&["send", "--nonsense"]).await.ends_with(2);
}
