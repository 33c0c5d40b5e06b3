//! Going on with an answer that stopped.

#[cfg(unix)]
use crate::support::finish;
use crate::support::{Desk, whole};
use streamkeep::testkit::{Fault, Scenario, Upstream};

#[cfg(unix)]
use streamkeep::testkit::Gate;

const CHAT: &str = "/v1/chat/completions";
#[cfg(unix)]
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

#[tokio::test]
async fn a_background_response_is_resumed_by_itself() {
    let scenario = Scenario::openai_responses()
        .words(40)
        .on(1, Fault::reset().after_event(15));
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = Desk::new();
    let ran = desk.send(&upstream.url(), RESPONSES, &[]).await;
    assert_eq!(ran.ends_with(0).stdout, whole(40));
    ran.says(&[
        "can resume this answer",
        "failed after output",
        "resume in",
        "attempt 2 (resume)",
        "after the provider's event",
    ]);
    assert!(upstream.requests()[1].target.contains("starting_after="));
}

#[cfg(unix)]
#[tokio::test]
async fn a_cut_says_what_to_type_and_that_goes_on_exactly() {
    let scenario = Scenario::anthropic()
        .words(40)
        .on(1, Fault::reset().after_event(20))
        .continues_partial_answers();
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = Desk::new().with_variable("MY_KEY", "sk-test");
    let store = desk.store.to_str().unwrap().to_owned();
    let more = [
        "--key",
        "my'key",
        "--credential-env",
        "MY_KEY",
        "--store",
        &store,
    ];
    let args = desk.send_args(&upstream.url(), MESSAGES, &more);
    let mut command = desk.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    // So that the command to type next must name the store.
    command.env_remove("STREAMKEEP_STORE");
    let cut = finish(command).await;
    let partial = cut.ends_with(6).stdout.clone();
    assert!((1..40).contains(&cut.words(40)), "{partial}");
    cut.says(&["interrupted: reset", "kept: about"]);
    let typed = cut
        .stderr
        .lines()
        .find(|line| line.contains("streamkeep continue"))
        .unwrap();
    assert!(
        typed.contains("--store ") && typed.contains("--credential-env MY_KEY"),
        "{typed}"
    );

    // The line as it stands, comment and quotes included, given to a shell.
    let line = typed.replacen(
        "streamkeep",
        &format!("'{}'", env!("CARGO_BIN_EXE_streamkeep")),
        1,
    );
    let mut shell = tokio::process::Command::new("sh");
    shell
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .args(["-c", &line])
        .env("MY_KEY", "sk-test")
        .env_remove("STREAMKEEP_STORE");
    let rest = finish(shell).await;
    assert_eq!(format!("{partial}{}", rest.ends_with(0).stdout), whole(40));
    rest.says(&["(continue)", "goes on with the answer", "complete"]);
    assert_eq!(
        desk.run(&["follow", "my'key"]).await.ends_with(0).stdout,
        whole(40)
    );
}

#[cfg(unix)]
#[tokio::test]
async fn the_same_send_does_what_is_right_after_a_kill() {
    let gate = Gate::new();
    let scenario = Scenario::openai_chat().words(40).gate(&gate);
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = Desk::new();
    gate.permit(8);
    let mut send = desk.start_send(&upstream.url(), CHAT, &[]);
    send.until_stdout("w3").await;
    send.signal("KILL");
    let written = send.finish().await.stdout;
    // Output was shown and the provider has no cursor: the truth, not a replay.
    let again = desk.send(&upstream.url(), CHAT, &[]).await;
    again.ends_with(6).says(&[
        "its writer had ended",
        "interrupted",
        "streamkeep regenerate k",
    ]);
    assert!(again.stdout.starts_with(&written));
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_done_is_said_with_what_can() {
    let scenario = Scenario::openai_chat()
        .words(40)
        .on(1, Fault::reset().after_event(20));
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = Desk::new();
    desk.send(&upstream.url(), CHAT, &[]).await.ends_with(6);
    let resume = desk.run(&["resume", "k"]).await;
    resume.ends_with(2).says(&[
        "not_possible",
        "no cursor",
        "continue or regenerate",
        "streamkeep show",
    ]);
    assert_eq!(resume.stdout, "");
    assert_eq!(upstream.requests().len(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn another_process_resumes_what_a_killed_one_left() {
    let gate = Gate::new();
    let upstream = Upstream::start(Scenario::openai_responses().words(40).gate(&gate))
        .await
        .unwrap();
    let desk = Desk::new();
    gate.permit(20);
    let mut send = desk.start_send(&upstream.url(), RESPONSES, &[]);
    send.until_stdout("w3").await;
    send.signal("KILL");
    let partial = send.finish().await;
    assert_eq!(partial.code, None);
    desk.run(&["list"]).await.ends_with(0).shows(&["abandoned"]);
    desk.run(&["show", "k"])
        .await
        .ends_with(0)
        .shows(&["its writer ended", "streamkeep resume k"]);
    // What it had acknowledged can be more than what it printed, never less.
    let kept = desk.run(&["follow", "k"]).await;
    kept.ends_with(6)
        .says(&["abandoned", "streamkeep resume k"]);
    assert!(kept.stdout.starts_with(&partial.stdout));

    gate.open();
    let rest = desk.run(&["resume", "k"]).await;
    rest.ends_with(0)
        .says(&["its claim runs out in", "(resume)", "complete"]);
    assert_eq!(format!("{}{}", kept.stdout, rest.stdout), whole(40));
    assert_eq!(
        desk.run(&["follow", "k"]).await.ends_with(0).stdout,
        whole(40)
    );
}
