//! What is told of operations: the span, its events, and every metric.
#![cfg(all(feature = "conformance", feature = "prometheus", feature = "testkit"))]
#![cfg(test)] // else the lints take the helpers for production code

#[path = "telling/dashboards.rs"]
mod dashboards;
#[path = "support/ear.rs"]
mod ear;
#[path = "support/events.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod events;
#[path = "telling/rendered.rs"]
mod rendered;

use ear::Heard;
use events::{CREATED, DONE, HEL, LO, ROLE, STOP, completed, delta};
use rendered::{Series, series};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use streamkeep::client::Handle;
use streamkeep::client::telling::{METRICS, MetricKind, Recorder};
use streamkeep::proto::cost::PriceTable;
use streamkeep::proto::model::ResponseHead;
use streamkeep::proto::operation::{Hold, Route};
use streamkeep::store::{Fault, FaultyStore, MemoryStore, Store};
use streamkeep::transport::memory::{Exchange, MemoryTransport};
use streamkeep::{Client, Dialect, ErrorKind, Key, Request};

const MILLI: Duration = Duration::from_millis(1);
const PROMPT: &str = "a-private-prompt";
const USAGE: &str = "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";

/// The recorder of this process. Each test tells its numbers apart by its route.
fn recorder() -> &'static Recorder {
    static RECORDER: OnceLock<Recorder> = OnceLock::new();
    RECORDER.get_or_init(|| {
        ear::listen();
        Recorder::install().unwrap()
    })
}

fn client(transport: &MemoryTransport) -> Client {
    recorder();
    let prices = r#"{"currency":"USD","models":{"m":{"input":"1.00","output":"10.00","cached_input":"0.10"}}}"#;
    let prices: PriceTable = serde_json::from_str(prices).unwrap();
    Client::builder()
        .transport(transport.clone())
        .store(MemoryStore::new())
        .prices(prices)
        .build()
        .unwrap()
}

fn chat() -> Request {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{PROMPT}"}}]}}"#);
    let url = "https://api.openai.com/v1/chat/completions";
    Request::new(Dialect::OpenAiChat, url, body).unwrap()
}

fn sse() -> Exchange {
    Exchange::new().head(ResponseHead {
        status: 200,
        headers: vec![
            ("content-type".to_owned(), "text/event-stream".to_owned()),
            ("x-request-id".to_owned(), "req_1".to_owned()),
        ],
    })
}

