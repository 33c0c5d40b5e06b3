//! Six ways of failing, and what the policies make of them together: on a paused
//! clock, with every guard at its default.

#![cfg(feature = "testkit")]
#![cfg(test)] // else the lints take the helpers for production code

#[path = "support/events.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod events;
#[path = "support/provider.rs"]
mod provider;

use events::{DONE, ROLE, STOP, delta};
use provider::{refusal, sse, whole};
use std::collections::BTreeMap;
use std::time::Duration;
use streamkeep::client::Unfinished;
use streamkeep::proto::breaker::BreakerConfig;
use streamkeep::proto::guards::GuardConfig;
use streamkeep::proto::hedge::HedgeConfig;
use streamkeep::proto::model::Answer;
use streamkeep::proto::operation::{Hold, Route};
use streamkeep::proto::retry::RetryPolicy;
use streamkeep::transport::memory::MemoryTransport;
use streamkeep::{Client, Dialect, ErrorKind, Request};
use tokio::task::JoinSet;

const SECOND: Duration = Duration::from_secs(1);
const MAIN: &str = "http://main.test";
const OTHER: &str = "http://other.test";

fn request(base: &str) -> Request {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    Request::new(
        Dialect::OpenAiChat,
        format!("{base}/v1/chat/completions"),
        body,
    )
    .unwrap()
}

async fn ask(client: &Client, hold: Hold) -> Result<Answer, Box<Unfinished>> {
    let call = client.call(request(MAIN)).hold(hold);
    call.start().await.unwrap().complete().await
}

fn client(transport: &MemoryTransport) -> Client {
    Client::builder()
        .transport(transport.clone())
        .build()
        .unwrap()
}

/// Of each request, when it went out.
fn times(transport: &MemoryTransport) -> Vec<Duration> {
    transport.calls().iter().map(|call| call.after).collect()
}

