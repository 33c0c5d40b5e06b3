//! Background responses: replay after a cursor, polling, cancelling.

use crate::wire::{BACKGROUND, BodyEnd, Received, exchange, open, read_until, soon, text_of};
use serde_json::Value;
use std::time::Duration;
use streamkeep::testkit::{Fault, Gate, Replay, Scenario, Upstream, Words};

const WORDS: usize = 12;

fn scenario() -> Scenario {
    Scenario::openai_responses().words(WORDS)
}

async fn create(upstream: &Upstream) -> Received {
    exchange(&upstream.url(), "POST", "/v1/responses", BACKGROUND).await
}

async fn get(upstream: &Upstream, query: &str) -> Received {
    exchange(
        &upstream.url(),
        "GET",
        &format!("/v1/responses/resp_1{query}"),
        "",
    )
    .await
}

async fn status(upstream: &Upstream) -> String {
    get(upstream, "").await.json()["status"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn numbers(payloads: &[Value]) -> Vec<u64> {
    payloads
        .iter()
        .filter_map(|e| e["sequence_number"].as_u64())
        .collect()
}

#[tokio::test]
async fn a_replay_after_any_cursor_is_exactly_the_rest() {
    let with_extras = scenario().keepalive_every(3).vendor_note_every(4);
    let upstream = Upstream::start(with_extras).await.unwrap();
    let whole = create(&upstream).await.events();
    let sequence =
        |data: &str| serde_json::from_str::<Value>(data).unwrap()["sequence_number"].as_u64();
    let last = whole
        .iter()
        .filter_map(|(_, data)| sequence(data))
        .max()
        .unwrap();
    for cursor in 0..=last + 1 {
        let got = get(&upstream, &format!("?stream=true&starting_after={cursor}")).await;
        assert_eq!(got.body_end(), BodyEnd::Whole);
        // Unnumbered events belong behind the numbered one before them.
        let start = whole
            .iter()
            .rposition(|(_, data)| sequence(data).is_some_and(|s| s <= cursor))
            .unwrap();
        let got = if got.body().is_empty() {
            Vec::new()
        } else {
            got.events()
        };
        assert_eq!(got, whole[start + 1..], "after {cursor}");
    }
    assert_eq!(get(&upstream, "?stream=true").await.events(), whole);
    assert_eq!(
        get(&upstream, "?stream=true&starting_after=x")
            .await
            .status(),
        400
    );
}

#[tokio::test]
async fn keepalives_take_a_number_and_vendor_events_do_not() {
    let upstream = Upstream::start(scenario().keepalive_every(3).vendor_note_every(4))
        .await
        .unwrap();
    let all = create(&upstream).await.payloads();
    let dense: Vec<u64> = (0..).take(numbers(&all).len()).collect();
    assert_eq!(numbers(&all), dense);
    let of = |kind: &str| all.iter().filter(|e| e["type"] == kind).count();
    assert_eq!((of("keepalive"), of("response.vendor_note")), (4, 3));
    let unnumbered = all
        .iter()
        .filter(|e| e.get("sequence_number").is_none())
        .count();
    assert_eq!(unnumbered, 3);
}

#[tokio::test]
async fn it_goes_on_while_the_client_is_away() {
    let gate = Gate::new();
    let upstream = Upstream::start(scenario().gate(&gate)).await.unwrap();
    let mut stream = open(&upstream.url(), "POST", "/v1/responses", BACKGROUND).await;
    gate.permit(8);
    let first = read_until(&mut stream, "\"sequence_number\":7").await;
    drop(stream);
    assert!(soon(upstream.wait_until_closed(1)).await);
    assert_eq!(status(&upstream).await, "in_progress");
    gate.open();
    let rest = get(&upstream, "?stream=true&starting_after=7")
        .await
        .payloads();
    assert_eq!(numbers(&rest)[0], 8);
    assert!(first.contains("\"sequence_number\":0"));
    assert_eq!(rest.last().unwrap()["type"], "response.completed");
    let text = &rest.last().unwrap()["response"]["output"][0]["content"][0]["text"];
    assert_eq!(*text, Words::numbered(WORDS).text());
    assert_eq!(status(&upstream).await, "completed");
}

#[tokio::test]
async fn a_reader_that_comes_back_early_follows_what_is_still_made() {
    let gate = Gate::new();
    let upstream = Upstream::start(scenario().gate(&gate)).await.unwrap();
    drop(open(&upstream.url(), "POST", "/v1/responses", BACKGROUND).await);
    soon(upstream.wait_for_requests(1)).await;
    let mut reader = open(
        &upstream.url(),
        "GET",
        "/v1/responses/resp_1?stream=true&starting_after=1",
        "",
    )
    .await;
    soon(upstream.wait_for_requests(2)).await;
    gate.permit(3);
    let got = read_until(&mut reader, "\"sequence_number\":2").await;
    assert!(!got.contains("\"sequence_number\":1,") && !got.contains("\"sequence_number\":3"));
    gate.open();
    read_until(&mut reader, "response.completed").await;
}

#[tokio::test]
async fn polling_shows_every_state() {
    let gate = Gate::new();
    let upstream = Upstream::start(scenario().gate(&gate)).await.unwrap();
    let created = exchange(
        &upstream.url(),
        "POST",
        "/v1/responses",
        r#"{"model":"m","background":true}"#,
    )
    .await
    .json();
    assert_eq!(
        (&created["id"], &created["status"]),
        (&"resp_1".into(), &"queued".into())
    );
    assert_eq!(status(&upstream).await, "queued");
    gate.permit(5);
    // The sixth comes to the gate when five are made.
    soon(gate.wait_for_arrivals(6)).await;
    assert_eq!(status(&upstream).await, "in_progress");
    gate.open();
    get(&upstream, "?stream=true").await;
    let done = get(&upstream, "").await.json();
    assert_eq!(done["status"], "completed");
    assert_eq!(
        done["output"][0]["content"][0]["text"],
        Words::numbered(WORDS).text()
    );
    assert_eq!(done["usage"]["output_tokens"], WORDS);
}

#[tokio::test]
async fn a_cancelled_response_stops_without_a_terminal_event() {
    let gate = Gate::new();
    let upstream = Upstream::start(scenario().gate(&gate)).await.unwrap();
    let mut stream = open(&upstream.url(), "POST", "/v1/responses", BACKGROUND).await;
    gate.permit(6);
    let mut got = read_until(&mut stream, "\"sequence_number\":5").await;
    for _ in 0..2 {
        let cancelled = exchange(&upstream.url(), "POST", "/v1/responses/resp_1/cancel", "").await;
        assert_eq!(
            (cancelled.status(), &cancelled.json()["status"]),
            (200, &"cancelled".into())
        );
    }
    got += &read_until(&mut stream, "0\r\n\r\n").await;
    assert!(!got.contains("response.completed") && !got.contains("response.failed"));
    gate.open();
    assert_eq!(status(&upstream).await, "cancelled");
    let again = get(&upstream, "?stream=true").await;
    assert_eq!(
        (again.events().len(), again.body_end()),
        (6, BodyEnd::Whole)
    );
}

#[tokio::test]
async fn cancelling_a_finished_response_changes_nothing() {
    let upstream = Upstream::start(scenario()).await.unwrap();
    create(&upstream).await;
    let cancelled = exchange(&upstream.url(), "POST", "/v1/responses/resp_1/cancel", "").await;
    assert_eq!(cancelled.json()["status"], "completed");
}

#[tokio::test]
async fn a_response_can_stay_queued_for_ever() {
    let upstream = Upstream::start(scenario().stays_queued()).await.unwrap();
    let mut stream = open(&upstream.url(), "POST", "/v1/responses", BACKGROUND).await;
    read_until(&mut stream, "response.queued").await;
    drop(stream);
    assert!(soon(upstream.wait_until_closed(1)).await);
    assert_eq!(upstream.requests()[0].events_sent, 2);
    assert_eq!(status(&upstream).await, "queued");
    let reader = open(
        &upstream.url(),
        "GET",
        "/v1/responses/resp_1?stream=true&starting_after=1",
        "",
    )
    .await;
    soon(upstream.wait_for_requests(3)).await;
    drop(reader);
    assert!(soon(upstream.wait_until_closed(3)).await);
    let cancelled = exchange(&upstream.url(), "POST", "/v1/responses/resp_1/cancel", "").await;
    assert_eq!(cancelled.json()["status"], "cancelled");
}

#[tokio::test]
async fn replay_can_be_refused_or_wrong() {
    for (replay, stream, poll) in [
        (Replay::WindowClosed, 400, 200),
        (Replay::PollOnly, 400, 200),
        (Replay::Unknown, 404, 404),
        (Replay::FromStart, 200, 200),
    ] {
        let upstream = Upstream::start(scenario().replay(replay)).await.unwrap();
        let whole = create(&upstream).await.body();
        let got = get(&upstream, "?stream=true&starting_after=5").await;
        assert_eq!(got.status(), stream, "{replay:?}");
        if replay == Replay::WindowClosed {
            let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(
                message.contains("can no longer be streamed because it is more than 5 minutes old")
            );
        }
        if replay == Replay::FromStart {
            assert_eq!(got.body(), whole);
        }
        assert_eq!(get(&upstream, "").await.status(), poll, "{replay:?}");
    }
}

#[tokio::test]
async fn a_foreground_response_is_not_kept() {
    let upstream = Upstream::start(scenario()).await.unwrap();
    let got = exchange(
        &upstream.url(),
        "POST",
        "/v1/responses",
        r#"{"stream":true}"#,
    )
    .await;
    assert_eq!(text_of(&got.payloads()), Words::numbered(WORDS).text());
    assert_eq!(
        get(&upstream, "?stream=true&starting_after=2")
            .await
            .status(),
        404
    );
    assert_eq!(get(&upstream, "").await.status(), 404);
}

#[tokio::test]
async fn faults_work_on_replays_by_request_number() {
    let upstream = Upstream::start(
        scenario()
            .on(1, Fault::reset().after_event(6))
            .on(2, Fault::close().after_event(2))
            .on(3, Fault::window_closed())
            .on(
                4,
                Fault::pings_only(Duration::from_millis(1)).after_event(1),
            ),
    )
    .await
    .unwrap();
    assert_eq!(
        numbers(&create(&upstream).await.payloads()),
        [0, 1, 2, 3, 4, 5]
    );
    let second = get(&upstream, "?stream=true&starting_after=5").await;
    assert_eq!(numbers(&second.payloads()), [6, 7]);
    assert_eq!(
        get(&upstream, "?stream=true&starting_after=7")
            .await
            .status(),
        400
    );
    let mut fourth = open(
        &upstream.url(),
        "GET",
        "/v1/responses/resp_1?stream=true&starting_after=7",
        "",
    )
    .await;
    // Pings go on with the numbers of the replay.
    read_until(
        &mut fourth,
        "{\"sequence_number\":9,\"type\":\"keepalive\"}",
    )
    .await;
}

#[tokio::test]
async fn a_pace_in_time_makes_the_same_response() {
    let paced = Upstream::start(scenario().pace(Duration::from_millis(1)))
        .await
        .unwrap();
    let free = Upstream::start(scenario()).await.unwrap();
    assert_eq!(create(&paced).await.body(), create(&free).await.body());
}
