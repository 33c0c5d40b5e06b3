//! Letting go closes the exchange at once: an upstream that watches stops.

use crate::peer::{Peer, listen, open, post, transport, within};
use streamkeep::transport::Transport;
use tokio::sync::oneshot;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

#[tokio::test]
async fn dropping_the_opening_closes_the_connection() {
    let (listener, url) = listen().await;
    let (asked, was_asked) = oneshot::channel();
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        asked.send(()).unwrap();
        peer.gone().await;
    });
    let transport = transport(false);
    tokio::select! {
        biased;
        _ = transport.open(post(&url)) => panic!("nobody answers"),
        asked = within(was_asked) => asked.unwrap(),
    }
    within(server).await.unwrap();
}

#[tokio::test]
async fn dropping_the_body_closes_the_connection() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.send(HEAD).await;
        peer.send("5\r\nfirst\r\n").await;
        peer.gone().await;
    });
    let transport = transport(false);
    let mut response = open(&transport, &url).await;
    let piece = within(response.body.chunk()).await.unwrap().unwrap();
    assert_eq!(piece, "first");
    drop(response);
    within(server).await.unwrap();
}

#[tokio::test]
async fn dropping_a_reader_in_the_middle_of_a_wait_loses_nothing() {
    let (listener, url) = listen().await;
    let (go, gone) = oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.send(HEAD).await;
        within(gone).await.unwrap();
        peer.send("5\r\nfirst\r\n0\r\n\r\n").await;
        peer.fin().await;
    });
    let transport = transport(false);
    let mut response = open(&transport, &url).await;
    for _ in 0..3 {
        tokio::select! {
            biased;
            _ = response.body.chunk() => panic!("nothing was sent"),
            () = tokio::task::yield_now() => {}
        }
    }
    go.send(()).unwrap();
    let (body, failure) = crate::peer::drain(&mut *response.body).await;
    assert_eq!((body.as_slice(), failure), (b"first".as_slice(), None));
    drop((response, transport));
    within(server).await.unwrap();
}

/// RST_STREAM with CANCEL, the only thing that may end the stream.
async fn cancelled(peer: &mut Peer) -> u32 {
    loop {
        let (kind, _, stream, payload) = within(peer.frame()).await.expect("a reset stream");
        if kind == 3 {
            assert_eq!(payload, [0, 0, 0, 8]);
            return stream;
        }
    }
}

#[tokio::test]
async fn dropping_the_opening_resets_the_stream_of_http2() {
    let (listener, url) = listen().await;
    let (asked, was_asked) = oneshot::channel();
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.send(crate::http2::SETTINGS).await;
        peer.request2().await;
        asked.send(()).unwrap();
        assert_eq!(cancelled(&mut peer).await, 1);
    });
    let transport = transport(true);
    tokio::select! {
        biased;
        _ = transport.open(post(&url)) => panic!("nobody answers"),
        asked = within(was_asked) => asked.unwrap(),
    }
    within(server).await.unwrap();
}

#[tokio::test]
async fn dropping_the_body_resets_the_stream_of_http2() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.send(crate::http2::SETTINGS).await;
        peer.request2().await;
        peer.send(crate::http2::head(1)).await;
        peer.send(crate::http2::data(1, b"first", false)).await;
        assert_eq!(cancelled(&mut peer).await, 1);
    });
    let transport = transport(true);
    let mut response = open(&transport, &url).await;
    let piece = within(response.body.chunk()).await.unwrap().unwrap();
    assert_eq!(piece, "first");
    drop(response);
    within(server).await.unwrap();
}
