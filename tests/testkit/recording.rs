//! What a server records, its gates, its limits and its end.

use crate::wire::{BodyEnd, STREAM, ask, exchange, find, open, read_until, request, soon};
use streamkeep::proto::model::Dialect;
use streamkeep::testkit::{EndedBy, Fault, Gate, Scenario, Upstream, Words};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CHAT: Dialect = Dialect::OpenAiChat;
const PATH: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_request_is_recorded_as_it_came() {
    let upstream = Upstream::start(Scenario::openai_chat()).await.unwrap();
    let mut stream = TcpStream::connect(upstream.address()).await.unwrap();
    let raw = format!(
        "POST {PATH}?a=b HTTP/1.1\r\nIdempotency-Key: k1\r\nAuthorization: Bearer secret-word\r\n\
         Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
    );
    stream.write_all(raw.as_bytes()).await.unwrap();
    let seen = soon(upstream.wait_for_requests(1)).await.remove(0);
    assert_eq!((seen.number, seen.connection), (1, 1));
    assert_eq!(
        (seen.method.as_str(), seen.target.as_str()),
        ("POST", "/v1/chat/completions?a=b")
    );
    assert_eq!(seen.header("idempotency-key"), Some("k1"));
    assert_eq!(seen.header("IDEMPOTENCY-KEY"), Some("k1"));
    assert_eq!(
        (&seen.body[..], seen.json()),
        (&b"{}"[..], Some(serde_json::json!({})))
    );
    let shown = format!("{seen:?}");
    assert!(
        shown.contains("authorization") && !shown.contains("secret-word"),
        "{shown}"
    );
}

#[tokio::test]
async fn requests_and_connections_are_numbered_in_order_of_arrival() {
    let upstream = Upstream::start(Scenario::openai_chat()).await.unwrap();
    for _ in 0..3 {
        ask(&upstream.url(), CHAT).await;
    }
    let numbers: Vec<(usize, usize)> = upstream
        .requests()
        .iter()
        .map(|r| (r.number, r.connection))
        .collect();
    assert_eq!(numbers, [(1, 1), (2, 2), (3, 3)]);
    assert!(upstream.requests().is_sorted_by_key(|r| r.arrived));
    assert_eq!(upstream.connections(), 3);
}

