//! How streams of HTTP/2 end, frame by frame (RFC 9113 sections 6.4, 6.8, 8.7).

use crate::peer::{Peer, drain, fails, listen, open, transport, within};
use streamkeep::ErrorKind;
use streamkeep::proto::model::TransportFailure;

pub(crate) const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame of at most 255 bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, length, kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// `:status: 200`, the eighth entry of HPACK's static table.
pub(crate) fn head(stream: u32) -> Vec<u8> {
    frame(1, 4, stream, &[0x88])
}

pub(crate) fn data(stream: u32, bytes: &[u8], last: bool) -> Vec<u8> {
    frame(0, u8::from(last), stream, bytes)
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(3, 0, stream, &code.to_be_bytes())
}

fn go_away(last: u32, code: u32, debug: &[u8]) -> Vec<u8> {
    let mut payload = last.to_be_bytes().to_vec();
    payload.extend_from_slice(&code.to_be_bytes());
    payload.extend_from_slice(debug);
    frame(7, 0, 0, &payload)
}

/// Answers the first request with these bytes and waits for the client to leave.
/// Returns the failure, and asserts that nothing was sent again.
async fn opening(answer: Vec<u8>, then_close: bool) -> TransportFailure {
    let (listener, url) = listen().await;
    let (finished, finish) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.send(SETTINGS).await;
        peer.request2().await;
        peer.send(answer).await;
        if then_close {
            peer.close_writing().await;
        }
        within(finish).await.ok();
        let mut heads = 0;
        while let Some(frame) = within(peer.frame()).await {
            heads += usize::from(frame.0 == 1);
        }
        assert_eq!(heads, 0, "the request was sent again");
        drop(listener);
    });
    let transport = transport(true);
    let failure = fails(&transport, &url).await;
    drop(transport);
    finished.send(()).unwrap();
    within(server).await.unwrap();
    failure
}

#[track_caller]
fn check(failure: &TransportFailure, kind: ErrorKind, sent: bool, part: &str) {
    assert_eq!((failure.kind, failure.sent), (kind, sent), "{failure:?}");
    assert!(failure.message.contains(part), "{}", failure.message);
}

#[tokio::test]
async fn a_refused_stream_was_not_processed_and_is_not_sent_again() {
    let failure = opening(reset(1, REFUSED_STREAM), false).await;
    check(&failure, ErrorKind::Reset, false, "REFUSED_STREAM (7)");
}

#[tokio::test]
async fn any_other_reset_before_the_head_may_have_been_processed() {
    let failure = opening(reset(1, INTERNAL_ERROR), false).await;
    check(&failure, ErrorKind::Reset, true, "INTERNAL_ERROR (2)");
    let failure = opening(reset(1, CANCEL), false).await;
    check(&failure, ErrorKind::Reset, true, "CANCEL (8)");
    let failure = opening(reset(1, 0xbeef), false).await;
    check(&failure, ErrorKind::Reset, true, "unknown (48879)");
}

#[tokio::test]
async fn a_stream_above_the_last_one_of_a_go_away_was_not_processed() {
    let failure = opening(go_away(0, NO_ERROR, b""), false).await;
    check(&failure, ErrorKind::Reset, false, "NO_ERROR (0)");
    let failure = opening(go_away(0, ENHANCE_YOUR_CALM, b"hush"), true).await;
    check(&failure, ErrorKind::Reset, false, "ENHANCE_YOUR_CALM (11)");
    assert!(!failure.message.contains("hush"));
}

#[tokio::test]
async fn a_stream_that_a_go_away_covers_may_have_been_processed() {
    let failure = opening(go_away(1, INTERNAL_ERROR, b"hush"), true).await;
    assert!(failure.sent, "{failure:?}");
    assert!(!failure.message.contains("hush"));
}

#[tokio::test]
async fn a_connection_that_ends_before_the_head_is_closed() {
    let failure = opening(Vec::new(), true).await;
    check(&failure, ErrorKind::ConnectionClosed, true, "closed before");
}

