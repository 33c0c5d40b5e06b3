//! Sixteen faults of providers, as the public Failover Bench has them, at its
//! timings (on a paused clock): sixty words fifteen milliseconds apart, two
//! retries, one fallback.
//!
//! Every answer is held until it is complete, so a caller gets the whole of it
//! once or a clear error.

#![cfg(feature = "testkit")]
#![cfg(test)] // else the lints take the helpers for production code

#[path = "support/events.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod events;
#[path = "support/provider.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod provider;

use provider::{refusal, sse};
use std::time::Duration;
use streamkeep::client::Unfinished;
use streamkeep::proto::model::Answer;
use streamkeep::proto::operation::{Hold, Route};
use streamkeep::proto::timeouts::Timeouts;
use streamkeep::transport::memory::{Exchange, Fate, MemoryTransport};
use streamkeep::{Client, Dialect, ErrorKind, Request};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const MAIN: &str = "http://main.test";
const OTHER: &str = "http://other.test";
const WORDS: usize = 60;

fn word(number: usize) -> String {
    format!("w{number} ")
}

fn sixty_words() -> String {
    (0..WORDS).map(word).collect()
}

fn chunk(model: &str, delta: &str, finish: &str, usage: &str) -> String {
    format!(
        "data: {{\"id\":\"c-{model}\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"{model}\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]{usage}}}\n\n"
    )
}

/// The words from and to, at their pace.
fn words(exchange: Exchange, model: &str, from: usize, to: usize) -> Exchange {
    (from..to).fold(exchange, |exchange, number| {
        let delta = format!("{{\"content\":\"{}\"}}", word(number));
        exchange
            .wait(Duration::from_millis(15))
            .chunk(chunk(model, &delta, "null", ""))
    })
}

fn begin(model: &str) -> Exchange {
    sse().chunk(chunk(
        model,
        "{\"role\":\"assistant\",\"content\":\"\"}",
        "null",
        "",
    ))
}

fn finish(exchange: Exchange, model: &str) -> Exchange {
    let usage = ",\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":60,\"total_tokens\":67}";
    exchange.chunk(chunk(model, "{}", "\"stop\"", usage))
}

fn whole(model: &str) -> Exchange {
    finish(words(begin(model), model, 0, WORDS), model).chunk("data: [DONE]\n\n")
}

fn unavailable() -> Exchange {
    refusal(
        503,
        &[],
        r#"{"error":{"message":"down","type":"server_error","code":null}}"#,
    )
}

fn request(base: &str, model: &str) -> Request {
    let body = format!(
        r#"{{"model":"{model}","messages":[{{"role":"user","content":"sixty words"}}],"stream":true}}"#
    );
    Request::new(
        Dialect::OpenAiChat,
        format!("{base}/v1/chat/completions"),
        body,
    )
    .unwrap()
}

/// What a caller saw, and what it took.
struct Seen {
    result: Result<Answer, Box<Unfinished>>,
    took: Duration,
    /// Whom each request went to, and when.
    asked: Vec<(&'static str, Duration)>,
    fates: Vec<Fate>,
}

impl Seen {
    fn text(&self) -> &str {
        self.result.as_ref().expect("an answer").text()
    }

    fn error(&self) -> ErrorKind {
        self.result.as_ref().expect_err("an error").error.kind()
    }

    fn count(&self, place: &str) -> usize {
        self.asked
            .iter()
            .filter(|(asked, _)| *asked == place)
            .count()
    }