#[tokio::test]
async fn a_gate_lets_events_through_one_by_one() {
    let gate = Gate::new();
    let upstream = Upstream::start(Scenario::openai_chat().words(10).gate(&gate))
        .await
        .unwrap();
    let mut stream = open(&upstream.url(), "POST", PATH, STREAM).await;
    // The head does not wait.
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    for n in 1..=3_usize {
        assert_eq!(upstream.requests()[0].events_sent, n - 1);
        gate.permit(1);
        let event = read_until(&mut stream, "\n\n\r\n").await;
        assert_eq!(event.matches("data: ").count(), 1);
        soon(gate.wait_for_arrivals(u64::try_from(n).unwrap() + 1)).await;
    }
    gate.open();
    read_until(&mut stream, "[DONE]").await;
    assert!(!soon(upstream.wait_until_closed(1)).await);
    assert_eq!(upstream.requests()[0].end.unwrap().by, EndedBy::Server);
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_while_the_server_waits() {
    let gate = Gate::new();
    let upstream = Upstream::start(Scenario::openai_chat().words(10).gate(&gate))
        .await
        .unwrap();
    let mut stream = open(&upstream.url(), "POST", PATH, STREAM).await;
    gate.permit(4);
    read_until(&mut stream, "w3").await;
    soon(gate.wait_for_arrivals(5)).await;
    drop(stream);
    assert!(soon(upstream.wait_until_closed(1)).await);
    let seen = &upstream.requests()[0];
    assert_eq!(seen.events_sent, 4);
    assert!(seen.closed_by_client().unwrap() >= seen.arrived);
}

#[tokio::test]
async fn connections_close_unless_they_are_to_be_kept() {
    let closing = Upstream::start(Scenario::openai_chat()).await.unwrap();
    assert_eq!(
        ask(&closing.url(), CHAT).await.header("connection"),
        Some("close")
    );

    let keeping = Upstream::start(Scenario::openai_chat().words(3).keep_alive())
        .await
        .unwrap();
    let mut stream = TcpStream::connect(keeping.address()).await.unwrap();
    // The second request comes before the first is answered.
    let two = request("POST", PATH, STREAM).repeat(2);
    stream.write_all(two.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    while all.windows(5).filter(|w| w == b"0\r\n\r\n").count() < 2 {
        assert_ne!(soon(stream.read_buf(&mut all)).await.unwrap(), 0);
    }
    assert!(find(&all, b"chatcmpl-1").unwrap() < find(&all, b"chatcmpl-2").unwrap());
    let last = request("POST", PATH, STREAM).replace("Host: x", "Connection: close");
    stream.write_all(last.as_bytes()).await.unwrap();
    let third = crate::wire::read_to_end(&mut stream).await;
    assert_eq!(
        (third.header("connection"), third.body_end()),
        (Some("close"), BodyEnd::Whole)
    );
    let connections: Vec<usize> = keeping.requests().iter().map(|r| r.connection).collect();
    assert_eq!(connections, [1, 1, 1]);
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on() {
    let upstream = Upstream::start(Scenario::openai_chat()).await.unwrap();
    let mut stream = TcpStream::connect(upstream.address()).await.unwrap();
    let head = format!("POST {PATH} HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n").await;
    stream.write_all(b"{}").await.unwrap();
    read_until(&mut stream, "HTTP/1.1 200 OK").await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_not_recorded() {
    let upstream = Upstream::start(Scenario::openai_chat().max_request(500, 100))
        .await
        .unwrap();
    let url = upstream.url();
    let body = "x".repeat(101);
    assert_eq!(exchange(&url, "POST", PATH, &body).await.status(), 413);
    let target = format!("/{}", "y".repeat(600));
    assert_eq!(exchange(&url, "GET", &target, "").await.status(), 431);
    assert_eq!(exchange(&url, "no such thing", "/", "").await.status(), 400);
    assert_eq!(upstream.requests().len(), 0);
    assert_eq!(ask(&url, CHAT).await.status(), 200);
}

#[tokio::test]
async fn recording_is_bounded_and_counting_is_not() {
    let upstream = Upstream::start(Scenario::openai_chat().max_recorded(2))
        .await
        .unwrap();
    for _ in 0..4 {
        assert_eq!(ask(&upstream.url(), CHAT).await.status(), 200);
    }
    let seen = soon(upstream.wait_for_requests(4)).await;
    assert_eq!(seen.len(), 2);
    assert!(!soon(upstream.wait_until_closed(4)).await);
}

#[tokio::test]
async fn headers_of_the_scenario_are_on_every_response() {
    let scenario = Scenario::anthropic().header("anthropic-ratelimit-requests-remaining", "0");
    let upstream = Upstream::start(scenario).await.unwrap();
    let got = ask(&upstream.url(), Dialect::AnthropicMessages).await;
    assert_eq!(
        got.header("anthropic-ratelimit-requests-remaining"),
        Some("0")
    );
    assert_eq!(got.header("request-id"), Some("req_1"));
}

#[tokio::test]
async fn a_server_that_is_dropped_or_stopped_leaves_nothing_behind() {
    for stop in [false, true] {
        let gate = Gate::new();
        let upstream = Upstream::start(Scenario::openai_chat().gate(&gate))
            .await
            .unwrap();
        let address = upstream.address();
        let mut stream = open(&upstream.url(), "POST", PATH, STREAM).await;
        soon(gate.wait_for_arrivals(1)).await;
        if stop {
            soon(upstream.stop()).await;
        } else {
            drop(upstream);
        }
        // The connection ends, and with it the task that held the gate.
        let mut rest = Vec::new();
        let _ = soon(stream.read_to_end(&mut rest)).await;
        if stop {
            assert!(TcpStream::connect(address).await.is_err());
        }
    }
}

#[tokio::test]
async fn an_event_that_a_fault_cuts_in_two_takes_one_permit() {
    for fault in [
        Fault::split_utf8(),
        Fault::insert(": in between\n\n").after_byte(400),
    ] {
        let gate = Gate::new();
        let scenario = Scenario::openai_chat()
            .text(Words::prefixed("größe", 5))
            .gate(&gate)
            .on(1, fault);
        let upstream = Upstream::start(scenario).await.unwrap();
        // A role, five words, a finish reason, usage and the end marker.
        gate.permit(9);
        let got = ask(&upstream.url(), CHAT).await;
        assert_eq!(got.body_end(), BodyEnd::Whole);
        assert_eq!(gate.arrivals(), 9);
    }
}
