//! No request is sent twice behind the caller's back.

use crate::peer::{Peer, drain, fails, listen, now, open, transport, within};
use streamkeep::ErrorKind;
use tokio::sync::oneshot;

const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole";

// The moment in which a server closes a connection that was kept open is the one
// in which the next request arrives on it.
#[tokio::test]
async fn a_request_on_a_kept_connection_that_is_closed_under_it_is_not_sent_again() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.send(WHOLE).await;
        // On the same connection: the pool works.
        peer.request().await;
        peer.fin().await;
        listener
    });
    let transport = transport(false);
    let (body, failure) = drain(&mut *open(&transport, &url).await.body).await;
    assert_eq!((body.as_slice(), failure), (b"whole".as_slice(), None));
    let failure = fails(&transport, &url).await;
    assert_eq!(
        (failure.kind, failure.sent),
        (ErrorKind::ConnectionClosed, true)
    );
    let listener = within(server).await.unwrap();
    assert!(now(listener.accept()).is_none(), "a second connection");
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_in_between_is_not_used() {
    let (listener, url) = listen().await;
    let (closed, was_closed) = oneshot::channel();
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.send(WHOLE).await;
        peer.fin().await;
        closed.send(()).unwrap();
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.send(WHOLE).await;
        peer.gone().await;
        listener
    });
    let transport = transport(false);
    drain(&mut *open(&transport, &url).await.body).await;
    // The server has seen the client close its end.
    within(was_closed).await.unwrap();
    let (body, failure) = drain(&mut *open(&transport, &url).await.body).await;
    assert_eq!((body.as_slice(), failure), (b"whole".as_slice(), None));
    drop(transport);
    let listener = within(server).await.unwrap();
    assert!(now(listener.accept()).is_none(), "a third connection");
}

// A body that broke leaves its connection in an unknown state.
#[tokio::test]
async fn a_connection_whose_body_broke_is_not_used_again() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\nzz\r\n")
            .await;
        // The client closes it, although the server has not.
        peer.gone().await;
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.send(WHOLE).await;
        peer.gone().await;
    });
    let transport = transport(false);
    let (body, failure) = drain(&mut *open(&transport, &url).await.body).await;
    assert_eq!(body, b"first");
    assert_eq!(failure.unwrap().kind, ErrorKind::BodyFraming);
    let (body, failure) = drain(&mut *open(&transport, &url).await.body).await;
    assert_eq!((body.as_slice(), failure), (b"whole".as_slice(), None));
    drop(transport);
    within(server).await.unwrap();
}

#[tokio::test]
async fn a_pool_that_keeps_nothing_closes_after_each_answer() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let mut peer = Peer::accept(&listener).await;
            peer.request().await;
            peer.send(WHOLE).await;
            peer.gone().await;
        }
    });
    let transport = streamkeep::transport::ReqwestTransport::builder()
        .pool_idle_timeout(std::time::Duration::ZERO)
        .build()
        .unwrap();
    for _ in 0..2 {
        drain(&mut *open(&transport, &url).await.body).await;
    }
    within(server).await.unwrap();
}
