//! Stopping: Ctrl-C, SIGTERM, and `cancel` from another terminal.

use crate::support::{Desk, whole};
use streamkeep::testkit::{Fault, Gate, Scenario, Upstream};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

#[tokio::test]
async fn a_signal_stops_the_provider_and_keeps_what_came() {
    for signal in ["INT", "TERM"] {
        let gate = Gate::new();
        let upstream = Upstream::start(Scenario::openai_chat().words(40).gate(&gate))
            .await
            .unwrap();
        let desk = Desk::new();
        gate.permit(8);
        let mut send = desk.start_send(&upstream.url(), CHAT, &[]);
        send.until_stdout("w3").await;
        send.signal(signal);
        assert!(upstream.wait_until_closed(1).await);
        let ran = send.finish().await;
        assert!((3..40).contains(&ran.ends_with(130).words(40)));
        ran.says(&[
            signal,
            "cancelled",
            "kept: about",
            "streamkeep follow k",
            "streamkeep regenerate k",
        ]);
        let kept = desk.run(&["follow", "k"]).await;
        assert_eq!(kept.ends_with(130).stdout, ran.stdout);
        assert!(!desk.store.join("control.sock").exists());
    }
}

#[tokio::test]
async fn a_signal_during_the_wait_for_a_retry_ends_it() {
    let scenario = Scenario::openai_chat()
        .words(5)
        .otherwise(Fault::status(503).retry_after(15));
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = Desk::new();
    let mut send = desk.start_send(&upstream.url(), CHAT, &[]);
    send.until_stderr("retry in 15.0 s").await;
    send.signal("INT");
    send.finish().await.ends_with(130).says(&["cancelled"]);
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_background_response_is_stopped_at_the_provider_before_the_process_ends() {
    let gate = Gate::new();
    let upstream = Upstream::start(Scenario::openai_responses().words(40).gate(&gate))
        .await
        .unwrap();
    let desk = Desk::new();
    gate.permit(20);
    let mut send = desk.start_send(&upstream.url(), RESPONSES, &[]);
    send.until_stdout("w3").await;
    send.signal("INT");
    send.finish().await.ends_with(130);
    let requests = upstream.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].method, "POST");
    assert!(
        requests[1].target.ends_with("/cancel"),
        "{}",
        requests[1].target
    );
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once() {
    let gate = Gate::new();
    let scenario = Scenario::openai_responses()
        .words(40)
        .gate(&gate)
        .on(2, Fault::stall());
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = Desk::new().with_variable("STREAMKEEP_LOG", "warn");
    gate.permit(20);
    let mut send = desk.start_send(&upstream.url(), RESPONSES, &[]);
    send.until_stdout("w3").await;
    send.signal("INT");
    // The provider takes the message to stop, and does not answer it.
    upstream.wait_for_requests(2).await;
    send.signal("INT");
    let ran = send.finish().await;
    // That nobody answered would be said after ten seconds.
    assert!(!ran.ends_with(130).stderr.contains("did not answer"));
    assert!(!desk.store.join("control.sock").exists());
}

#[tokio::test]
async fn another_terminal_can_cancel() {
    let gate = Gate::new();
    let upstream = Upstream::start(Scenario::openai_chat().words(40).gate(&gate))
        .await
        .unwrap();
    let desk = Desk::new();
    gate.permit(8);
    let mut send = desk.start_send(&upstream.url(), CHAT, &[]);
    send.until_stdout("w3").await;
    let cancel = desk.run(&["cancel", "k", "--json"]).await;
    let told = &cancel.ends_with(0).json()[0];
    assert_eq!(
        (&told["outcome"], &told["exit_code"]),
        (&"cancelled".into(), &130.into())
    );
    assert!(upstream.wait_until_closed(1).await);
    let ran = send.finish().await;
    assert!((3..40).contains(&ran.ends_with(130).words(40)));
    assert_eq!(
        desk.run(&["follow", "k"]).await.ends_with(130).stdout,
        ran.stdout
    );
    // An answer that has ended stays as it is.
    desk.run(&["cancel", "k"])
        .await
        .ends_with(0)
        .says(&["cancelled"]);
    let shown = desk.run(&["show", "k", "--json"]).await;
    assert_eq!(shown.json()[0]["end"]["attempts"], 1);
}

#[tokio::test]
async fn cancel_does_not_undo_an_answer_that_is_whole() {
    let upstream = Upstream::start(Scenario::openai_chat().words(5))
        .await
        .unwrap();
    let desk = Desk::new();
    desk.send(&upstream.url(), CHAT, &[]).await.ends_with(0);
    desk.run(&["cancel", "k"])
        .await
        .ends_with(0)
        .says(&["had ended before: complete"]);
    assert_eq!(
        desk.run(&["follow", "k"]).await.ends_with(0).stdout,
        whole(5)
    );
}
