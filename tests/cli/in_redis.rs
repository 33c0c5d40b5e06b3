//! The same commands with their store in Redis.

use crate::server::RedisServer;
use crate::support::Desk;
use streamkeep::testkit::{Gate, Scenario, Upstream};

const CHAT: &str = "/v1/chat/completions";
const SECRET: &str = "a-secret-of-the-test";

/// A desk whose environment names the Redis, with its password.
fn desk(server: &RedisServer) -> Desk {
    let url = format!("redis://:{SECRET}@{}", server.address());
    Desk::new()
        .with_variable("STREAMKEEP_STORE", "")
        .with_variable("STREAMKEEP_REDIS_URL", &url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_commands_work_in_one_store_at_the_same_time() {
    let Some(server) = RedisServer::start(&["--requirepass", SECRET]) else {
        return;
    };
    let gate = Gate::new();
    let scenario = Scenario::openai_chat().words(30).gate(&gate);
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = desk(&server);
    gate.permit(10);
    let mut sending = desk.start_send(&upstream.url(), CHAT, &[]);
    sending.until_stdout("w5").await;
    // While it runs: another one lists it, and a third follows it, live.
    let listed = desk.run(&["list"]).await;
    listed.ends_with(0);
    assert!(listed.stdout.contains("running"), "{}", listed.stdout);
    let mut following = desk.start(&["follow", "k"]);
    following.until_stdout("w5").await;
    // It is somebody else's: it is neither taken nor stopped.
    let replaced = desk.run(&["regenerate", "k"]).await;
    assert!(
        replaced.stderr.contains("another process"),
        "{}",
        replaced.stderr
    );
    let cancelled = desk.run(&["cancel", "k"]).await;
    assert!(
        cancelled.stderr.contains("another process"),
        "{}",
        cancelled.stderr
    );
    gate.open();
    for running in [sending, following] {
        let ran = running.finish().await;
        assert_eq!(ran.ends_with(0).words(30), 30);
    }
    // The same again replays it, and nothing is sent.
    let again = desk.send(&upstream.url(), CHAT, &[]).await;
    again.ends_with(0);
    assert_eq!(upstream.requests().len(), 1);
    let shown = desk.run(&["show", "k"]).await;
    assert!(shown.stdout.contains("complete"), "{}", shown.stdout);
    desk.run(&["gc"]).await.ends_with(0);
    assert!(!desk.folder().join(".streamkeep").exists(), "a folder too");
    for ran in [&listed, &replaced, &cancelled, &again, &shown] {
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!said.contains(SECRET), "{said}");
    }
    assert!(
        again
            .stderr
            .contains(&format!("redis://{}", server.address()))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_comes_from_the_environment_or_a_file_and_never_from_a_flag() {
    let Some(server) = RedisServer::start(&["--requirepass", SECRET]) else {
        return;
    };
    let url = format!("redis://:{SECRET}@{}", server.address());
    let plain = format!("redis://{}", server.address());
    let bare = || Desk::new().with_variable("STREAMKEEP_STORE", "");

    let refused = bare().run(&["list", "--store", &url]).await;
    refused.ends_with(2);
    assert!(
        refused.stderr.contains("STREAMKEEP_REDIS_URL"),
        "{}",
        refused.stderr
    );
    let without = bare().run(&["list", "--store", &plain]).await;
    without.ends_with(2);
    assert!(without.stderr.contains("password"), "{}", without.stderr);
    let demo = bare().run(&["demo", "--fast", "--store", &plain]).await;
    demo.ends_with(2);

    let desk = bare();
    let file = desk.file("url", &format!("{url}\n"));
    let from_file = desk.with_variable("STREAMKEEP_REDIS_URL_FILE", &file);
    let listed = from_file.run(&["list"]).await;
    listed.ends_with(0);
    let by_store = Desk::new().with_variable("STREAMKEEP_STORE", &url);
    let also = by_store.run(&["list"]).await;
    also.ends_with(0);
    let missing = bare().with_variable("STREAMKEEP_REDIS_URL_FILE", "/nowhere");
    missing.run(&["list"]).await.ends_with(2);
    for ran in [&refused, &without, &demo, &listed, &also] {
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!said.contains(SECRET), "{said}");
    }
}
