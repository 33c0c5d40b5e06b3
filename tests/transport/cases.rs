//! Failures that users reported, as byte scripts: `fixtures/transport/cases.json`.
//!
//! `script` is what the server does once it has read the whole request: `text`
//! and `hex` send bytes, `await_delivered` waits until the reader has had so many
//! bytes of the body, `close` ends with `fin` or `rst`. `expect` is what a reader
//! of the transport sees: `status` (`null` when no head comes), the body before
//! the end, and the end: `clean` or the code of a failure.

use crate::peer::{Peer, listen, post, transport, within};
use serde_json::Value;
use streamkeep::transport::Transport;
use tokio::net::TcpListener;
use tokio::sync::watch;

const CASES: &str = include_str!("../../fixtures/transport/cases.json");

#[tokio::test]
async fn every_reported_failure_is_told_as_what_it_is() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert_eq!(cases.len(), 18);
    for case in &cases {
        play(case).await;
    }
}

async fn play(case: &Value) {
    let id = case["id"].as_str().unwrap();
    let expect = &case["expect"];
    let http2 = case["http2"].as_bool().unwrap();
    let (listener, url) = listen().await;
    let (delivered, seen) = watch::channel(0);
    let steps = case["script"].as_array().unwrap().clone();
    let server = tokio::spawn(serve(listener, http2, steps, seen));

    let mut body = Vec::new();
    let mut status = None;
    let mut failure = None;
    match within(transport(http2).open(post(&url))).await {
        Ok(mut response) => {
            status = Some(u64::from(response.head.status));
            loop {
                match within(response.body.chunk()).await {
                    Ok(Some(piece)) => body.extend_from_slice(&piece),
                    Ok(None) => break,
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
                delivered.send(body.len()).ok();
            }
            for _ in 0..2 {
                let after = within(response.body.chunk()).await;
                assert_eq!(after, Ok(None), "{id}: fused");
            }
        }
        Err(error) => failure = Some(error),
    }

    let found = failure
        .as_ref()
        .map_or("clean", |failure| failure.kind.code());
    assert_eq!(found, expect["end"].as_str().unwrap(), "{id}: {failure:?}");
    assert_eq!(status, expect["status"].as_u64(), "{id}");
    let whole = match &expect["body"] {
        Value::String(text) => text.clone().into_bytes(),
        _ => unhex(expect["body_hex"].as_str().unwrap()),
    };
    assert_eq!(
        String::from_utf8_lossy(&body),
        String::from_utf8_lossy(&whole),
        "{id}"
    );
    if let Some(failure) = failure {
        assert!(failure.sent, "{id}: the server has read the request");
        if let Some(part) = expect["message_has"].as_str() {
            assert!(failure.message.contains(part), "{id}: {}", failure.message);
        }
    }
    drop(delivered);
    within(server).await.unwrap();
}

async fn serve(
    listener: TcpListener,
    http2: bool,
    steps: Vec<Value>,
    mut delivered: watch::Receiver<usize>,
) {
    let mut peer = Peer::accept(&listener).await;
    if http2 {
        peer.request2().await;
    } else {
        peer.request().await;
    }
    for step in steps {
        if let Some(text) = step["text"].as_str() {
            peer.send(text).await;
        } else if let Some(hex) = step["hex"].as_str() {
            peer.send(unhex(hex)).await;
        } else if let Some(bytes) = step["await_delivered"].as_u64() {
            let bytes = usize::try_from(bytes).unwrap();
            within(delivered.wait_for(|had| *had >= bytes))
                .await
                .unwrap();
        } else if step["close"] == "rst" {
            return peer.rst();
        } else if step["close"] == "fin" {
            return peer.fin().await;
        } else {
            panic!("unknown step {step}");
        }
    }
}

fn unhex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2));
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}
