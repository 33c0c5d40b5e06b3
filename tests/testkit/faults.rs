//! Each fault, byte for byte.

use crate::Numbers;
use crate::wire::{
    BodyEnd, End, Received, STREAM, ask, exchange, open, read_to_end, read_until, soon,
};
use serde_json::Value;
use std::time::Duration;
use streamkeep::proto::model::Dialect;
use streamkeep::testkit::{ClosedPort, EndedBy, Failure, Fault, Gate, Scenario, Upstream, Words};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

const CHAT: Dialect = Dialect::OpenAiChat;

/// What one request gets, and how the server says it ended.
async fn with(scenario: Scenario, dialect: Dialect) -> (Received, EndedBy) {
    let upstream = Upstream::start(scenario).await.unwrap();
    let got = ask(&upstream.url(), dialect).await;
    upstream.wait_until_closed(1).await;
    let by = upstream.requests()[0].end.unwrap().by;
    (got, by)
}

async fn chat(fault: Fault) -> Received {
    with(Scenario::openai_chat().words(10).on(1, fault), CHAT)
        .await
        .0
}

async fn unfaulted(dialect: Dialect) -> Received {
    with(Scenario::of(dialect).words(10), dialect).await.0
}

#[tokio::test]
async fn a_cut_at_any_byte_gives_exactly_that_many_bytes_of_the_whole_body() {
    let mut numbers = Numbers(7);
    for dialect in Dialect::ALL {
        let whole = unfaulted(*dialect).await.body();
        let edges = [0, 1, whole.len() - 1, whole.len()];
        let some = (0..30).map(|_| numbers.below(whole.len()));
        for n in edges.into_iter().chain(some.collect::<Vec<_>>()) {
            for (fault, end) in [(Fault::close(), End::Fin), (Fault::reset(), End::Rst)] {
                let fault = fault.after_byte(u64::try_from(n).unwrap());
                let scenario = Scenario::of(*dialect).words(10).on(1, fault);
                let (got, by) = with(scenario, *dialect).await;
                assert_eq!(got.body(), &whole[..n], "{dialect} at {n}");
                assert_eq!((got.end, by), (end, EndedBy::Fault), "{dialect} at {n}");
                assert_eq!(got.body_end(), BodyEnd::Short, "{dialect} at {n}");
            }
        }
    }
}

#[tokio::test]
async fn a_cut_after_any_event_gives_exactly_those_events() {
    for dialect in Dialect::ALL {
        let (whole, _) = unfaulted(*dialect).await.chunks();
        for n in 0..=whole.len() {
            let scenario = Scenario::of(*dialect)
                .words(10)
                .on(1, Fault::close().after_event(n));
            let (got, _) = with(scenario, *dialect).await;
            assert_eq!(
                got.chunks(),
                (whole[..n].to_vec(), BodyEnd::Short),
                "{dialect} at {n}"
            );
        }
    }
}

#[tokio::test]
async fn before_the_head_no_byte_comes() {
    for (fault, end) in [
        (Fault::close(), End::Fin),
        (Fault::reset(), End::Rst),
        (Fault::close().after_event(3).before_head(), End::Fin),
    ] {
        let got = chat(fault).await;
        assert_eq!((got.head.as_str(), got.rest.len(), got.end), ("", 0, end));
    }
}

#[tokio::test]
async fn after_the_head_the_head_comes() {
    let got = chat(Fault::reset().after_head()).await;
    assert_eq!((got.status(), got.rest.len(), got.end), (200, 0, End::Rst));
}