fn whole(text: &str) -> Exchange {
    sse()
        .chunk(ROLE)
        .chunk(delta(text))
        .chunk(format!("{STOP}{USAGE}{DONE}"))
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// The sum of the series of a metric that have all of these labels.
fn sum(name: &str, wanted: &[(&str, &str)]) -> f64 {
    let has = |series: &Series| {
        wanted
            .iter()
            .all(|(label, value)| series.labels.get(*label).is_some_and(|v| v == value))
    };
    series(&recorder().render())
        .iter()
        .filter(|series| series.name == name && has(series))
        .map(|series| series.value)
        .sum()
}

/// Whole numbers, compared as such.
#[track_caller]
fn counts(name: &str, wanted: &[(&str, &str)], expected: u32) {
    let found = sum(name, wanted);
    assert!(
        (found - f64::from(expected)).abs() < 0.5,
        "{name} {wanted:?}: expected {expected}, but found {found}"
    );
}

/// The last of what was heard under this key in an event that says this.
fn event(key: &str, message: &str) -> Heard {
    let of_it = |heard: &Heard| {
        heard.what != "span"
            && heard.get("streamkeep.key") == Some(key)
            && heard.get("message") == Some(message)
    };
    ear::heard().into_iter().rfind(of_it).unwrap()
}

/// What is told of an operation is told before its outcome.
async fn rests(handle: &Handle) {
    handle.outcome().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_metric_of_the_table_is_emitted_with_its_labels() {
    let transport = MemoryTransport::new();
    // Refused, cut while it is held back, whole.
    transport.push(Exchange::new().status(503));
    transport.push(
        sse()
            .chunk(": hello\n\n")
            .wait(300 * MILLI)
            .chunk(delta("Half of"))
            .wait(40 * MILLI)
            .chunk(delta(" it"))
            .breaks(ErrorKind::Reset),
    );
    transport.push(whole("Whole"));
    let client = client(&transport);
    let call = || client.call(chat()).key(key("all")).route_name("all");
    rests(&call().hold(Hold::UntilComplete).start().await.unwrap()).await;
    rests(&call().start().await.unwrap()).await;
    // Cut after it was shown.
    transport.push(sse().chunk(delta("Cut")).breaks(ErrorKind::BodyFraming));
    rests(&client.call(chat()).route_name("all").start().await.unwrap()).await;

    let text = recorder().render();
    let found = series(&text);
    for metric in METRICS {
        let its: Vec<_> = found.iter().filter(|s| s.of(metric.name)).collect();
        assert!(!its.is_empty(), "{} was not emitted", metric.name);
        for series in its {
            let labels: BTreeSet<_> = series.labels.keys().map(String::as_str).collect();
            let of_buckets = BTreeSet::from(["le"]);
            let expected: BTreeSet<_> = metric.labels.iter().copied().collect();
            let labels: BTreeSet<_> = labels.difference(&of_buckets).copied().collect();
            assert_eq!(labels, expected, "{}", metric.name);
        }
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            other => panic!("a kind this test does not know: {other:?}"),
        };
        assert!(
            text.contains(&format!("# TYPE {} {kind}\n", metric.name)),
            "{}",
            metric.name
        );
        assert!(
            text.contains(&format!("# HELP {} ", metric.name)),
            "{}",
            metric.name
        );
    }
    let known = |series: &Series| METRICS.iter().any(|metric| series.of(metric.name));
    let others: Vec<_> = found.iter().filter(|s| !known(s)).collect();
    assert!(others.is_empty(), "not in the table: {others:?}");
}

#[tokio::test(start_paused = true)]
async fn retries_amplification_and_what_was_given_up_can_be_told_from_the_counters() {
    let transport = MemoryTransport::new();
    transport.push(Exchange::new().status(503));
    transport.push(sse().chunk(delta("Half of it!!")).breaks(ErrorKind::Reset));
    transport.push(whole("Whole"));
    let client = client(&transport);
    let call = client.call(chat()).key(key("sums")).route_name("sums");
    rests(&call.hold(Hold::UntilComplete).start().await.unwrap()).await;

    let route = ("route", "sums");
    counts(
        "streamkeep_attempts_total",
        &[route, ("kind", "first"), ("decision", "retry")],
        1,
    );
    counts(
        "streamkeep_attempts_total",
        &[route, ("kind", "retry"), ("decision", "rerun")],
        1,
    );
    counts(
        "streamkeep_attempts_total",
        &[route, ("kind", "rerun"), ("decision", "finish")],
        1,
    );
    counts(
        "streamkeep_operations_total",
        &[route, ("outcome", "complete"), ("code", "none")],
        1,
    );
    let failed = [
        route,
        ("code", "overloaded"),
        ("class", "provider"),
        ("phase", "pre_stream"),
    ];
    counts("streamkeep_attempt_failures_total", &failed, 1);
    counts("streamkeep_interruptions_total", &[route], 0);
    // 12 characters; the prompt is the one that the last attempt counted.
    for (kind, basis, fate, expected) in [
        ("output", "estimated", "orphan", 3),
        ("input", "estimated", "orphan", 10),
        ("output", "reported", "delivered", 2),
        ("input", "reported", "delivered", 6),
        ("cached_input", "reported", "delivered", 4),
    ] {
        let labels = [route, ("type", kind), ("basis", basis), ("fate", fate)];
        counts("streamkeep_tokens_total", &labels, expected);
    }
    for (fate, expected) in [
        ("orphan", 3 * 10_000 + 10 * 1_000),
        ("delivered", 2 * 10_000 + 6 * 1_000 + 4 * 100),
    ] {
        let labels = [route, ("currency", "USD"), ("fate", fate)];
        counts("streamkeep_cost_nanos_total", &labels, expected);
    }

    let told = event("sums", "operation ended");
    assert_eq!(told.get("streamkeep.orphan_tokens"), Some("3"));
    assert_eq!(told.get("streamkeep.cost"), Some("0.0000664"));
    assert_eq!(told.get("streamkeep.orphan_cost"), Some("0.00004"));
}

#[tokio::test(start_paused = true)]
async fn first_tokens_and_gaps_are_in_the_buckets_where_they_belong() {
    let transport = MemoryTransport::new();
    transport.push(
        sse()
            .chunk(ROLE)
            .wait(300 * MILLI)
            .chunk(format!("{}{}", delta("a"), delta("b")))
            .wait(40 * MILLI)
            .chunk(delta("c"))
            .wait(4_000 * MILLI)
            .chunk(delta("d"))
            .chunk(format!("{STOP}{DONE}")),
    );
    let client = client(&transport);
    rests(
        &client
            .call(chat())
            .route_name("gaps")
            .start()
            .await
            .unwrap(),
    )
    .await;
    let up_to = |name: &str, told: &[(&str, u32)]| {
        for (le, expected) in told {
            counts(name, &[("route", "gaps"), ("le", le)], *expected);
        }
    };
    up_to(
        "streamkeep_first_token_seconds_bucket",
        &[("0.2", 0), ("0.35", 1)],
    );
    up_to(
        "streamkeep_output_gap_seconds_bucket",
        &[("0.025", 0), ("0.05", 1), ("2.5", 1), ("5", 2), ("+Inf", 2)],
    );
    let seconds = sum("streamkeep_output_gap_seconds_sum", &[("route", "gaps")]);
    assert!((seconds - 4.04).abs() < 0.01, "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_break_after_output_is_an_interruption_whatever_follows() {
    let transport = MemoryTransport::new();
    transport.push(sse().chunk(CREATED).chunk(HEL).breaks(ErrorKind::Reset));
    transport.push(sse().chunk(LO).chunk(completed(4)));
    transport.push(sse().chunk(delta("Cut")).breaks(ErrorKind::BodyFraming));
    let client = client(&transport);
    let body = r#"{"model":"m","input":"hi","background":true}"#;
    let background = Request::new(
        Dialect::OpenAiResponses,
        "https://api.openai.com/v1/responses",
        body,
    )
    .unwrap();
    rests(
        &client
            .call(background)
            .route_name("breaks")
            .start()
            .await
            .unwrap(),
    )
    .await;
    rests(
        &client
            .call(chat())
            .route_name("breaks")
            .start()
            .await
            .unwrap(),
    )
    .await;
    let name = "streamkeep_interruptions_total";
    let route = ("route", "breaks");
    counts(name, &[route, ("code", "reset"), ("decision", "resume")], 1);
    counts(
        name,
        &[route, ("code", "body_framing"), ("decision", "interrupt")],
        1,
    );
    counts(
        "streamkeep_operations_total",
        &[route, ("outcome", "interrupted"), ("code", "body_framing")],
        1,
    );
    // The response that was resumed is counted once, by its provider.
    let tokens = [route, ("type", "output"), ("fate", "delivered")];
    counts("streamkeep_tokens_total", &tokens, 3 + 1);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_and_a_store_that_fails_are_counted() {
    let before = sum("streamkeep_calls_total", &[("attached", "existing")]);
    let transport = MemoryTransport::new();
    transport.push(whole("x"));
    let healthy = client(&transport);
    let call = || healthy.call(chat()).key(key("twice")).route_name("twice");
    rests(&call().start().await.unwrap()).await;
    rests(&call().start().await.unwrap()).await;
    let after = sum("streamkeep_calls_total", &[("attached", "existing")]);
    assert!(after - before >= 1.0);

    let faulty = FaultyStore::new(Arc::new(MemoryStore::new()) as Arc<dyn Store>);
    faulty.fail_next_append(Fault::Refused(ErrorKind::StoreUnavailable));
    let client = Client::builder()
        .transport(transport.clone())
        .store(faulty)
        .build()
        .unwrap();
    let handle = client
        .call(chat())
        .route_name("lost")
        .start()
        .await
        .unwrap();
    handle.outcome().await.unwrap();
    counts(
        "streamkeep_operations_total",
        &[
            ("route", "lost"),
            ("outcome", "store_failed"),
            ("code", "store_unavailable"),
        ],
        1,
    );
}

#[tokio::test(start_paused = true)]
async fn one_span_tells_an_operation_and_one_event_each_attempt() {
    let transport = MemoryTransport::new();
    transport.push(
        Exchange::new()
            .head(ResponseHead {
                status: 429,
                headers: vec![
                    ("retry-after".to_owned(), "2".to_owned()),
                    ("request-id".to_owned(), "req_7".to_owned()),
                    ("content-type".to_owned(), "application/json".to_owned()),
                ],
            })
            .chunk(r#"{"error":{"type":"requests","code":"rate_limit_exceeded","message":"the message quotes a-private-prompt"}}"#),
    );
    transport.push(whole("An output word"));
    let client = client(&transport);
    let call = client
        .call(chat())
        .key(key("span"))
        .route_name("span")
        .fallback(
            Route::like(
                "other",
                &chat(),
                "https://other.example/v1/chat/completions",
                None,
            )
            .unwrap(),
        )
        .prompt_version("summary-v7");
    rests(&call.start().await.unwrap()).await;

    let span = ear::heard()
        .into_iter()
        .find(|heard| heard.what == "span" && heard.get("streamkeep.key") == Some("span"))
        .unwrap();
    let hash = chat().fingerprint().to_string();
    let expected = [
        ("otel.name", "chat m"),
        ("otel.kind", "client"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m"),
        ("gen_ai.request.stream", "true"),
        ("server.address", "api.openai.com"),
        ("server.port", "443"),
        ("streamkeep.key", "span"),
        ("streamkeep.generation", "1"),
        ("streamkeep.dialect", "openai_chat"),
        ("streamkeep.route", "span"),
        ("streamkeep.request_hash", &hash),
        ("streamkeep.prompt_version", "summary-v7"),
        // Known at the end.
        ("gen_ai.response.model", "m"),
        ("gen_ai.response.id", "c1"),
        ("gen_ai.usage.input_tokens", "10"),
        ("gen_ai.usage.output_tokens", "2"),
        ("streamkeep.usage.basis", "reported"),
        ("streamkeep.usage.orphan_tokens", "0"),
        ("streamkeep.outcome", "complete"),
        ("streamkeep.attempts", "2"),
    ];
    let found: BTreeMap<_, _> = span
        .fields
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    assert_eq!(found, BTreeMap::from(expected));

    let attempts: Vec<_> = ear::heard()
        .into_iter()
        .filter(|heard| {
            heard.target == "streamkeep::attempt" && heard.get("streamkeep.key") == Some("span")
        })
        .collect();
    let first = &attempts[0];
    for (name, value) in [
        ("streamkeep.attempt", "1"),
        ("streamkeep.attempt.kind", "first"),
        ("streamkeep.route", "span"),
        (
            "streamkeep.endpoint",
            "https://api.openai.com/v1/chat/completions",
        ),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m"),
        ("error.type", "rate_limited"),
        ("streamkeep.class", "provider"),
        ("http.response.status_code", "429"),
        ("streamkeep.provider.error_type", "requests"),
        ("streamkeep.provider.error_code", "rate_limit_exceeded"),
        ("streamkeep.provider.request_id", "req_7"),
        ("streamkeep.retry_after_ms", "2000"),
        ("streamkeep.phase", "pre_stream"),
        ("streamkeep.decision", "retry"),
        ("streamkeep.delay_ms", "2000"),
    ] {
        assert_eq!(first.get(name), Some(value), "{name}: {first:?}");
    }
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[1].get("streamkeep.decision"), Some("finish"));
    assert_eq!(attempts[1].get("error.type"), None);
    assert_eq!(attempts[1].get("gen_ai.usage.output_tokens"), Some("2"));

    let told = ear::text();
    for private in [PROMPT, "output word", "the message"] {
        assert!(!told.contains(private), "{private} was told");
    }
}
