//! The twelve invariants of the architecture, each by its name, shown through the
//! public client. What they rest on is tested in more depth floor by floor; this
//! is the list that a reader can check against the promise.
#![cfg(all(feature = "conformance", feature = "testkit"))]
#![cfg(test)] // else the lints take the helpers for production code

#[path = "support/events.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod events;
#[path = "support/provider.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod provider;

use events::{CREATED, DONE, HEL, ITEM, LENGTH, ROLE, STOP, delta};
use provider::{sse, whole};
use std::sync::Arc;
use std::time::Duration;
use streamkeep::client::Handle;
use streamkeep::proto::journal::{Body, Control, End, Record, Status};
use streamkeep::proto::model::{Cursor, Generation, Seq, WallTime};
use streamkeep::proto::operation::{Hold, Outcome};
use streamkeep::proto::sse::{Decoder, DecoderConfig};
use streamkeep::proto::timeouts::Timeouts;
use streamkeep::store::{Batch, Claim, Claimed, FaultyStore, Intent, MemoryStore, Store};
use streamkeep::transport::memory::{Exchange, Fate, Gate, MemoryTransport};
use streamkeep::{Client, Credential, Dialect, ErrorKind, Key, Request};

const SECOND: Duration = Duration::from_secs(1);
const SECRET: &str = "sk-planted-4711";