    /// The whole answer, once, from this place.
    fn is_whole_from(&self, model: &str) {
        assert_eq!(self.text(), sixty_words());
        let answer = self.result.as_ref().unwrap();
        assert_eq!(
            answer.model.as_deref(),
            Some(model),
            "the winner's model is told"
        );
        assert_eq!(answer.usage.output, Some(60), "and its usage");
    }
}

fn client(transport: &MemoryTransport) -> Client {
    let timeouts = Timeouts {
        first_token: Some(SECOND * 10),
        idle: Some(SECOND * 10),
        ..Timeouts::CHAT
    };
    Client::builder()
        .transport(transport.clone())
        .timeouts(timeouts)
        .build()
        .unwrap()
}

async fn call(client: &Client, transport: &MemoryTransport, fallback: Option<Route>) -> Seen {
    let before = transport.calls().len();
    let since = Instant::now();
    let mut call = client.call(request(MAIN, "main")).hold(Hold::UntilComplete);
    if let Some(route) = fallback {
        call = call.fallback(route);
    }
    let result = call.start().await.unwrap().complete().await;
    let took = since.elapsed();
    let calls = transport.calls().split_off(before);
    let place = |url: &str| if url.starts_with(MAIN) { MAIN } else { OTHER };
    Seen {
        result,
        took,
        asked: calls
            .iter()
            .map(|call| (place(&call.outgoing.request.url), call.after))
            .collect(),
        fates: calls.iter().map(|call| call.fate).collect(),
    }
}

fn other() -> Route {
    Route::new("other", request(OTHER, "other"))
}

/// A provider that does this first and is healthy behind it, beside a healthy
/// fallback.
async fn once(exchange: Exchange) -> Seen {
    let transport = MemoryTransport::new();
    transport.push_for(MAIN, exchange);
    transport.repeat_for(MAIN, whole("main"));
    transport.repeat_for(OTHER, whole("other"));
    call(&client(&transport), &transport, Some(other())).await
}

/// A provider that does this for ever, beside a healthy fallback.
async fn for_ever(exchange: Exchange) -> Seen {
    let transport = MemoryTransport::new();
    transport.repeat_for(MAIN, exchange);
    transport.repeat_for(OTHER, whole("other"));
    call(&client(&transport), &transport, Some(other())).await
}

#[tokio::test(start_paused = true)]
async fn s01_a_rate_limit_with_a_time_is_waited_for() {
    let seen = once(refusal(429, &[("retry-after", "2")], "{}")).await;
    seen.is_whole_from("main");
    assert_eq!(seen.asked.len(), 2, "no tight loop");
    assert!(seen.asked[1].1 >= seen.asked[0].1 + SECOND * 2);
}

#[tokio::test(start_paused = true)]
async fn s02_a_rate_limit_without_end_is_backed_off_from_and_left() {
    let seen = for_ever(refusal(429, &[], "{}")).await;
    seen.is_whole_from("other");
    let soon = seen
        .asked
        .iter()
        .filter(|(_, after)| *after <= SECOND * 3)
        .count();
    assert!(soon <= 4, "{:?}", seen.asked);
    assert!(seen.asked.len() <= 6);
}

#[tokio::test(start_paused = true)]
async fn s03_a_server_that_fails_once_is_asked_again() {
    let body = r#"{"error":{"message":"x","type":"server_error","code":null}}"#;
    let seen = once(refusal(500, &[], body)).await;
    seen.is_whole_from("main");
    assert_eq!(seen.asked.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn s04_a_server_that_is_down_is_left_after_a_few_attempts() {
    let seen = for_ever(unavailable()).await;
    seen.is_whole_from("other");
    assert_eq!((seen.count(MAIN), seen.count(OTHER)), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn s05_a_reset_before_the_headers_is_tried_again() {
    let seen = once(Exchange::new().breaks(ErrorKind::Reset)).await;
    seen.is_whole_from("main");
    assert_eq!(seen.asked.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn s06_a_server_that_never_answers_is_not_asked_twice() {
    let seen = for_ever(Exchange::new().hang()).await;
    seen.is_whole_from("other");
    assert_eq!((seen.count(MAIN), seen.count(OTHER)), (1, 1));
    assert!(seen.took < SECOND * 100);
    assert_eq!(seen.fates[0], Fate::Dropped, "its connection is closed");
}

#[tokio::test(start_paused = true)]
async fn s07_a_first_token_that_is_late_has_a_limit_of_its_own() {
    let late = words(begin("main").wait(SECOND * 20), "main", 0, WORDS);
    let seen = for_ever(finish(late, "main").chunk("data: [DONE]\n\n")).await;
    seen.is_whole_from("other");
    assert!(seen.took < SECOND * 15, "{:?}", seen.took);
    assert_eq!(seen.count(MAIN), 1);
}

#[tokio::test(start_paused = true)]
async fn s08_a_stream_that_is_cut_never_passes_for_an_answer() {
    let cut = words(begin("main"), "main", 0, 40);
    let seen = for_ever(cut.clone()).await;
    seen.is_whole_from("other");
    assert!(seen.asked.len() <= 4);

    // Without a fallback: a clear error, with what arrived.
    let transport = MemoryTransport::new();
    transport.repeat_for(MAIN, cut);
    let seen = call(&client(&transport), &transport, None).await;
    assert_eq!(seen.error(), ErrorKind::Truncated);
    let partial = seen.result.unwrap_err().partial;
    assert_eq!(partial.text(), (0..40).map(word).collect::<String>());
}

#[tokio::test(start_paused = true)]
async fn s09_a_stream_that_falls_silent_is_noticed() {
    let silent = words(begin("main"), "main", 0, 20).wait(SECOND * 30);
    let silent = finish(words(silent, "main", 20, WORDS), "main").chunk("data: [DONE]\n\n");
    let transport = MemoryTransport::new();
    transport.push_for(MAIN, silent);
    transport.repeat_for(MAIN, whole("main"));
    transport.repeat_for(OTHER, whole("other"));
    let client = client(&transport);
    let seen = call(&client, &transport, Some(other())).await;
    seen.is_whole_from("other");
    assert!(seen.took < SECOND * 45);
    let seen = call(&client, &transport, Some(other())).await;
    seen.is_whole_from("main");
}

#[tokio::test(start_paused = true)]
async fn s10_an_event_that_is_no_json_leaks_nothing() {
    let broken = words(begin("main"), "main", 0, 9).chunk("data: {\"id\":\"c-main\",\"cho\n\n");
    let broken = finish(words(broken, "main", 10, WORDS), "main").chunk("data: [DONE]\n\n");
    let seen = once(broken).await;
    seen.is_whole_from("main");
    assert_eq!(seen.asked.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn s11_an_answer_without_its_end_marker_is_complete() {
    let unmarked = finish(words(begin("main"), "main", 0, WORDS), "main").hang();
    let seen = for_ever(unmarked).await;
    seen.is_whole_from("main");
    assert!(seen.took < SECOND * 8, "{:?}", seen.took);
    assert_eq!(seen.asked.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn s12_a_context_that_is_too_long_is_never_sent_again_unchanged() {
    let body = r#"{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;
    let seen = for_ever(refusal(400, &[], body)).await;
    assert_eq!(seen.error(), ErrorKind::ContextLength);
    assert_eq!((seen.count(MAIN), seen.count(OTHER)), (1, 0));

    let transport = MemoryTransport::new();
    transport.repeat_for(MAIN, refusal(400, &[], body));
    transport.repeat_for(OTHER, whole("other"));
    let larger = Some(other().larger_context(true));
    let seen = call(&client(&transport), &transport, larger).await;
    seen.is_whole_from("other");
    assert_eq!((seen.count(MAIN), seen.count(OTHER)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn s13_a_refusal_of_the_content_is_passed_on_and_not_routed_around() {
    let body = r#"{"error":{"message":"against the policy","type":"invalid_request_error","code":"content_policy_violation"}}"#;
    let seen = for_ever(refusal(400, &[], body)).await;
    assert_eq!(seen.error(), ErrorKind::ContentPolicy);
    assert_eq!(seen.asked.len(), 1);
    let error = seen.result.unwrap_err().error;
    assert!(error.message().contains("against the policy"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn s14_a_fallback_that_refuses_a_prefill_is_never_sent_one() {
    // The fallback answers a request that ends with the assistant's words with a
    // 400; the rerun asks the caller's own question, so it never comes to that.
    let transport = MemoryTransport::new();
    transport.repeat_for(MAIN, words(begin("main"), "main", 0, 40));
    transport.repeat_for(OTHER, whole("other"));
    let client = client(&transport);
    let seen = call(&client, &transport, Some(other())).await;
    seen.is_whole_from("other");
    for call in transport.calls() {
        let body = String::from_utf8_lossy(&call.outgoing.request.body).into_owned();
        assert!(!body.contains("\"assistant\""), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn s16_the_fallbacks_model_and_usage_are_told() {
    let seen = for_ever(unavailable()).await;
    seen.is_whole_from("other");
    assert!(seen.asked.len() <= 6);
}

#[tokio::test(start_paused = true)]
async fn s15_an_outage_opens_the_circuit_and_its_end_is_noticed_soon() {
    let transport = MemoryTransport::new();
    transport.repeat_for(MAIN, unavailable());
    transport.repeat_for(OTHER, whole("other"));
    let client = client(&transport);
    let began = Instant::now();
    let mut back = None;
    for number in 0..30_u32 {
        let at = SECOND * 4 * number;
        tokio::time::advance(at.saturating_sub(began.elapsed())).await;
        if began.elapsed() >= SECOND * 60 {
            transport.repeat_for(MAIN, whole("main"));
        }
        let seen = call(&client, &transport, Some(other())).await;
        assert_eq!(seen.text(), sixty_words(), "request {number} is answered");
        if seen.result.unwrap().model.as_deref() == Some("main") {
            back.get_or_insert_with(|| began.elapsed());
        }
    }
    let back = back.expect("it came back");
    assert!(back <= SECOND * 90, "back after {back:?}");
    let during = transport
        .calls()
        .iter()
        .filter(|call| call.outgoing.request.url.starts_with(MAIN) && call.after < SECOND * 60)
        .count();
    assert!(during <= 10, "{during} requests to a server that was down");
}