#[tokio::test]
async fn a_refused_connection_is_reset_unread_and_counts_as_a_request() {
    let upstream = Upstream::start(Scenario::openai_chat().on(1, Fault::refuse()))
        .await
        .unwrap();
    let address = upstream.address();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let error = soon(stream.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(ask(&upstream.url(), CHAT).await.status(), 200);
    let requests = upstream.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(
        (requests[0].method.as_str(), requests[1].method.as_str()),
        ("", "POST")
    );
}

#[tokio::test]
async fn nobody_listens_on_a_closed_port_and_nobody_else_can() {
    let port = ClosedPort::take().unwrap();
    let address = port.url().strip_prefix("http://").unwrap().to_owned();
    let error = TcpStream::connect(&address).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    let error = TcpListener::bind(port.address()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn a_stall_lasts_until_the_client_leaves() {
    let scenario = Scenario::openai_chat()
        .words(10)
        .on(1, Fault::stall().after_event(3))
        .on(2, Fault::stall());
    let upstream = Upstream::start(scenario).await.unwrap();
    let mut stream = open(&upstream.url(), "POST", "/v1/chat/completions", STREAM).await;
    read_until(&mut stream, "w2").await;
    assert_eq!(upstream.requests()[0].closed_by_client(), None);
    drop(stream);
    assert!(soon(upstream.wait_until_closed(1)).await);
    assert_eq!(upstream.requests()[0].events_sent, 3);

    let stream = open(&upstream.url(), "POST", "/v1/chat/completions", STREAM).await;
    soon(upstream.wait_for_requests(2)).await;
    drop(stream);
    assert!(soon(upstream.wait_until_closed(2)).await);
    assert_eq!(upstream.requests()[1].bytes_sent, 0);
}

#[tokio::test]
async fn a_gate_ends_a_stall_and_a_slow_head() {
    for fault in [
        Fault::stall().after_event(3),
        Fault::stall(),
        Fault::slow_head(Duration::MAX),
    ] {
        let gate = Gate::new();
        let upstream = Upstream::start(Scenario::openai_chat().words(10).on(1, fault.until(&gate)))
            .await
            .unwrap();
        let mut stream = open(&upstream.url(), "POST", "/v1/chat/completions", STREAM).await;
        soon(gate.wait_for_arrivals(1)).await;
        assert!(upstream.requests()[0].end.is_none());
        gate.permit(1);
        let got = read_to_end(&mut stream).await;
        assert_eq!(got.body(), unfaulted(CHAT).await.body());
    }
}

#[tokio::test]
async fn a_stall_or_a_slow_head_can_last_a_while_and_then_go_on() {
    let short = Duration::from_millis(5);
    for fault in [
        Fault::slow_head(short),
        Fault::stall().after_event(2).lasting(short),
    ] {
        assert_eq!(chat(fault).await.body(), unfaulted(CHAT).await.body());
    }
}

#[tokio::test]
async fn a_clean_end_can_lack_the_terminal_event() {
    for dialect in Dialect::ALL {
        let whole = unfaulted(*dialect).await.body();
        for fault in [Fault::end(), Fault::missing_terminal()] {
            let (got, _) = with(Scenario::of(*dialect).words(10).on(1, fault), *dialect).await;
            assert_eq!((got.end, got.body_end()), (End::Fin, BodyEnd::Whole));
            assert!(whole.starts_with(&got.body()) && got.body().len() < whole.len());
            let text = String::from_utf8(got.body()).unwrap();
            for proof in [
                "finish_reason\":\"",
                "[DONE]",
                "response.completed",
                "message_delta",
                "message_stop",
                "finishReason",
            ] {
                assert!(!text.contains(proof), "{proof}");
            }
            assert!(text.contains("w10"));
        }
    }
    let got = chat(Fault::end().after_event(4)).await;
    assert_eq!((got.events().len(), got.body_end()), (4, BodyEnd::Whole));
}

#[tokio::test]
async fn the_end_marker_and_the_finish_reason_can_be_missing_one_by_one() {
    let text = |got: Received| String::from_utf8(got.body()).unwrap();
    let no_done = text(chat(Fault::missing_done()).await);
    assert!(!no_done.contains("[DONE]") && no_done.contains("\"finish_reason\":\"stop\""));
    let no_finish = text(chat(Fault::missing_finish()).await);
    assert!(no_finish.ends_with("data: [DONE]\n\n"));
    assert!(!no_finish.contains("\"finish_reason\":\"stop\""));

    let dialect = Dialect::AnthropicMessages;
    let scenario = |fault| Scenario::anthropic().on(1, fault);
    let no_stop = text(with(scenario(Fault::missing_done()), dialect).await.0);
    assert!(!no_stop.contains("message_stop") && no_stop.contains("end_turn"));
    let no_reason = text(with(scenario(Fault::missing_finish()), dialect).await.0);
    assert!(no_reason.contains("message_stop") && !no_reason.contains("end_turn"));
}

#[tokio::test]
async fn an_error_in_band_has_the_dialects_shape_and_ends_the_body() {
    for dialect in Dialect::ALL {
        for failure in Failure::ALL {
            for at in [0, 5] {
                let scenario = Scenario::of(*dialect)
                    .words(10)
                    .on(1, Fault::error(*failure).after_event(at));
                let (got, _) = with(scenario, *dialect).await;
                assert_eq!((got.status(), got.body_end()), (200, BodyEnd::Whole));
                check_in_band(*dialect, *failure, at, &got);
            }
        }
    }
}

fn check_in_band(dialect: Dialect, failure: Failure, at: usize, got: &Received) {
    let all = got.payloads();
    let error = &all[at];
    match dialect {
        Dialect::OpenAiChat => {
            assert_eq!(all.len(), at + 1);
            assert_eq!(got.events().last().unwrap().1, "[DONE]");
            for key in ["message", "type", "param", "code"] {
                assert!(error["error"].get(key).is_some(), "{key}");
            }
        }
        Dialect::GeminiGenerate => {
            assert_eq!(all.len(), at + 1);
            for key in ["message", "status", "code"] {
                assert!(error["error"].get(key).is_some(), "{key}");
            }
        }
        Dialect::AnthropicMessages => {
            assert_eq!(all.len(), at + 1);
            assert_eq!(got.events()[at].0, "error");
            assert!(error["error"]["type"].as_str().unwrap().ends_with("_error"));
        }
        _ => {
            let overloaded = failure == Failure::Overloaded;
            assert_eq!(all.len(), at + 1 + usize::from(overloaded));
            let failed = all.last().unwrap();
            assert_eq!(failed["type"], "response.failed");
            assert_eq!(failed["response"]["status"], "failed");
            assert!(failed["response"]["error"]["code"].is_string());
            if overloaded {
                assert_eq!(
                    (&error["type"], &error["code"]),
                    (&"error".into(), &"server_is_overloaded".into())
                );
            }
            let numbers: Vec<u64> = all
                .iter()
                .map(|e| e["sequence_number"].as_u64().unwrap())
                .collect();
            let dense: Vec<u64> = (0..).take(numbers.len()).collect();
            assert_eq!(numbers, dense);
        }
    }
}

#[tokio::test]
async fn a_chunk_border_can_fall_inside_a_character() {
    let text = Words::prefixed("größe東", 10);
    let scenario = Scenario::openai_chat().text(text.clone());
    let (whole, _) = with(scenario.clone(), CHAT).await;
    let (got, by) = with(scenario.on(1, Fault::split_utf8()), CHAT).await;
    assert_eq!(got.body(), whole.body());
    assert_eq!((got.body_end(), by), (BodyEnd::Whole, EndedBy::Server));
    let broken = |chunk: &&Vec<u8>| std::str::from_utf8(chunk).is_err();
    // Each of the ten events with text is in two chunks that are no UTF-8.
    assert_eq!(got.chunks().0.iter().filter(broken).count(), 20);
    assert_eq!(whole.chunks().0.iter().filter(broken).count(), 0);
}

#[tokio::test]
async fn a_body_can_be_cut_inside_a_character() {
    let scenario = Scenario::openai_chat().text(Words::prefixed("größe", 10));
    let whole = with(scenario.clone(), CHAT).await.0.body();
    for after in [0, 4] {
        let fault = Fault::cut_utf8().after_event(after);
        let (got, _) = with(scenario.clone().on(1, fault), CHAT).await;
        let body = got.body();
        assert!(whole.starts_with(&body));
        let error = std::str::from_utf8(&body).unwrap_err();
        assert_eq!(
            (error.error_len(), error.valid_up_to()),
            (None, body.len() - 1)
        );
        let events = body.windows(2).filter(|w| w == b"\n\n").count();
        assert_eq!(events, after.max(1));
        assert_eq!((got.body_end(), got.end), (BodyEnd::Short, End::Fin));
    }
}

#[tokio::test]
async fn a_fault_that_does_not_fit_is_loud() {
    for fault in [Fault::split_utf8(), Fault::cut_utf8()] {
        let got = chat(fault).await;
        assert_eq!(got.status(), 500);
        assert!(got.header("x-testkit-error").is_some());
    }
}

#[tokio::test]
async fn a_content_length_can_be_wrong_both_ways() {
    let whole = unfaulted(CHAT).await.body();
    let long = chat(Fault::content_length_off_by(10)).await;
    assert_eq!(
        long.header("content-length"),
        Some((whole.len() + 10).to_string().as_str())
    );
    assert_eq!(
        (long.body(), long.body_end()),
        (whole.clone(), BodyEnd::Short)
    );
    let short = chat(Fault::content_length_off_by(-10)).await;
    assert_eq!(short.body_end(), BodyEnd::Surplus);
    assert_eq!(short.rest, whole);
    assert_eq!(short.body(), &whole[..whole.len() - 10]);
}

#[tokio::test]
async fn a_chunk_size_can_be_garbage() {
    let got = chat(Fault::garbage_chunk_size().after_event(2)).await;
    let (chunks, end) = got.chunks();
    assert_eq!(
        (chunks.len(), end, got.end),
        (2, BodyEnd::Garbage, End::Fin)
    );
}

#[tokio::test]
async fn an_event_can_come_twice() {
    let (whole, _) = unfaulted(CHAT).await.chunks();
    for (fault, at) in [
        (Fault::duplicate_event(), 1),
        (Fault::duplicate_event().after_event(4), 3),
    ] {
        let mut expected = whole.clone();
        expected.insert(at, whole[at].clone());
        assert_eq!(chat(fault).await.chunks(), (expected, BodyEnd::Whole));
    }
}

#[tokio::test]
async fn an_events_json_can_be_cut_in_half() {
    for dialect in Dialect::ALL {
        let scenario = Scenario::of(*dialect)
            .words(10)
            .on(1, Fault::malformed_event().after_event(4));
        let (got, _) = with(scenario, *dialect).await;
        let whole = unfaulted(*dialect).await.events();
        let events = got.events();
        assert_eq!(events.len(), whole.len());
        for (position, (got, whole)) in events.iter().zip(&whole).enumerate() {
            if position == 4 {
                assert_eq!(got.0, whole.0);
                assert!(whole.1.starts_with(&got.1) && got.1.starts_with('{'));
                assert!(serde_json::from_str::<Value>(&got.1).is_err());
            } else {
                assert_eq!(got, whole);
            }
        }
    }
}

#[tokio::test]
async fn bytes_can_come_in_between() {
    let (mut whole, _) = unfaulted(CHAT).await.chunks();
    whole.insert(2, b"data: noise\n\n".to_vec());
    let got = chat(Fault::insert("data: noise\n\n").after_event(2)).await;
    assert_eq!(got.chunks(), (whole, BodyEnd::Whole));
}

#[tokio::test]
async fn a_status_has_the_dialects_body_and_the_headers_asked_for() {
    for dialect in Dialect::ALL {
        let fault = Fault::status(429)
            .retry_after(3)
            .retry_after_ms(1500)
            .should_retry(false)
            .message("slow down");
        let (got, _) = with(Scenario::of(*dialect).on(1, fault), *dialect).await;
        assert_eq!(got.status(), 429);
        assert_eq!(got.header("retry-after"), Some("3"));
        assert_eq!(got.header("retry-after-ms"), Some("1500"));
        assert_eq!(got.header("x-should-retry"), Some("false"));
        let word = match dialect {
            Dialect::GeminiGenerate => ("status", "RESOURCE_EXHAUSTED"),
            _ => ("type", "rate_limit_error"),
        };
        assert_eq!(got.json()["error"][word.0], word.1);
        assert_eq!(got.json()["error"]["message"], "slow down");
        assert_eq!(got.body_end(), BodyEnd::Whole);
    }
}

#[tokio::test]
async fn a_failure_has_each_providers_own_status() {
    for (dialect, failure, status) in [
        (Dialect::OpenAiChat, Failure::Overloaded, 503),
        (Dialect::AnthropicMessages, Failure::Overloaded, 529),
        (Dialect::OpenAiChat, Failure::Quota, 429),
        (Dialect::AnthropicMessages, Failure::Quota, 402),
    ] {
        let (got, _) = with(
            Scenario::of(dialect).on(1, Fault::failure(failure)),
            dialect,
        )
        .await;
        assert_eq!(got.status(), status);
    }
}

#[tokio::test]
async fn a_status_can_have_any_body_and_a_header_cannot_smuggle_another() {
    let fault = Fault::status(502)
        .body("<html>bad gateway</html>")
        .header("content-type", "text/html")
        .header("x-a", "b\r\nx-c: d");
    let got = chat(fault).await;
    assert_eq!(got.status(), 502);
    assert_eq!(got.header("content-type"), Some("text/html"));
    assert_eq!(got.body(), b"<html>bad gateway</html>");
    assert_eq!(
        (got.header("x-a"), got.header("x-c")),
        (Some("b  x-c: d"), None)
    );
}

#[tokio::test]
async fn status_200_can_hold_something_else() {
    let html = chat(Fault::html_page()).await;
    assert_eq!(
        html.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(html.body().starts_with(b"<!DOCTYPE html>"));
    let json = chat(Fault::json_error(Failure::Overloaded)).await;
    assert_eq!(json.header("content-type"), Some("application/json"));
    assert_eq!(json.json()["error"]["code"], "server_is_overloaded");
    let empty = chat(Fault::empty()).await;
    assert_eq!(empty.header("content-type"), Some("text/event-stream"));
    assert_eq!((empty.body().len(), empty.body_end()), (0, BodyEnd::Whole));
    let typed = chat(Fault::content_type("text/plain")).await;
    assert_eq!(typed.header("content-type"), Some("text/plain"));
    assert_eq!(typed.body(), unfaulted(CHAT).await.body());
    for got in [html, json, empty] {
        assert_eq!(got.status(), 200);
    }
}

#[tokio::test]
async fn pings_come_until_the_client_leaves() {
    for (dialect, third) in [
        (Dialect::OpenAiChat, ": keep-alive\n\n"),
        (Dialect::AnthropicMessages, "{\"type\":\"ping\"}"),
        (
            Dialect::OpenAiResponses,
            "{\"sequence_number\":2,\"type\":\"keepalive\"}",
        ),
    ] {
        let scenario = Scenario::of(dialect).on(1, Fault::pings_only(Duration::from_millis(1)));
        let upstream = Upstream::start(scenario).await.unwrap();
        let path = crate::wire::path(dialect);
        let mut stream = open(&upstream.url(), "POST", path, STREAM).await;
        let mut got = String::new();
        while got.matches("\n\n").count() < 4 || !got.contains(third) {
            got += &read_until(&mut stream, "\n\n").await;
        }
        assert!(!got.contains("w1"));
        drop(stream);
        assert!(soon(upstream.wait_until_closed(1)).await);
    }
}

#[tokio::test]
async fn faults_of_one_request_work_together_and_others_are_left_alone() {
    let scenario = Scenario::openai_chat()
        .words(10)
        .on(1, Fault::content_type("text/plain"))
        .on(1, Fault::duplicate_event().after_event(2))
        .on(1, Fault::close().after_event(5))
        .on(3, Fault::none())
        .otherwise(Fault::status(503));
    let upstream = Upstream::start(scenario).await.unwrap();
    let url = upstream.url();
    let (whole, _) = unfaulted(CHAT).await.chunks();
    let first = ask(&url, CHAT).await;
    assert_eq!(first.header("content-type"), Some("text/plain"));
    let expected: Vec<Vec<u8>> = [0, 1, 1, 2, 3].map(|at| whole[at].clone()).to_vec();
    assert_eq!(first.chunks(), (expected, BodyEnd::Short));
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(ask(&url, CHAT).await.status());
    }
    assert_eq!(statuses, [503, 200, 503]);
}

#[tokio::test]
async fn a_fault_works_on_a_document_too() {
    let upstream = Upstream::start(Scenario::openai_chat().on(1, Fault::close().after_byte(20)))
        .await
        .unwrap();
    let got = exchange(&upstream.url(), "POST", "/v1/chat/completions", "{}").await;
    assert_eq!((got.rest.len(), got.body_end()), (20, BodyEnd::Short));
}