#[tokio::test(start_paused = true)]
async fn a_single_429_is_waited_for() {
    let transport = MemoryTransport::new();
    transport.push(refusal(429, &[("retry-after", "3")], "{}"));
    transport.push(whole("Hello"));
    let answer = ask(&client(&transport), Hold::None).await.unwrap();
    assert_eq!(answer.text(), "Hello");
    let times = times(&transport);
    assert_eq!(times.len(), 2, "two requests in all");
    assert!(times[1] >= times[0] + SECOND * 3);
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_429s_is_spread_out_and_stays_a_tenth_of_the_traffic() {
    let transport = MemoryTransport::new();
    transport.repeat_for(MAIN, whole("Hello"));
    // Four hundred requests in twenty seconds; for a second of them the provider
    // is full.
    let client = Client::builder()
        .transport(transport.clone())
        .guards(GuardConfig {
            breaker: BreakerConfig::OFF,
            ..GuardConfig::DEFAULT
        })
        .build()
        .unwrap();
    let mut calls = JoinSet::new();
    let began = tokio::time::Instant::now();
    for number in 0..400_u32 {
        let at = Duration::from_millis(50) * number;
        tokio::time::advance(at.saturating_sub(began.elapsed())).await;
        match number {
            200 => transport.repeat_for(MAIN, refusal(429, &[], "{}")),
            240 => transport.repeat_for(MAIN, whole("Hello")),
            _ => {}
        }
        let client = client.clone();
        calls.spawn(async move { ask(&client, Hold::None).await.is_ok() });
    }
    let answered = calls.join_all().await.into_iter().filter(|ok| *ok).count();
    let requests = transport.calls().len();
    let retries = requests - 400;
    assert!(retries > 0, "some were tried again");
    assert!(retries <= 40, "{retries} retries of 400 requests");
    assert!(answered >= 360, "{answered}");
    // No wave: in no tenth of a second more than came anyway, and a few.
    let mut bins = BTreeMap::new();
    for time in times(&transport) {
        *bins.entry(time.as_millis() / 100).or_insert(0_usize) += 1;
    }
    let most = bins.values().max().unwrap();
    assert!(*most <= 8, "a bin has {most} requests where 2 came");
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_500s_fails_over_after_one_attempt() {
    let transport = MemoryTransport::new();
    let body = r#"{"error":{"message":"x","type":"server_error","code":null}}"#;
    transport.repeat_for(MAIN, refusal(500, &[], body));
    transport.repeat_for(OTHER, whole("Hello"));
    let client = client(&transport);
    let answer = client
        .call(request(MAIN))
        .retry(RetryPolicy::REFERENCE)
        .fallback(Route::new("other", request(OTHER)))
        .start()
        .await
        .unwrap()
        .complete()
        .await
        .unwrap();
    assert_eq!(answer.text(), "Hello");
    assert_eq!(transport.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_400_is_not_retried_and_the_providers_message_is_told() {
    let transport = MemoryTransport::new();
    let body = r#"{"error":{"message":"unknown parameter: `tempo`","type":"invalid_request_error","code":null}}"#;
    transport.repeat_for(MAIN, refusal(400, &[], body));
    let unfinished = ask(&client(&transport), Hold::None).await.unwrap_err();
    assert_eq!(unfinished.error.kind(), ErrorKind::Rejected);
    assert!(
        unfinished
            .error
            .message()
            .contains("unknown parameter: `tempo`")
    );
    assert_eq!(transport.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_inside_a_chunk_is_rerun_while_it_is_held_back() {
    let transport = MemoryTransport::new();
    let half = delta("Hello");
    let cut = sse()
        .chunk(ROLE)
        .chunk(half.as_bytes()[..half.len() / 2].to_vec())
        .breaks(ErrorKind::Reset);
    transport.push(cut);
    transport.push(whole("Hello"));
    let answer = ask(&client(&transport), Hold::UntilComplete).await.unwrap();
    assert_eq!(answer.text(), "Hello");
    assert_eq!(transport.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_fails_fast_and_sends_nothing() {
    let transport = MemoryTransport::new();
    transport.repeat_for(MAIN, refusal(503, &[], "{}"));
    let client = Client::builder()
        .transport(transport.clone())
        .guards(GuardConfig {
            breaker: BreakerConfig::OFF,
            ..GuardConfig::DEFAULT
        })
        .build()
        .unwrap();
    // A hundred calls: every first attempt goes out, and of the repetitions
    // those that the budget carries.
    let mut exhausted = 0;
    for _ in 0..100 {
        let unfinished = ask(&client, Hold::None).await.unwrap_err();
        exhausted += usize::from(unfinished.error.kind() == ErrorKind::BudgetExhausted);
    }
    let requests = transport.calls().len();
    assert!(requests <= 120, "{requests} requests for 100 calls");
    assert!(exhausted >= 80, "{exhausted}");
    // One more: its only request goes out, and it fails in the same moment.
    let before = tokio::time::Instant::now();
    let unfinished = ask(&client, Hold::None).await.unwrap_err();
    assert_eq!(unfinished.error.kind(), ErrorKind::BudgetExhausted);
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(transport.calls().len(), requests + 1);
}

#[tokio::test(start_paused = true)]
async fn a_circuit_that_is_open_sends_nothing_and_closes_again() {
    let transport = MemoryTransport::new();
    transport.repeat_for(MAIN, refusal(503, &[], "{}"));
    let client = client(&transport);
    let mut open = None;
    for _ in 0..20 {
        let unfinished = ask(&client, Hold::None).await.unwrap_err();
        tokio::time::advance(SECOND).await;
        if unfinished.error.kind() == ErrorKind::CircuitOpen {
            open = Some(unfinished.error);
            break;
        }
    }
    let error = open.expect("it opens");
    assert!(error.retry_after().unwrap() > SECOND * 20);
    let requests = transport.calls().len();
    ask(&client, Hold::None).await.unwrap_err();
    assert_eq!(transport.calls().len(), requests, "nothing is sent");
    transport.repeat_for(MAIN, whole("Hello"));
    tokio::time::advance(SECOND * 40).await;
    for _ in 0..5 {
        assert_eq!(ask(&client, Hold::None).await.unwrap().text(), "Hello");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_request_is_hedged_after_what_first_tokens_usually_take() {
    let transport = MemoryTransport::new();
    let soon = || {
        sse()
            .wait(SECOND / 5)
            .chunk(ROLE)
            .chunk(delta("soon"))
            .chunk(STOP)
            .chunk(DONE)
    };
    transport.repeat_for(MAIN, soon());
    let client = Client::builder()
        .transport(transport.clone())
        .guards(GuardConfig {
            hedge: HedgeConfig::ON,
            ..GuardConfig::DEFAULT
        })
        .build()
        .unwrap();
    for _ in 0..100 {
        ask(&client, Hold::None).await.unwrap();
    }
    assert_eq!(transport.calls().len(), 100, "none was slow");
    transport.push_for(
        MAIN,
        sse().wait(SECOND * 30).chunk(ROLE).chunk(delta("late")),
    );
    let before = tokio::time::Instant::now();
    let answer = ask(&client, Hold::None).await.unwrap();
    assert_eq!(answer.text(), "soon", "the hedge won");
    assert!(before.elapsed() < SECOND * 2, "{:?}", before.elapsed());
    assert_eq!(transport.calls().len(), 102);
}
