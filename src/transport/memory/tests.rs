use super::*;
use crate::proto::model::{HttpRequest, Method};
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);

fn outgoing(url: &str) -> Outgoing {
    Outgoing {
        request: HttpRequest {
            method: Method::Post,
            url: url.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
        },
        secret_headers: vec![("authorization".to_owned(), "Bearer hush".into())],
    }
}

async fn open(transport: &MemoryTransport) -> Result<Response, TransportFailure> {
    transport.open(outgoing("http://h/v1")).await
}

fn fates(transport: &MemoryTransport) -> Vec<Fate> {
    transport.calls().iter().map(|call| call.fate).collect()
}

#[tokio::test(start_paused = true)]
async fn scripts_are_played_in_order_and_recorded() {
    let transport = MemoryTransport::new();
    transport.push(Exchange::new().wait(2 * SECOND).status(503));
    transport.push(Exchange::new().chunk("").chunk("a").wait(SECOND).chunk("b"));
    transport.push(Exchange::new().breaks_unsent(ErrorKind::Connect));
    transport.push(Exchange::new().chunk("a").breaks(ErrorKind::Reset));
    assert_eq!(transport.scripts_left(), 4);

    let first = open(&transport).await.unwrap();
    assert_eq!(first.head.status, 503);
    drop(first);

    let mut second = open(&transport).await.unwrap();
    assert_eq!(second.head.status, 200);
    assert_eq!(
        second.head.header("content-type"),
        Some("text/event-stream")
    );
    assert_eq!(second.body.chunk().await, Ok(Some(Bytes::from("a"))));
    assert_eq!(second.body.chunk().await, Ok(Some(Bytes::from("b"))));
    assert_eq!(second.body.chunk().await, Ok(None));
    assert_eq!(second.body.chunk().await, Ok(None));

    let third = open(&transport).await.unwrap_err();
    assert_eq!((third.kind, third.sent), (ErrorKind::Connect, false));

    let mut fourth = open(&transport).await.unwrap();
    assert_eq!(fourth.body.chunk().await, Ok(Some(Bytes::from("a"))));
    let failure = fourth.body.chunk().await.unwrap_err();
    assert_eq!((failure.kind, failure.sent), (ErrorKind::Reset, true));
    assert_eq!(fourth.body.chunk().await, Ok(None));

    let calls = transport.calls();
    let after: Vec<_> = calls.iter().map(|call| call.after.as_secs()).collect();
    assert_eq!(after, [0, 2, 3, 3]);
    assert_eq!(
        fates(&transport),
        [Fate::Dropped, Fate::Ended, Fate::Failed, Fate::Failed]
    );
    assert_eq!(calls[0].outgoing.request.url, "http://h/v1");
    assert!(!format!("{transport:?}").contains("hush"));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_reader_loses_neither_a_piece_nor_the_time_it_has_waited() {
    let transport = MemoryTransport::new();
    transport.push(Exchange::new().status(200).wait(10 * SECOND).chunk("late"));
    let mut response = open(&transport).await.unwrap();
    let start = Instant::now();
    for _ in 0..3 {
        timeout(3 * SECOND, response.body.chunk())
            .await
            .unwrap_err();
    }
    assert_eq!(response.body.chunk().await, Ok(Some(Bytes::from("late"))));
    assert_eq!(start.elapsed(), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_gate_tells_when_it_is_reached_and_lets_through_when_opened() {
    let transport = MemoryTransport::new();
    let gate = Gate::new();
    transport.push(Exchange::new().gate(&gate).chunk("a"));
    let reader = tokio::spawn({
        let transport = transport.clone();
        async move { open(&transport).await.unwrap().body.chunk().await }
    });
    gate.reached().await;
    assert_eq!(fates(&transport), [Fate::Opening]);
    assert!(!reader.is_finished());
    gate.open();
    assert_eq!(reader.await.unwrap(), Ok(Some(Bytes::from("a"))));
}

#[tokio::test(start_paused = true)]
async fn letting_go_is_noticed_at_every_stage() {
    let transport = MemoryTransport::new();
    for _ in 0..3 {
        transport.push(Exchange::new().wait(SECOND).status(200).hang());
    }
    drop(transport.open(outgoing("http://h")));
    assert_eq!(transport.over(0).await, Fate::Dropped);

    timeout(SECOND / 2, open(&transport)).await.unwrap_err();
    assert_eq!(transport.over(1).await, Fate::Dropped);

    let mut response = open(&transport).await.unwrap();
    timeout(SECOND, response.body.chunk()).await.unwrap_err();
    assert_eq!(fates(&transport)[2], Fate::Streaming);
    drop(response);
    assert_eq!(transport.over(2).await, Fate::Dropped);
    transport.asked(3).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_script_does_not_say_has_a_meaning() {
    let transport = MemoryTransport::new();
    transport.push(Exchange::new());
    let silent = open(&transport).await.unwrap_err();
    assert_eq!(
        (silent.kind, silent.sent),
        (ErrorKind::ConnectionClosed, true)
    );
    let unscripted = open(&transport).await.unwrap_err();
    assert_eq!(
        (unscripted.kind, unscripted.sent),
        (ErrorKind::Config, false)
    );
    assert!(unscripted.message.contains("request 2"));
    transport.push(Exchange::new().status(200).status(500).chunk("a"));
    let mut twice = open(&transport).await.unwrap();
    assert_eq!(twice.head.status, 200);
    assert_eq!(twice.body.chunk().await, Ok(Some(Bytes::from("a"))));
}
