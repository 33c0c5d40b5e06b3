//! Sending: what goes to stdout, what is told on stderr.

use crate::support::{Desk, PROMPT, finish, whole};
use std::process::Stdio;
use streamkeep::testkit::{Ending, Failure, Fault, Gate, Scenario, Upstream};
use tokio::io::AsyncWriteExt;

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

#[tokio::test]
async fn an_answer_goes_to_stdout_and_its_story_to_stderr() {
    for path in [CHAT, MESSAGES, RESPONSES] {
        let upstream = Upstream::start(Scenario::any_dialect().words(30))
            .await
            .unwrap();
        let desk = Desk::new();
        let ran = desk.send(&upstream.url(), path, &[]).await;
        assert_eq!(ran.ends_with(0).stdout, whole(30), "{path}");
        ran.says(&[
            "key k in ",
            "attempt 1 (first) to 127.0.0.1:",
            "first output after",
            "complete (stop): 1 attempt",
            "12 in, 30 out",
        ]);
        assert!(!ran.stderr.contains(PROMPT));
    }
}

#[tokio::test]
async fn the_same_key_again_replays_the_answer_and_sends_nothing() {
    let upstream = Upstream::start(Scenario::openai_chat().words(20))
        .await
        .unwrap();
    let desk = Desk::new();
    desk.send(&upstream.url(), CHAT, &[]).await.ends_with(0);
    let again = desk.send(&upstream.url(), CHAT, &[]).await;
    assert_eq!(
        again.ends_with(0).says(&["nothing is sent"]).stdout,
        whole(20)
    );
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_key_is_minted_and_told() {
    let upstream = Upstream::start(Scenario::openai_chat().words(3))
        .await
        .unwrap();
    let desk = Desk::new();
    let body = desk.body(CHAT);
    let url = format!("{}{CHAT}", upstream.url());
    let ran = desk.run(&["send", &body, "--url", &url]).await;
    let key = ran
        .ends_with(0)
        .stderr
        .split(' ')
        .nth(1)
        .unwrap()
        .to_owned();
    assert_eq!(
        desk.run(&["follow", &key]).await.ends_with(0).stdout,
        whole(3)
    );
    assert_eq!(
        upstream.requests()[0].header("idempotency-key"),
        Some(key.as_str())
    );
}

#[tokio::test]
async fn a_body_can_come_from_stdin_and_headers_from_flags() {
    let upstream = Upstream::start(Scenario::openai_chat().words(3))
        .await
        .unwrap();
    let desk = Desk::new();
    let url = format!("{}{CHAT}", upstream.url());
    let mut child = desk
        .command(&["send", "-", "--url", &url, "--header", "X-Team: blue"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(br#"{"model":"m","messages":[]}"#)
        .await
        .unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, whole(3).into_bytes());
    assert_eq!(upstream.requests()[0].header("x-team"), Some("blue"));
}

#[tokio::test]
async fn a_failure_before_output_is_retried_and_told() {
    let scenario = Scenario::anthropic()
        .words(20)
        .on(1, Fault::failure(Failure::Overloaded).retry_after_ms(20));
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = Desk::new();
    let ran = desk.send(&upstream.url(), MESSAGES, &[]).await;
    assert_eq!(ran.ends_with(0).stdout, whole(20));
    ran.says(&[
        "attempt 1 failed before output: overloaded (529); retry in 20 ms",
        "attempt 2 (retry)",
        "complete (stop): 2 attempts",
    ]);
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn an_answer_that_is_held_back_restarts_cleanly_after_a_cut() {
    let scenario = Scenario::openai_chat()
        .words(40)
        .on(1, Fault::reset().after_event(20));
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = Desk::new();
    let ran = desk
        .send(&upstream.url(), CHAT, &["--hold", "until-complete"])
        .await;
    assert_eq!(ran.ends_with(0).stdout, whole(40));
    ran.says(&["rerun in", "attempt 2 (rerun)"]);
}

#[tokio::test]
async fn what_is_cut_or_refused_is_printed_and_is_no_success() {
    let cut = Scenario::openai_chat().words(10).ending(Ending::Length);
    let filtered = Scenario::openai_chat()
        .words(10)
        .ending(Ending::ContentFilter);
    for (scenario, word) in [
        (cut, "truncated (length)"),
        (filtered, "filtered (content_filter)"),
    ] {
        let upstream = Upstream::start(scenario).await.unwrap();
        let desk = Desk::new();
        let ran = desk.send(&upstream.url(), CHAT, &[]).await;
        assert_eq!(ran.ends_with(7).stdout, whole(10));
        ran.says(&[word, "streamkeep regenerate k"]);
    }
}

#[tokio::test]
async fn json_lines_tell_every_record_and_the_outcome() {
    let upstream = Upstream::start(Scenario::openai_chat().words(10))
        .await
        .unwrap();
    let desk = Desk::new();
    let ran = desk.send(&upstream.url(), CHAT, &["--json"]).await;
    let lines = ran.ends_with(0).json();
    assert_eq!(lines[0]["cursor"], "1-1");
    assert_eq!(lines[0]["control"]["record"], "opened");
    let (last, records) = lines.split_last().unwrap();
    for (line, number) in records.iter().zip(1..) {
        assert_eq!(line["cursor"], format!("1-{number}"));
        assert!(
            line["event"].is_object() != line["control"].is_object(),
            "{line}"
        );
    }
    let text: String = records
        .iter()
        .filter_map(|line| line["text"].as_str())
        .collect();
    assert_eq!(text, whole(10));
    assert_eq!(last["outcome"], "complete");
    assert_eq!(last["exit_code"], 0);
    assert_eq!(last["key"], "k");
    assert_eq!(last["usage"]["output"], 10);
    assert!(!ran.stdout.contains(PROMPT));
    // A replay is the same, byte for byte.
    let replay = desk.run(&["follow", "k", "--json"]).await;
    assert_eq!(replay.ends_with(0).stdout, ran.stdout);
}

#[tokio::test]
async fn a_reader_that_leaves_does_not_lose_the_answer() {
    let gate = Gate::new();
    let upstream = Upstream::start(Scenario::openai_chat().words(40).gate(&gate))
        .await
        .unwrap();
    let desk = Desk::new();
    gate.permit(5);
    let mut send = desk.start_send(&upstream.url(), CHAT, &[]);
    send.until_stdout("w1").await;
    send.close_stdout();
    gate.open();
    send.finish().await.ends_with(0).says(&["complete (stop)"]);
    assert_eq!(
        desk.run(&["follow", "k"]).await.ends_with(0).stdout,
        whole(40)
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_behind_stdout_is_told_and_costs_nothing_but_the_copy() {
    let upstream = Upstream::start(Scenario::openai_chat().words(20))
        .await
        .unwrap();
    let desk = Desk::new();
    let args = desk.send_args(&upstream.url(), CHAT, &[]);
    let mut command = desk.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    // Every write to it fails for want of room (full(4)).
    command.stdout(std::fs::File::create("/dev/full").unwrap());
    let ran = finish(command).await;
    ran.ends_with(8).says(&[
        "expected to write the answer to stdout",
        "cause: ",
        "the store has all of it",
    ]);
    let kept = desk.run(&["follow", "k"]).await;
    assert_eq!(kept.ends_with(0).stdout, whole(20));
}

#[tokio::test]
async fn quiet_says_nothing() {
    let upstream = Upstream::start(Scenario::openai_chat().words(5))
        .await
        .unwrap();
    let desk = Desk::new();
    let ran = desk.send(&upstream.url(), CHAT, &["--quiet"]).await;
    assert_eq!(
        (ran.ends_with(0).stderr.as_str(), ran.stdout.clone()),
        ("", whole(5))
    );
}

#[tokio::test]
async fn the_usual_store_is_kept_out_of_version_control() {
    let upstream = Upstream::start(Scenario::openai_chat().words(5))
        .await
        .unwrap();
    let desk = Desk::new();
    let args = desk.send_args(&upstream.url(), CHAT, &[]);
    let mut command = desk.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    command.env_remove("STREAMKEEP_STORE");
    finish(command).await.ends_with(0);
    let folder = desk.folder().join(".streamkeep");
    assert_eq!(
        std::fs::read_to_string(folder.join(".gitignore")).unwrap(),
        "*\n"
    );
    assert!(folder.join("store").is_dir());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.join("store"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
