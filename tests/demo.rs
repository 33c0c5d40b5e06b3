//! `streamkeep demo`, the real binary: what it shows, what it leaves behind, and that
//! it says so when an answer does not heal.

#![cfg(test)] // else the lints take the helpers for production code

use serde_json::Value;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;
use streamkeep::Dialect;
use streamkeep::proto::journal::{End, Status};
use streamkeep::store::{SledStore, Store};
use streamkeep::testkit::{ClosedPort, Fault, Gate, Scenario, Upstream};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// A bound for what never takes nearly as long, so that nothing hangs for ever.
const BOUND: Duration = Duration::from_secs(120);

const STORIES: [(&str, &str, u64); 6] = [
    ("retried", "openai_chat", 3),
    ("held", "openai_chat", 2),
    ("resumed", "openai_responses", 4),
    ("continued", "anthropic_messages", 2),
    ("killed", "openai_responses", 2),
    ("readers", "openai_responses", 2),
];

/// The demo, with a temporary folder of its own.
fn command(temporary: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_streamkeep"));
    command
        .arg("demo")
        .args(args)
        .env("TMPDIR", temporary)
        .env_remove("RUST_LOG")
        .env_remove("STREAMKEEP_STORE")
        .env_remove("STREAMKEEP_LOG")
        .env_remove("OPENAI_API_KEY")
        .env_remove("ANTHROPIC_API_KEY")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn demo(args: &[&str]) -> (Output, TempDir) {
    let temporary = tempfile::tempdir().unwrap();
    let output = timeout(BOUND, command(temporary.path(), args).output());
    (output.await.unwrap().unwrap(), temporary)
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The JSON lines of a run that wrote nothing else.
fn lines(output: &Output) -> Vec<Value> {
    let text = stdout(output);
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    lines.unwrap_or_else(|error| panic!("expected JSON alone, but {error}:\n{text}"))
}

fn is_empty(folder: &TempDir) -> bool {
    folder.path().read_dir().unwrap().next().is_none()
}

#[tokio::test]
async fn every_story_is_told_and_heals_and_nothing_is_left_behind() {
    let (output, temporary) = demo(&["--fast"]).await;
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let last = text.lines().last().unwrap();
    assert_eq!(last, "all 6 stories healed: duplicates 0, gaps 0");
    for (story, dialect, attempts) in STORIES {
        let row = text.lines().rfind(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(story) && words.next() == Some(dialect)
        });
        let row: Vec<&str> = row
            .unwrap_or_else(|| panic!("no row of {story}:\n{text}"))
            .split_whitespace()
            .collect();
        assert_eq!(
            row[2..6],
            [&attempts.to_string(), "48", "0", "0"],
            "{story}"
        );
    }
    for told in [
        "provider answered with status 503",
        "decided: retry in 20 ms, as the provider asks",
        "decided: rerun",
        "decided: poll",
        "what can be done: continue, regenerate",
        "died of signal 9",
    ] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(told) || cfg!(not(unix)), "{told}:\n{text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "colours are for terminals");
    assert!(is_empty(&temporary), "the temporary store is removed");
}

#[tokio::test]
async fn json_is_one_object_for_each_story_and_the_store_that_was_named_stays() {
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path().join("journals");
    let args = ["--json", "--store", folder.to_str().unwrap()];
    let temporary = tempfile::tempdir().unwrap();
    let mut command = command(temporary.path(), &args);
    let everyday = kept.path().join("everyday");
    command.env("STREAMKEEP_STORE", &everyday);
    let output = timeout(BOUND, command.output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(!everyday.exists());
    let rows = lines(&output);
    assert_eq!(rows.len(), STORIES.len());
    for (row, (story, dialect, attempts)) in rows.iter().zip(STORIES) {
        assert_eq!(row["story"], story);
        assert_eq!(row["dialect"], dialect);
        assert_eq!(row["attempts"], attempts, "{row}");
        assert_eq!(
            (&row["tokens"], &row["duplicates"], &row["gaps"]),
            (&48.into(), &0.into(), &0.into())
        );
        assert_eq!(row["healed"], true);
        assert_eq!(row["end"], "complete");
        assert_eq!(row["problems"], serde_json::json!([]));
        assert!(row["time_lost_ms"].is_u64(), "{row}");
    }
    assert!(is_empty(&temporary));

    let store = SledStore::open(&folder).await.unwrap();
    let journals = store.list(None, 100).await.unwrap();
    let mut found: Vec<String> = journals
        .iter()
        .map(|journal| journal.key.to_string())
        .collect();
    let mut told: Vec<&str> = rows
        .iter()
        .map(|row| row["key"].as_str().unwrap())
        .collect();
    found.sort();
    told.sort_unstable();
    assert_eq!(found, told);
    assert!(
        journals
            .iter()
            .all(|journal| journal.status == Status::Ended(End::Complete))
    );
    store.close().await;
}

#[tokio::test]
async fn keep_says_where_the_journals_are() {
    let temporary = tempfile::tempdir().unwrap();
    let mut command = command(temporary.path(), &["--fast", "--keep"]);
    let everyday = temporary.path().with_extension("everyday");
    command.env("STREAMKEEP_STORE", &everyday);
    let output = timeout(BOUND, command.output()).await.unwrap().unwrap();
    assert!(
        !everyday.exists(),
        "the demo keeps out of the everyday store"
    );
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let kept = temporary
        .path()
        .read_dir()
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let flat: String = text.split_whitespace().collect();
    assert!(
        flat.ends_with(&format!("Thejournalsarekeptin{}", kept.display())),
        "{text}"
    );
}

/// A test kit as the server of somebody: its answer is long, and it is cut off by the
/// demo's own proxy.
async fn against(scenario: Scenario, dialect: Dialect, more: &[&str]) -> (Output, Upstream) {
    let upstream = Upstream::start(scenario.words(60)).await.unwrap();
    let url = upstream.url();
    let mut args = vec!["--upstream", &url, "--dialect", dialect.name()];
    args.extend(more);
    let (output, temporary) = demo(&args).await;
    assert!(is_empty(&temporary));
    (output, upstream)
}

#[tokio::test]
async fn a_real_server_is_cut_and_its_answer_heals_in_the_way_of_its_dialect() {
    let told = [
        (
            Scenario::openai_chat(),
            Dialect::OpenAiChat,
            "POST",
            "decided: rerun",
        ),
        (
            Scenario::anthropic().continues_partial_answers(),
            Dialect::AnthropicMessages,
            "POST",
            "attempt 2, continue",
        ),
        (
            Scenario::openai_responses(),
            Dialect::OpenAiResponses,
            "GET",
            "decided: resume",
        ),
    ];
    for (scenario, dialect, method, told) in told {
        let (output, upstream) = against(scenario, dialect, &["--fast"]).await;
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(told), "{text}");
        assert!(
            flat.contains("cuts the first connection at byte 4096"),
            "{text}"
        );
        assert!(
            flat.ends_with("the story healed: duplicates 0, gaps 0"),
            "{text}"
        );
        let requests = upstream.requests();
        let methods: Vec<&str> = requests.iter().map(|r| r.method.as_str()).collect();
        assert_eq!(methods, ["POST", method]);
    }
}

#[tokio::test]
async fn the_middle_is_found_when_the_first_cut_misses_it() {
    let args = ["--json", "--cut-at", "1000000"];
    let (output, upstream) = against(Scenario::openai_chat(), Dialect::OpenAiChat, &args).await;
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let rows = lines(&output);
    assert_eq!(
        (&rows[0]["attempts"], &rows[0]["healed"]),
        (&2.into(), &true.into())
    );
    assert_eq!(
        upstream.requests().len(),
        3,
        "once whole, once cut, once again"
    );
}

#[tokio::test]
async fn the_request_file_and_the_credential_reach_the_server() {
    let upstream = Upstream::start(Scenario::any_dialect().words(60))
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("request.json");
    std::fs::write(&file, r#"{"model":"mine","messages":[],"stream":true}"#).unwrap();
    let url = format!("{}/v1/chat/completions", upstream.url());
    let args = [
        "--json",
        "--upstream",
        &url,
        "--request",
        file.to_str().unwrap(),
        "--credential-env",
        "DEMO_TEST_KEY",
    ];
    let temporary = tempfile::tempdir().unwrap();
    let mut command = command(temporary.path(), &args);
    command.env("DEMO_TEST_KEY", "planted-secret");
    let output = timeout(BOUND, command.output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(!stdout(&output).contains("planted-secret"));
    let request = &upstream.requests()[0];
    assert_eq!(request.json().unwrap()["model"], "mine");
    assert_eq!(
        request.header("authorization"),
        Some("Bearer planted-secret")
    );
}

#[tokio::test]
async fn an_answer_that_does_not_heal_is_told_and_fails_the_run() {
    let broken = || Scenario::openai_chat().otherwise(Fault::close().after_event(5));
    let (output, _) = against(broken(), Dialect::OpenAiChat, &["--fast"]).await;
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("0 of 1 stories healed"), "{text}");
    assert!(
        flat.contains("upstream: the answer rests interrupted"),
        "{text}"
    );
    let (output, _) = against(broken(), Dialect::OpenAiChat, &["--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(lines(&output)[0]["healed"], false);
}

#[tokio::test]
async fn nonsense_is_refused_before_anything_is_done() {
    for (args, expected) in [
        (vec!["--upstream", "http://127.0.0.1:1"], "--dialect"),
        (
            vec![
                "--upstream",
                "http://127.0.0.1:1/v1/messages",
                "--request",
                "no-such-file",
            ],
            "no-such-file",
        ),
    ] {
        let (output, temporary) = demo(&args).await;
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{said}");
        assert_eq!(stdout(&output), "");
        assert!(is_empty(&temporary));
    }
}

#[tokio::test]
async fn a_store_that_is_in_use_is_no_storys_fault() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path()).await.unwrap();
    let (output, _) = demo(&["--fast", "--store", folder.path().to_str().unwrap()]).await;
    assert!(output.status.code().is_some_and(|code| code > 1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("open already"));
    assert_eq!(stdout(&output), "");
    store.close().await;
}

#[tokio::test]
async fn a_server_behind_tls_is_not_cut_and_the_demo_says_so() {
    let closed = ClosedPort::take().unwrap();
    let url = format!("https://{}/v1/messages", closed.address());
    let (output, _) = demo(&["--fast", "--upstream", &url]).await;
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("nobody can cut inside TLS"), "{text}");
    assert!(text.contains("the answer ended as failed"), "{text}");
}

#[tokio::test]
async fn the_child_ends_when_its_parent_is_gone() {
    let gate = Gate::new();
    let scenario = Scenario::openai_responses().words(60).gate(&gate);
    let upstream = Upstream::start(scenario).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let task = serde_json::json!({
        "folder": folder.path().join("store"),
        "key": "k",
        "dialect": "openai_responses",
        "url": format!("{}/v1/responses", upstream.url()),
        "body": r#"{"model":"m","input":"hi","background":true,"stream":true}"#,
    });
    let mut command = command(folder.path(), &["--child"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(format!("{task}\n").as_bytes())
        .await
        .unwrap();
    stdin.flush().await.unwrap();
    gate.permit(10);
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = timeout(BOUND, said.next_line())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(serde_json::from_str::<Value>(&first).unwrap()["seq"], 1);
    drop(stdin);
    assert_eq!(ended(&mut child).await, Some(1));
}

#[cfg(unix)]
#[tokio::test]
async fn a_demo_that_is_told_to_stop_removes_its_store() {
    let temporary = tempfile::tempdir().unwrap();
    let mut command = command(temporary.path(), &[]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    // In the middle of the first answer.
    while let Some(line) = timeout(BOUND, said.next_line()).await.unwrap().unwrap() {
        if line.contains("attempt 1,") {
            break;
        }
    }
    assert!(!is_empty(&temporary));
    let kill = format!("kill -TERM {}", child.id().unwrap());
    let told = Command::new("sh")
        .args(["-c", &kill])
        .status()
        .await
        .unwrap();
    assert!(told.success());
    assert_eq!(ended(&mut child).await, Some(130));
    assert!(is_empty(&temporary));
}

async fn ended(child: &mut Child) -> Option<i32> {
    timeout(BOUND, child.wait()).await.unwrap().unwrap().code()
}