fn client(transport: &MemoryTransport, store: &Arc<dyn Store>) -> Client {
    Client::builder()
        .transport(transport.clone())
        .shared_store(Arc::clone(store))
        .credential(Credential::api_key(SECRET))
        .build()
        .unwrap()
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

fn chat() -> Request {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    Request::new(
        Dialect::OpenAiChat,
        "http://upstream.test/v1/chat/completions",
        body,
    )
    .unwrap()
}

fn key() -> Key {
    Key::new("k").unwrap()
}

async fn records(handle: &Handle) -> Vec<Record> {
    let mut reader = handle.subscribe();
    let mut records = Vec::new();
    while let Some(record) = reader.next().await.unwrap() {
        records.push(record);
    }
    records
}

fn end(outcome: &Outcome) -> Option<End> {
    match outcome {
        Outcome::Ended(ended) => Some(ended.end),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn i1_no_silent_replay() {
    let transport = MemoryTransport::new();
    transport.push(sse().chunk(delta("shown")).breaks(ErrorKind::Reset));
    transport.push(whole("another answer"));
    let client = client(&transport, &memory());
    let handle = client.call(chat()).key(key()).start().await.unwrap();
    assert!(matches!(
        handle.outcome().await.unwrap(),
        Outcome::Interrupted(_)
    ));
    tokio::time::advance(SECOND * 600).await;
    // Nor when the same call comes again: it attaches to what is there.
    client
        .call(chat())
        .key(key())
        .start()
        .await
        .unwrap()
        .outcome()
        .await
        .unwrap();
    assert_eq!(transport.calls().len(), 1);
    // Only when it is asked for.
    client
        .regenerate(&key())
        .await
        .unwrap()
        .outcome()
        .await
        .unwrap();
    assert_eq!(transport.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn i2_commit_before_announce() {
    let faulty = Arc::new(FaultyStore::new(memory()));
    let store: Arc<dyn Store> = faulty.clone();
    let transport = MemoryTransport::new();
    let upstream = Gate::new();
    transport.push(
        sse()
            .chunk(ROLE)
            .gate(&upstream)
            .chunk(delta("x"))
            .chunk(STOP)
            .chunk(DONE),
    );
    let client = client(&transport, &store);
    let handle = client.call(chat()).start().await.unwrap();
    upstream.reached().await;
    let mut held = faulty.hold_appends();
    upstream.open();
    held.arrived(1).await;
    // The output is on its way to the store, which has not acknowledged it.
    let mut reader = handle.subscribe();
    let shown = client.state(handle.key()).await.unwrap().head;
    for _ in 0..shown.get() {
        let record = reader.next().await.unwrap().unwrap();
        assert!(
            matches!(record.body, Body::Control(_)),
            "shown before it was acknowledged"
        );
    }
    let more = tokio::time::timeout(SECOND * 5, reader.next()).await;
    assert!(more.is_err(), "shown before it was acknowledged");
    held.open();
    assert_eq!(end(&handle.outcome().await.unwrap()), Some(End::Complete));
    assert!(reader.next_event().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn i3_no_gap_no_duplicate() {
    let transport = MemoryTransport::new();
    let words: Vec<String> = (0..50).map(|n| format!("w{n} ")).collect();
    let mut exchange = sse();
    for word in &words {
        exchange = exchange.chunk(delta(word));
    }
    transport.push(exchange.chunk(STOP).chunk(DONE));
    let client = client(&transport, &memory());
    let handle = client.call(chat()).start().await.unwrap();
    let all = records(&handle).await;
    let numbers: Vec<u64> = all.iter().map(|record| record.seq.get()).collect();
    let dense: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, dense);
    for after in 0..=numbers.len() {
        let mut reader =
            handle.subscribe_after(Cursor::new(Generation::FIRST, Seq::new(after as u64)));
        let mut rest = Vec::new();
        while let Some(record) = reader.next().await.unwrap() {
            rest.push(record);
        }
        assert_eq!(
            rest.as_slice(),
            all.get(after..).unwrap_or_default(),
            "after {after}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn i4_completion_is_proven() {
    let cases: [(Exchange, Option<End>); 5] = [
        (whole("x"), Some(End::Complete)),
        (sse().chunk(delta("x")).chunk(STOP), Some(End::Complete)),
        (sse().chunk(delta("x")).chunk(DONE), Some(End::Claimed)),
        (sse().chunk(delta("x")), None),
        (
            sse().chunk(delta("x")).chunk(LENGTH).chunk(DONE),
            Some(End::Truncated),
        ),
    ];
    for (exchange, expected) in cases {
        let transport = MemoryTransport::new();
        transport.push(exchange);
        let handle = client(&transport, &memory())
            .call(chat())
            .start()
            .await
            .unwrap();
        assert_eq!(end(&handle.outcome().await.unwrap()), expected);
        let whole = handle.complete().await;
        assert_eq!(
            whole.is_ok(),
            matches!(expected, Some(End::Complete | End::Claimed))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn i5_one_writer() {
    let transport = MemoryTransport::new();
    let gate = Gate::new();
    transport.push(
        sse()
            .chunk(delta("mine"))
            .gate(&gate)
            .chunk(STOP)
            .chunk(DONE),
    );
    let store = memory();
    let client = client(&transport, &store);
    let handle = client.call(chat()).key(key()).start().await.unwrap();
    gate.reached().await;
    // Another machine fences this one, as it would after the lease ran out.
    let late = WallTime::from_millis(u64::MAX / 2);
    let claim = Claim {
        key: key(),
        fingerprint: chat().fingerprint(),
        intent: Intent::TakeOver,
        now: late,
        lease_for: SECOND,
        keep_for: SECOND * 3600,
    };
    let Claimed::Granted(lease, state) = store.claim(claim).await.unwrap() else {
        panic!("expected the lease")
    };
    gate.open();
    let Outcome::StoreFailed(failure) = handle.outcome().await.unwrap() else {
        panic!("the fenced writer went on");
    };
    assert_eq!(failure.kind, ErrorKind::StaleLease.code());
    // The zombie wrote nothing: the new writer's first number is the head's successor.
    let record = Record {
        seq: state.head.next(),
        at: late,
        body: Body::Control(Box::new(Control::Unknown)),
    };
    let batch = Batch {
        records: vec![record],
        status: Status::Running,
        now: late,
    };
    assert_eq!(
        store.append(&lease, batch).await.unwrap(),
        state.head.next()
    );
}

#[tokio::test(start_paused = true)]
async fn i6_every_wait_is_bounded() {
    for exchange in [
        Exchange::new().hang(),
        sse().hang(),
        sse().chunk(ROLE).hang(),
        sse().chunk(delta("x")).hang(),
        Exchange::new().status(500).hang(),
    ] {
        let transport = MemoryTransport::new();
        for _ in 0..3 {
            transport.push(exchange.clone());
        }
        let handle = client(&transport, &memory())
            .call(chat())
            .start()
            .await
            .unwrap();
        tokio::time::timeout(SECOND * 600, handle.outcome())
            .await
            .unwrap()
            .unwrap();
    }
    // And no sleep is begun that the deadline cannot carry.
    let transport = MemoryTransport::new();
    transport.push(
        Exchange::new().head(streamkeep::proto::model::ResponseHead {
            status: 429,
            headers: vec![("retry-after".into(), "10".into())],
        }),
    );
    let timeouts = Timeouts {
        overall: Some(SECOND * 5),
        ..Timeouts::CHAT
    };
    let client = client(&transport, &memory());
    let handle = client
        .call(chat())
        .timeouts(timeouts)
        .start()
        .await
        .unwrap();
    let asked = tokio::time::Instant::now();
    assert_eq!(end(&handle.outcome().await.unwrap()), Some(End::Failed));
    assert!(asked.elapsed() < SECOND, "it did not even begin to wait");
}

#[tokio::test(start_paused = true)]
async fn i7_secrets_stay_out() {
    let transport = MemoryTransport::new();
    transport.push(sse().chunk(delta("x")).breaks(ErrorKind::Reset));
    let store = memory();
    let client = client(&transport, &store);
    let handle = client.call(chat()).start().await.unwrap();
    let outcome = handle.outcome().await.unwrap();
    let error = handle.complete().await.unwrap_err();
    let records = records(&handle).await;
    let mut bytes = bytes::BytesMut::new();
    streamkeep::proto::journal::encode(&records, &mut bytes).unwrap();
    let told = format!(
        "{client:?} {handle:?} {outcome:?} {error:?} {error} {records:?} {:?}",
        transport.calls()
    );
    assert!(!told.contains(SECRET));
    assert!(!String::from_utf8_lossy(&bytes).contains(SECRET));
    // A request that would carry one where it would be kept is refused.
    for url in [
        "https://u:p@host/v1/chat/completions",
        "https://host/v1/chat/completions?api_key=sk-1",
    ] {
        let error = Request::new(Dialect::OpenAiChat, url, "{}").unwrap_err();
        assert!(!error.to_string().contains("sk-1") && !error.to_string().contains("u:p"));
    }
    assert!(chat().with_header("Authorization", "Bearer sk-1").is_err());
}

#[tokio::test(start_paused = true)]
async fn i8_stop_stops() {
    let transport = MemoryTransport::new();
    let gate = Gate::new();
    transport.push(
        sse()
            .chunk(CREATED)
            .chunk(ITEM)
            .chunk(HEL)
            .gate(&gate)
            .hang(),
    );
    transport.push(Exchange::new().status(200));
    let body = r#"{"model":"m","input":"hi","background":true}"#;
    let request = Request::new(
        Dialect::OpenAiResponses,
        "http://upstream.test/v1/responses",
        body,
    )
    .unwrap();
    let client = client(&transport, &memory());
    let handle = client.call(request).start().await.unwrap();
    gate.reached().await;
    assert_eq!(end(&handle.cancel().await.unwrap()), Some(End::Cancelled));
    assert_eq!(transport.calls()[0].fate, Fate::Dropped);
    transport.asked(2).await;
    let calls = transport.calls();
    assert!(
        calls[1].outgoing.request.url.ends_with("/resp_1/cancel"),
        "the provider was told"
    );
    tokio::time::advance(SECOND * 600).await;
    assert_eq!(transport.calls().len(), 2, "and nothing was retried");
    let answer = handle.complete().await.unwrap_err();
    assert_eq!(answer.partial.text(), "Hel", "what arrived is kept");
}

#[tokio::test(start_paused = true)]
async fn i9_retries_are_bounded() {
    // The budget that all operations share is a floor of its own; here: one
    // operation's attempts are bounded whatever the upstream does.
    let transport = MemoryTransport::new();
    for _ in 0..100 {
        transport.push(Exchange::new().status(503));
    }
    let handle = client(&transport, &memory())
        .call(chat())
        .start()
        .await
        .unwrap();
    assert_eq!(end(&handle.outcome().await.unwrap()), Some(End::Failed));
    assert_eq!(transport.calls().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn i10_a_splice_needs_proof() {
    let transport = MemoryTransport::new();
    transport.push(
        sse()
            .chunk(CREATED)
            .chunk(ITEM)
            .chunk(HEL)
            .breaks(ErrorKind::Reset),
    );
    let foreign = CREATED
        .replace("resp_1", "resp_2")
        .replace("\"sequence_number\":0", "\"sequence_number\":7");
    transport.push(sse().chunk(foreign));
    let body = r#"{"model":"m","input":"hi","background":true}"#;
    let request = Request::new(
        Dialect::OpenAiResponses,
        "http://upstream.test/v1/responses",
        body,
    )
    .unwrap();
    let handle = client(&transport, &memory())
        .call(request)
        .start()
        .await
        .unwrap();
    let Outcome::Interrupted(interrupted) = handle.outcome().await.unwrap() else {
        panic!("a foreign stream was spliced on");
    };
    assert_eq!(
        interrupted.failure.kind,
        ErrorKind::ContinuationMismatch.code()
    );
    assert!(
        records(&handle)
            .await
            .iter()
            .all(|record| match &record.body {
                Body::Event(event) => !event.data.contains("resp_2"),
                Body::Control(control) => !matches!(control.as_ref(), Control::Spliced(_)),
                _ => true,
            })
    );
}

#[tokio::test(start_paused = true)]
async fn i11_honest_cursors() {
    let transport = MemoryTransport::new();
    transport.push(sse().chunk(delta("old")).breaks(ErrorKind::Reset));
    transport.push(whole("new"));
    let client = client(&transport, &memory());
    let old = client.call(chat()).key(key()).start().await.unwrap();
    old.outcome().await.unwrap();
    let ahead = old
        .subscribe_after(Cursor::new(Generation::FIRST, Seq::new(999)))
        .next()
        .await;
    assert_eq!(ahead.unwrap_err().kind(), ErrorKind::CursorAhead);
    let unknown = client.attach(&Key::new("nobody").unwrap()).await;
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        "from the start".parse::<Cursor>().unwrap_err().kind(),
        ErrorKind::InvalidCursor
    );
    client
        .regenerate(&key())
        .await
        .unwrap()
        .outcome()
        .await
        .unwrap();
    let mut reader = old.subscribe();
    let told = loop {
        match reader.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a reader of the older generation was not told"),
            Err(error) => break error,
        }
    };
    assert_eq!(told.kind(), ErrorKind::OldGeneration);
}

#[tokio::test(start_paused = true)]
async fn i12_bad_input_costs_a_clear_error() {
    let mut decoder = Decoder::new(DecoderConfig::new().max_event_bytes(1000));
    decoder.push(vec![b'x'; 10_000].into());
    let error = loop {
        match decoder.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("an endless line was taken"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("1000"), "{error}");
    assert!(decoder.next().unwrap().is_none(), "one error, then the end");
    for body in ["", "[]", "{", "\u{0}"] {
        let error =
            Request::new(Dialect::OpenAiChat, "http://h/v1/chat/completions", body).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    }
    let transport = MemoryTransport::new();
    transport.push(sse().chunk(delta("x")).chunk("data: {broken\n\n"));
    let handle = client(&transport, &memory())
        .call(chat())
        .hold(Hold::None)
        .start()
        .await
        .unwrap();
    let error = handle.complete().await.unwrap_err();
    assert_eq!(error.error.kind(), ErrorKind::Protocol);
    assert_eq!(error.partial.text(), "x");
}
