//! The control socket: other terminals while `send` runs.

use crate::support::{Desk, PROMPT, Running, whole};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdListener;
use streamkeep::testkit::{Gate, Scenario, Upstream};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

const CHAT: &str = "/v1/chat/completions";

/// A `send` of 40 words that stands at the gate behind its first words.
async fn running() -> (Desk, Upstream, Gate, Running) {
    let gate = Gate::new();
    let upstream = Upstream::start(Scenario::openai_chat().words(40).gate(&gate))
        .await
        .unwrap();
    let desk = Desk::new();
    gate.permit(8);
    let mut send = desk.start_send(&upstream.url(), CHAT, &[]);
    send.until_stdout("w3").await;
    (desk, upstream, gate, send)
}

#[tokio::test]
async fn other_terminals_read_while_send_runs() {
    let (desk, _upstream, gate, send) = running().await;
    desk.run(&["list"])
        .await
        .ends_with(0)
        .shows(&["k ", "running"]);
    let show = desk.run(&["show", "k", "--json"]).await;
    let report = &show.ends_with(0).json()[0];
    assert_eq!(report["status"], "running");
    assert!(report["attempts"][0]["ended"].is_null());
    assert!(!show.stdout.contains(PROMPT));
    desk.run(&["show", "k", "--prompt"])
        .await
        .ends_with(0)
        .shows(&[PROMPT]);
    desk.run(&["show", "nobody"])
        .await
        .ends_with(2)
        .says(&["not_found"]);

    let mut follow = desk.start(&["follow", "k"]);
    follow.until_stdout("w3").await;
    let mut rest = desk.start(&["follow", "k", "--json", "--after", "1-4"]);
    rest.until_stdout("\"cursor\":\"1-5\"").await;
    assert!(!rest.read().contains("\"cursor\":\"1-4\""));
    gate.open();
    assert_eq!(send.finish().await.ends_with(0).stdout, whole(40));
    assert_eq!(follow.finish().await.ends_with(0).stdout, whole(40));
    rest.finish().await.ends_with(0);
}

#[tokio::test]
async fn commands_that_write_say_who_has_the_store() {
    let (desk, upstream, gate, send) = running().await;
    let holder = format!("in use by process {}", send.pid());
    for command in ["resume k", "continue k", "regenerate k", "gc"] {
        let args: Vec<&str> = command.split(' ').collect();
        desk.run(&args).await.ends_with(8).says(&[
            "busy",
            &holder,
            "`streamkeep send` for key k",
            "to do:",
        ]);
    }
    desk.send(&upstream.url(), CHAT, &[])
        .await
        .ends_with(8)
        .says(&[&holder]);
    gate.open();
    assert_eq!(send.finish().await.ends_with(0).stdout, whole(40));
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn the_socket_is_the_owners_alone_and_goes_with_the_process() {
    let (desk, _upstream, gate, send) = running().await;
    let socket = desk.store.join("control.sock");
    assert_eq!(
        std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777,
        0o600
    );
    gate.open();
    send.finish().await.ends_with(0);
    let left: Vec<_> = std::fs::read_dir(&desk.store)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".c") || name.contains("sock"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn a_socket_that_nobody_answers_is_replaced() {
    let gate = Gate::new();
    let upstream = Upstream::start(Scenario::openai_chat().words(40).gate(&gate))
        .await
        .unwrap();
    let desk = Desk::new();
    gate.permit(8);
    let mut first = desk.start_send(&upstream.url(), CHAT, &["--key", "first"]);
    first.until_stdout("w3").await;
    first.signal("KILL");
    first.finish().await;
    assert!(desk.store.join("control.sock").exists());
    desk.run(&["list"])
        .await
        .ends_with(0)
        .shows(&["first", "abandoned"]);

    gate.permit(8);
    let mut second = desk.start_send(&upstream.url(), CHAT, &["--key", "second"]);
    second.until_stdout("w3").await;
    desk.run(&["list"])
        .await
        .ends_with(0)
        .shows(&["second", "running"]);
    gate.open();
    second.finish().await.ends_with(0);
}

#[tokio::test]
async fn a_follower_outlives_the_process_it_follows() {
    let (desk, _upstream, _gate, send) = running().await;
    let mut follow = desk.start(&["follow", "k"]);
    follow.until_stdout("w3").await;
    send.signal("KILL");
    let written = send.finish().await.stdout;
    let followed = follow.finish().await;
    followed.ends_with(6).says(&["abandoned"]);
    assert!(followed.stdout.starts_with(&written));
    assert!(followed.words(40) >= 3);
}

#[tokio::test]
async fn nonsense_on_the_socket_costs_a_clear_error_and_nothing_else() {
    let (desk, _upstream, gate, send) = running().await;
    let socket = desk.store.join("control.sock");
    let endless = vec![b'x'; 1 << 20];
    for (said, expected) in [
        (&b"{\"do\":\"dance\"}\n"[..], "invalid_request"),
        (&endless, "at most 4096 bytes"),
    ] {
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        let (reader, mut writer) = stream.split();
        // The other side may have hung up before it has read all of it.
        let _ = writer.write_all(said).await;
        let mut answers = BufReader::new(reader);
        let mut hello = String::new();
        answers.read_line(&mut hello).await.unwrap();
        assert!(hello.starts_with("{\"hello\":{\"protocol\":1,"), "{hello}");
        let mut rest = String::new();
        let _ = answers.read_to_string(&mut rest).await;
        assert!(rest.contains(expected), "{rest}");
    }
    gate.open();
    send.finish().await.ends_with(0);
}

#[tokio::test]
async fn more_connections_than_there_is_room_for_are_turned_away() {
    let (desk, _upstream, gate, send) = running().await;
    let socket = desk.store.join("control.sock");
    let mut held = Vec::new();
    for _ in 0..16 {
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        stream
            .write_all(b"{\"do\":\"follow\",\"key\":\"k\"}\n")
            .await
            .unwrap();
        let mut byte = [0_u8; 1];
        stream.read_exact(&mut byte).await.unwrap();
        held.push(stream);
    }
    desk.run(&["list"])
        .await
        .ends_with(8)
        .says(&["at most 16 commands"]);
    drop(held);
    gate.open();
    send.finish().await.ends_with(0);
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_costs_only_the_socket() {
    let upstream = Upstream::start(Scenario::openai_chat().words(5))
        .await
        .unwrap();
    let desk = Desk::new();
    let deep = desk.folder().join("d".repeat(60)).join("e".repeat(60));
    assert!(StdListener::bind(deep.join("control.sock")).is_err());
    let deep = deep.to_str().unwrap();
    let ran = desk.send(&upstream.url(), CHAT, &["--store", deep]).await;
    assert_eq!(
        ran.ends_with(0).says(&["no control socket"]).stdout,
        whole(5)
    );
    desk.run(&["list", "--store", deep])
        .await
        .ends_with(0)
        .shows(&["complete"]);
}