#[tokio::test]
async fn a_server_that_does_not_speak_http2_breaks_the_protocol() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request2().await;
        peer.send("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            .await;
        peer.fin().await;
    });
    let failure = fails(&transport(true), &url).await;
    check(&failure, ErrorKind::Protocol, true, "http/2");
    within(server).await.unwrap();
}

/// Plays these bytes after a head and one piece, then reads the body.
async fn reading(answer: Vec<u8>, then_close: bool) -> (Vec<u8>, Option<TransportFailure>) {
    let (listener, url) = listen().await;
    let (read, was_read) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.send(SETTINGS).await;
        peer.request2().await;
        peer.send(head(1)).await;
        peer.send(data(1, b"first", false)).await;
        within(was_read).await.unwrap();
        peer.send(answer).await;
        if then_close {
            peer.close_writing().await;
        }
        peer.gone().await;
    });
    let transport = transport(true);
    let mut response = open(&transport, &url).await;
    let mut body = within(response.body.chunk())
        .await
        .unwrap()
        .unwrap()
        .to_vec();
    read.send(()).unwrap();
    let (rest, failure) = drain(&mut *response.body).await;
    body.extend_from_slice(&rest);
    drop((response, transport));
    within(server).await.unwrap();
    (body, failure)
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_body_is_told_once_with_its_code() {
    let (body, failure) = reading(reset(1, REFUSED_STREAM), false).await;
    assert_eq!(body, b"first");
    // Whatever the code says: a server that has answered has had the request.
    check(
        &failure.unwrap(),
        ErrorKind::Reset,
        true,
        "REFUSED_STREAM (7)",
    );
}

#[tokio::test]
async fn a_connection_that_ends_in_the_middle_of_a_body_is_not_a_clean_end() {
    let (body, failure) = reading(Vec::new(), true).await;
    assert_eq!(body, b"first");
    check(
        &failure.unwrap(),
        ErrorKind::BodyFraming,
        true,
        "rest of the body",
    );
}

#[tokio::test]
async fn a_go_away_lets_a_covered_stream_run_to_its_end() {
    let mut answer = go_away(1, NO_ERROR, b"");
    answer.extend_from_slice(&data(1, b" second", true));
    let (body, failure) = reading(answer, false).await;
    assert_eq!(
        (body.as_slice(), failure),
        (b"first second".as_slice(), None)
    );
}

// Known and documented: the client below takes this for an early answer.
#[tokio::test]
async fn a_reset_without_an_error_in_the_middle_of_a_body_reads_as_a_clean_end() {
    let (body, failure) = reading(reset(1, NO_ERROR), false).await;
    assert_eq!((body.as_slice(), failure), (b"first".as_slice(), None));
}

#[tokio::test]
async fn a_frame_against_the_rules_breaks_the_framing() {
    // DATA on stream 0.
    let (body, failure) = reading(data(0, b"x", false), false).await;
    assert_eq!(body, b"first");
    check(
        &failure.unwrap(),
        ErrorKind::BodyFraming,
        true,
        "PROTOCOL_ERROR (1)",
    );
}

#[tokio::test]
async fn streams_of_one_connection_fail_alone() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.send(SETTINGS).await;
        peer.request2().await;
        peer.send(head(1)).await;
        let mut second = false;
        while !second {
            let (kind, flags, stream, _) = within(peer.frame()).await.unwrap();
            second = stream == 3 && kind <= 1 && flags & 1 == 1;
        }
        peer.send(head(3)).await;
        peer.send(reset(1, INTERNAL_ERROR)).await;
        peer.send(data(3, b"whole", true)).await;
        peer.gone().await;
    });
    let transport = transport(true);
    let mut first = open(&transport, &url).await;
    let mut second = open(&transport, &url).await;
    let (_, failure) = drain(&mut *first.body).await;
    check(
        &failure.unwrap(),
        ErrorKind::Reset,
        true,
        "INTERNAL_ERROR (2)",
    );
    let (body, failure) = drain(&mut *second.body).await;
    assert_eq!((body.as_slice(), failure), (b"whole".as_slice(), None));
    drop((first, second, transport));
    within(server).await.unwrap();
}
