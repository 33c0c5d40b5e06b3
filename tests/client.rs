//! The client over an in-memory transport and store, on a paused clock.
#![cfg(feature = "testkit")]
#![cfg(test)] // else the lints take the helpers for production code

#[path = "support/events.rs"]
mod events;
#[path = "support/provider.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod provider;
#[path = "client/recovering.rs"]
mod recovering;
#[path = "client/routes.rs"]
mod routes;

use events::{CREATED, DONE, HEL, LENGTH, ROLE, STOP, delta};
use provider::{sse, whole};
use std::sync::Arc;
use std::time::Duration;
use streamkeep::client::{Attached, Handle};
use streamkeep::proto::journal::{Body, End, RecoveryOption};
use streamkeep::proto::model::{Cursor, Generation, Seq};
use streamkeep::proto::operation::{Hold, Outcome};
use streamkeep::store::{MemoryStore, Store};
use streamkeep::transport::memory::{Exchange, Fate, Gate, MemoryTransport};
use streamkeep::{Client, Credential, Dialect, ErrorKind, Key, Request};

const SECOND: Duration = Duration::from_secs(1);

fn client(transport: &MemoryTransport) -> Client {
    with_store(transport, Arc::new(MemoryStore::new()))
}

fn with_store(transport: &MemoryTransport, store: Arc<dyn Store>) -> Client {
    Client::builder()
        .transport(transport.clone())
        .shared_store(store)
        .credential(Credential::api_key("planted-secret"))
        .build()
        .unwrap()
}

fn chat() -> Request {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}"#;
    Request::new(
        Dialect::OpenAiChat,
        "http://upstream.test/v1/chat/completions",
        body,
    )
    .unwrap()
}

fn messages(model: &str) -> Request {
    let body = format!(
        r#"{{"model":"{model}","max_tokens":9,"messages":[{{"role":"user","content":"hi"}}]}}"#
    );
    Request::new(
        Dialect::AnthropicMessages,
        "http://upstream.test/v1/messages",
        body,
    )
    .unwrap()
}

