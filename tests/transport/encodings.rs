//! Bodies in a coding that nobody asked for.
//!
//! Two gzip cases stand among the reported ones: an event stream that is flushed
//! per event (the first event has to be there before the second is sent) and one
//! that is cut.

use crate::peer::{Peer, drain, listen, open, post, transport, within};
use streamkeep::ErrorKind;
use streamkeep::proto::model::TransportFailure;
use streamkeep::transport::{Response, Transport};

/// "hello" as a whole gzip member.
const HELLO: [u8; 25] = [
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x07,
    0x00, 0x86, 0xa6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00,
];

async fn answer(head: &str, body: &[u8]) -> Result<Response, TransportFailure> {
    let (listener, url) = listen().await;
    let mut bytes =
        format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.try_send(bytes).await;
        peer.fin().await;
    });
    let transport = transport(false);
    let result = within(transport.open(post(&url))).await;
    within(server).await.unwrap();
    result
}

#[tokio::test]
async fn other_codings_are_refused_by_name() {
    for (coding, named) in [
        ("br", "found br"),
        ("zstd", "found zstd"),
        ("deflate", "found deflate"),
        ("BR", "found BR"),
        ("gzip, gzip", "found gzip, gzip"),
        ("gzip, br", "found gzip, br"),
        ("hush", "found an unknown one"),
        ("br,br,br,br,br", "found br, br, br, br, more"),
    ] {
        let head = format!("200 OK\r\ncontent-encoding: {coding}");
        let mut response = answer(&head, b"????").await.unwrap();
        assert_eq!(response.head.header("content-encoding"), Some(coding));
        let (body, failure) = drain(&mut *response.body).await;
        assert_eq!(body, b"", "raw bytes are never passed on");
        let failure = failure.unwrap();
        assert_eq!((failure.kind, failure.sent), (ErrorKind::Decode, true));
        assert!(failure.message.ends_with(named), "{}", failure.message);
    }
}

#[tokio::test]
async fn the_status_of_a_refusal_survives_a_coding_that_we_do_not_decode() {
    let head = "429 Too Many Requests\r\nretry-after: 7\r\ncontent-encoding: br";
    let mut response = answer(head, b"????").await.unwrap();
    assert_eq!(response.head.status, 429);
    assert_eq!(response.head.header("retry-after"), Some("7"));
    let (body, failure) = drain(&mut *response.body).await;
    assert_eq!(body, b"");
    let failure = failure.unwrap();
    assert_eq!((failure.kind, failure.sent), (ErrorKind::Decode, true));
    assert!(failure.message.ends_with("found br"));
}

#[tokio::test]
async fn identity_is_no_coding() {
    let mut response = answer("200 OK\r\ncontent-encoding: Identity", b"plain")
        .await
        .unwrap();
    let (body, failure) = drain(&mut *response.body).await;
    assert_eq!((body.as_slice(), failure), (b"plain".as_slice(), None));
}

#[tokio::test]
async fn gzip_is_decoded_and_the_headers_that_no_longer_hold_are_gone() {
    for name in ["gzip", "GZip", "x-gzip", "gzip, identity"] {
        let head = format!("200 OK\r\ncontent-encoding: {name}");
        let mut response = answer(&head, &HELLO).await.unwrap();
        assert_eq!(response.head.header("content-encoding"), None);
        assert_eq!(response.head.header("content-length"), None);
        let (body, failure) = drain(&mut *response.body).await;
        assert_eq!((body.as_slice(), failure), (b"hello".as_slice(), None));
    }
}

#[tokio::test]
async fn gzip_members_follow_each_other() {
    let twice = [HELLO, HELLO].concat();
    let mut response = answer("200 OK\r\ncontent-encoding: gzip", &twice)
        .await
        .unwrap();
    let (body, failure) = drain(&mut *response.body).await;
    assert_eq!((body.as_slice(), failure), (b"hellohello".as_slice(), None));
}

#[tokio::test]
async fn gzip_that_is_cut_or_corrupt_is_told_after_what_came_before() {
    let mut wrong_sum = HELLO;
    wrong_sum[17] ^= 1;
    for (bytes, before) in [
        (&HELLO[..20], &b"hello"[..]),
        (&wrong_sum[..], b"hello"),
        (b"not gzip at all", b""),
    ] {
        let mut response = answer("200 OK\r\ncontent-encoding: gzip", bytes)
            .await
            .unwrap();
        let (body, failure) = drain(&mut *response.body).await;
        let failure = failure.unwrap();
        assert_eq!((failure.kind, failure.sent), (ErrorKind::Decode, true));
        assert_eq!(body, before);
    }
}

// A connection that breaks under the decoder is not the decoder's fault.
#[tokio::test]
async fn a_reset_under_gzip_is_a_reset() {
    let (listener, url) = listen().await;
    let (read, was_read) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 25\r\n\r\n")
            .await;
        peer.send(&HELLO[..17]).await;
        within(was_read).await.unwrap();
        peer.rst();
    });
    let transport = transport(false);
    let mut response = open(&transport, &url).await;
    let piece = within(response.body.chunk()).await.unwrap().unwrap();
    assert_eq!(piece, "hello");
    read.send(()).unwrap();
    let (_, failure) = drain(&mut *response.body).await;
    let failure = failure.unwrap();
    assert_eq!((failure.kind, failure.sent), (ErrorKind::Reset, true));
    within(server).await.unwrap();
}

#[tokio::test]
async fn an_empty_body_has_nothing_to_decode() {
    let mut response = answer("503 Busy\r\ncontent-encoding: gzip", b"")
        .await
        .unwrap();
    assert_eq!(response.head.status, 503);
    let (body, failure) = drain(&mut *response.body).await;
    assert_eq!((body.as_slice(), failure), (b"".as_slice(), None));
}
