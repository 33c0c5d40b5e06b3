//! A credential goes to the provider and nowhere else.

use crate::support::{Desk, PROMPT};
use std::path::Path;
use streamkeep::testkit::{Failure, Fault, Scenario, Upstream};

const CHAT: &str = "/v1/chat/completions";
const SECRET: &str = "sk-planted-0123456789abcdef";

/// Every file below a folder that holds these bytes.
fn files_with(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if std::fs::read(&path)
            .is_ok_and(|content| content.windows(bytes.len()).any(|part| part == bytes))
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn a_secret_appears_nowhere() {
    let scenario = Scenario::any_dialect()
        .words(20)
        .on(1, Fault::failure(Failure::ServerError).retry_after_ms(10))
        .on(
            3,
            Fault::failure(Failure::Auth).message(format!("wrong key {SECRET}")),
        );
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = Desk::new()
        .with_variable("OPENAI_API_KEY", SECRET)
        .with_variable("ANTHROPIC_API_KEY", SECRET)
        .with_variable("STREAMKEEP_LOG", "trace");
    let mut said = String::new();
    for ran in [
        desk.send(&upstream.url(), CHAT, &[]).await,
        desk.send(&upstream.url(), "/v1/messages", &["--key", "m", "--json"])
            .await,
        desk.send(&upstream.url(), "/v1/messages", &["--key", "m2"])
            .await,
        desk.run(&["show", "k", "--prompt"]).await,
        desk.run(&["follow", "k", "--json", "--prompt"]).await,
        desk.run(&["list"]).await,
        desk.send(
            &upstream.url(),
            CHAT,
            &[
                "--key",
                "h",
                "--header",
                &format!("Authorization: Bearer {SECRET}"),
            ],
        )
        .await,
        desk.send(&upstream.url(), CHAT, &["--key", "h", "--header", SECRET])
            .await,
    ] {
        said.push_str(&ran.stdout);
        said.push_str(&ran.stderr);
    }
    assert!(said.contains("DEBUG"), "the log was on");
    assert_eq!(said.matches(SECRET).count(), 0, "{said}");
    assert_eq!(
        files_with(&desk.store, SECRET.as_bytes()),
        Vec::<String>::new()
    );
    // The test looks where things are: the prompt is there.
    assert_ne!(
        files_with(&desk.store, PROMPT.as_bytes()),
        Vec::<String>::new()
    );
    let requests = upstream.requests();
    assert_eq!(
        requests[0].header("authorization"),
        Some(format!("Bearer {SECRET}").as_str())
    );
    assert!(
        requests
            .iter()
            .any(|request| request.header("x-api-key") == Some(SECRET))
    );
}

#[tokio::test]
async fn a_prompt_is_in_no_log() {
    let upstream = Upstream::start(Scenario::openai_chat().words(5))
        .await
        .unwrap();
    let desk = Desk::new().with_variable("STREAMKEEP_LOG", "trace");
    let ran = desk.send(&upstream.url(), CHAT, &[]).await;
    assert!(!ran.ends_with(0).stderr.contains(PROMPT), "{}", ran.stderr);
    assert!(!ran.stderr.contains("w3"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_variable_that_was_named_must_hold_a_key() {
    let upstream = Upstream::start(Scenario::openai_chat().words(5))
        .await
        .unwrap();
    let desk = Desk::new()
        .with_variable("EMPTY", "")
        .with_variable("MINE", SECRET);
    for name in ["EMPTY", "NOT_SET"] {
        let ran = desk
            .send(&upstream.url(), CHAT, &["--credential-env", name])
            .await;
        ran.ends_with(2).says(&["config", name]);
    }
    assert_eq!(upstream.requests().len(), 0);
    let more = ["--credential-env", "MINE", "--credential-header", "api-key"];
    desk.send(&upstream.url(), CHAT, &more).await.ends_with(0);
    assert_eq!(upstream.requests()[0].header("api-key"), Some(SECRET));
    assert_eq!(upstream.requests()[0].header("authorization"), None);
}