fn background() -> Request {
    let body = r#"{"model":"m","input":"hi","background":true}"#;
    Request::new(
        Dialect::OpenAiResponses,
        "http://upstream.test/v1/responses",
        body,
    )
    .unwrap()
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn cut(text: &str) -> Exchange {
    sse()
        .chunk(ROLE)
        .chunk(delta(text))
        .breaks(ErrorKind::BodyFraming)
}

async fn text_of(handle: &Handle) -> String {
    let mut subscription = handle.subscribe();
    let mut text = String::new();
    while let Some(piece) = subscription.next_text().await.unwrap() {
        text.push_str(&piece);
    }
    text
}

fn ended(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Ended(ended) => ended.end,
        other => panic!("expected an end, but found {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_reaches_its_reader_once_and_the_credential_only_the_upstream() {
    let transport = MemoryTransport::new();
    transport.push(whole("Hello"));
    let client = client(&transport);
    let handle = client.call(chat()).start().await.unwrap();
    assert_eq!(handle.attached(), Attached::Started);
    assert_eq!(text_of(&handle).await, "Hello");
    assert_eq!(ended(&handle.outcome().await.unwrap()), End::Complete);
    let calls = transport.calls();
    assert_eq!(calls.len(), 1);
    let secrets: Vec<_> = calls[0]
        .outgoing
        .secret_headers
        .iter()
        .map(|(n, _)| n.as_str())
        .collect();
    assert_eq!(secrets, ["authorization"]);
    assert!(!format!("{calls:?} {client:?} {handle:?}").contains("planted-secret"));
}

#[tokio::test(start_paused = true)]
async fn failures_before_output_are_retried_on_the_clock_and_invisible_to_the_reader() {
    let transport = MemoryTransport::new();
    transport.push(Exchange::new().breaks_unsent(ErrorKind::Connect));
    transport.push(Exchange::new().status(503));
    transport.push(whole("third"));
    let handle = client(&transport).call(chat()).start().await.unwrap();
    assert_eq!(text_of(&handle).await, "third");
    assert_eq!(transport.calls().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_attaches_replays_or_conflicts_and_never_sends_twice() {
    let transport = MemoryTransport::new();
    let gate = Gate::new();
    transport.push(
        sse()
            .chunk(delta("a"))
            .gate(&gate)
            .chunk(delta("b"))
            .chunk(STOP)
            .chunk(DONE),
    );
    let client = client(&transport);
    let first = client.call(chat()).key(key("k")).start().await.unwrap();
    let second = client.call(chat()).key(key("k")).start().await.unwrap();
    assert_eq!(second.attached(), Attached::Existing);
    let other = Request::new(
        Dialect::OpenAiChat,
        "http://upstream.test/v1/chat/completions",
        r#"{"model":"m","messages":[{"role":"user","content":"something else"}]}"#,
    )
    .unwrap();
    let conflict = client.call(other).key(key("k")).start().await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::KeyConflict);
    gate.open();
    assert_eq!(text_of(&first).await, "ab");
    assert_eq!(text_of(&second).await, "ab");
    let replay = client.call(chat()).key(key("k")).start().await.unwrap();
    assert_eq!(replay.attached(), Attached::Existing);
    assert_eq!(text_of(&replay).await, "ab");
    assert_eq!(transport.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_racing_calls_of_one_key_are_one_request_and_two_hundred_answers() {
    let transport = MemoryTransport::new();
    transport.push(whole("one"));
    let client = client(&transport);
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let handle = client.call(chat()).key(key("race")).start().await.unwrap();
                text_of(&handle).await
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), "one");
    }
    assert_eq!(transport.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_failed_before_output_frees_its_key() {
    let transport = MemoryTransport::new();
    transport.push(Exchange::new().status(400));
    transport.push(whole("now it works"));
    let client = client(&transport);
    let first = client.call(chat()).key(key("k")).start().await.unwrap();
    assert_eq!(ended(&first.outcome().await.unwrap()), End::Failed);
    let error = first.complete().await.unwrap_err();
    assert_eq!(error.error.kind(), ErrorKind::Rejected);
    let second = client.call(chat()).key(key("k")).start().await.unwrap();
    assert_eq!(second.attached(), Attached::Started);
    assert_eq!(second.generation(), Generation::FIRST.next());
    assert_eq!(text_of(&second).await, "now it works");
}

#[tokio::test(start_paused = true)]
async fn readers_begin_anywhere_and_each_gets_exactly_the_rest() {
    let transport = MemoryTransport::new();
    let gate = Gate::new();
    transport.push(
        sse()
            .chunk(delta("A "))
            .chunk(delta("B "))
            .gate(&gate)
            .chunk(delta("C "))
            .chunk(delta("D"))
            .chunk(STOP)
            .chunk(DONE),
    );
    let handle = client(&transport).call(chat()).start().await.unwrap();
    let mut live = handle.subscribe();
    let mut seen = Vec::new();
    for _ in 0..2 {
        seen.push(live.next_event().await.unwrap().unwrap());
    }
    let (cursor, _) = seen[0];
    let mut late = handle.subscribe_after(cursor);
    gate.open();
    while let Some(event) = live.next_event().await.unwrap() {
        seen.push(event);
    }
    let mut rest = Vec::new();
    while let Some(event) = late.next_event().await.unwrap() {
        rest.push(event);
    }
    assert_eq!(rest, seen[1..]);
    assert!(seen.windows(2).all(|w| w[0].0 < w[1].0));
}

#[tokio::test(start_paused = true)]
async fn a_cursor_behind_the_end_is_told_so() {
    let transport = MemoryTransport::new();
    transport.push(whole("x"));
    let handle = client(&transport).call(chat()).start().await.unwrap();
    handle.outcome().await.unwrap();
    let ahead = Cursor::new(Generation::FIRST, Seq::new(999));
    let error = handle.subscribe_after(ahead).next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CursorAhead);
}

#[tokio::test(start_paused = true)]
async fn a_held_answer_shows_nothing_until_it_is_whole_and_is_rerun_when_cut() {
    let transport = MemoryTransport::new();
    let gate = Gate::new();
    transport.push(cut("Half of "));
    transport.push(
        sse()
            .chunk(delta("Wh"))
            .gate(&gate)
            .chunk(delta("ole"))
            .chunk(STOP)
            .chunk(DONE),
    );
    let client = client(&transport);
    let handle = client
        .call(chat())
        .hold(Hold::UntilComplete)
        .start()
        .await
        .unwrap();
    gate.reached().await;
    let state = client.state(handle.key()).await.unwrap();
    let mut reader = handle.subscribe();
    for _ in 0..state.head.get() {
        let record = reader.next().await.unwrap().unwrap();
        assert!(matches!(record.body, Body::Control(_)));
    }
    gate.open();
    assert_eq!(handle.complete().await.unwrap().text(), "Whole");
    assert_eq!(transport.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cut_after_output_is_an_interruption_with_its_options() {
    let transport = MemoryTransport::new();
    transport.push(cut("The quick "));
    let handle = client(&transport).call(chat()).start().await.unwrap();
    let error = handle.complete().await.unwrap_err();
    assert_eq!(error.error.kind(), ErrorKind::BodyFraming);
    assert_eq!(error.partial.text(), "The quick ");
    assert!(error.options.contains(&RecoveryOption::Regenerate));
    assert_eq!(transport.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancel_drops_the_exchange_at_once_and_keeps_what_came() {
    let transport = MemoryTransport::new();
    let gate = Gate::new();
    transport.push(sse().chunk(delta("kept")).gate(&gate).hang());
    let handle = client(&transport).call(chat()).start().await.unwrap();
    gate.reached().await;
    assert_eq!(ended(&handle.cancel().await.unwrap()), End::Cancelled);
    assert_eq!(transport.calls()[0].fate, Fate::Dropped);
    assert_eq!(text_of(&handle).await, "kept");
}

/// A process that ended here would leave the provider generating.
#[tokio::test(start_paused = true)]
async fn a_client_is_not_idle_before_the_provider_was_told_to_stop() {
    let transport = MemoryTransport::new();
    let (hung, told) = (Gate::new(), Gate::new());
    transport.push(sse().chunk(CREATED).chunk(HEL).gate(&hung).hang());
    transport.push(Exchange::new().gate(&told));
    let client = client(&transport);
    let handle = client.call(background()).start().await.unwrap();
    hung.reached().await;
    assert_eq!(ended(&handle.cancel().await.unwrap()), End::Cancelled);
    told.reached().await;
    let waited = tokio::time::timeout(SECOND, client.idle()).await;
    assert!(waited.is_err(), "the provider has not answered yet");
    told.open();
    client.idle().await;
    let calls = transport.calls();
    assert!(calls[1].outgoing.request.url.ends_with("/cancel"));
}

#[tokio::test(start_paused = true)]
async fn cancel_during_backoff_ends_the_sleep_and_sends_nothing_more() {
    let transport = MemoryTransport::new();
    transport.push(
        Exchange::new().head(streamkeep::proto::model::ResponseHead {
            status: 429,
            headers: vec![("retry-after".into(), "5".into())],
        }),
    );
    let handle = client(&transport).call(chat()).start().await.unwrap();
    tokio::time::advance(SECOND / 10).await;
    assert_eq!(ended(&handle.cancel().await.unwrap()), End::Cancelled);
    tokio::time::advance(SECOND * 60).await;
    assert_eq!(transport.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn json_is_the_whole_document_or_an_error_with_the_partial() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Summary {
        summary: String,
    }
    let transport = MemoryTransport::new();
    transport.push(whole(r#"{"summary":"s"}"#));
    transport.push(
        sse()
            .chunk(delta(r##"{"summary":"s","script":"# [1] first"##))
            .chunk(LENGTH)
            .chunk(DONE),
    );
    transport.push(whole("no JSON at all"));
    let client = client(&transport);
    let handle = client.call(chat()).start().await.unwrap();
    assert_eq!(
        handle.json::<Summary>().await.unwrap(),
        Summary {
            summary: "s".into()
        }
    );
    let handle = client.call(chat()).start().await.unwrap();
    let error = handle.json::<Summary>().await.unwrap_err();
    assert_eq!(error.error.kind(), ErrorKind::Incomplete);
    assert!(error.partial.text().contains("# [1]"));
    let handle = client.call(chat()).start().await.unwrap();
    assert_eq!(
        handle.json::<Summary>().await.unwrap_err().error.kind(),
        ErrorKind::NotJson
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_upstream_is_a_timeout_that_names_its_clock() {
    let transport = MemoryTransport::new();
    for _ in 0..3 {
        transport.push(Exchange::new().hang());
    }
    let client = client(&transport);
    let mut call = client.call(chat());
    call = call.timeouts(streamkeep::proto::timeouts::Timeouts {
        first_token: Some(SECOND * 5),
        ..Default::default()
    });
    let error = call.start().await.unwrap().complete().await.unwrap_err();
    assert_eq!(error.error.kind(), ErrorKind::FirstTokenTimeout);
    assert!(
        error.error.message().contains("first token clock"),
        "{}",
        error.error
    );
    assert!(error.error.message().contains("no response had arrived"));
}
