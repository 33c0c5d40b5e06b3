//! Scripts of bytes.

use crate::cases;
use crate::wire::{End, exchange, open, read_to_end, read_until, soon};
use std::time::Duration;
use streamkeep::testkit::{Close, RawPlan, RawServer, Step, Template};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn get(server: &RawServer) -> (Vec<u8>, End) {
    let mut stream = open(&server.url(), "GET", "/", "").await;
    let got = read_to_end(&mut stream).await;
    let mut bytes = got.head.into_bytes();
    if !bytes.is_empty() && !got.rest.is_empty() {
        bytes.extend_from_slice(b"\r\n\r\n");
    }
    bytes.extend(got.rest);
    (bytes, got.end)
}

#[tokio::test]
async fn a_script_is_played_as_it_is() {
    let plan = RawPlan::new(vec![
        Step::text("HTTP/1.1 200 OK\r\n\r\n"),
        Step::Repeat {
            bytes: "ab".into(),
            times: 70_000,
        },
        Step::Sleep(Duration::from_millis(1)),
        Step::Send(vec![0, 255].into()),
        Step::Close(Close::Fin),
        Step::text("never"),
    ]);
    let server = RawServer::start(plan).await.unwrap();
    let (bytes, end) = get(&server).await;
    let mut expected = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    expected.extend(b"ab".repeat(70_000));
    expected.extend([0, 255]);
    assert!(bytes == expected && end == End::Fin);
    let seen = server.requests();
    assert_eq!(
        (seen[0].method.as_str(), seen[0].bytes_sent),
        ("GET", 140_021)
    );
}

#[tokio::test]
async fn a_reset_after_a_pause_takes_nothing_away() {
    let plan = RawPlan::new(vec![
        Step::text("HTTP/1.1 200 OK\r\n\r\nhalf"),
        Step::Sleep(Duration::from_millis(20)),
        Step::Close(Close::Rst),
    ]);
    let server = RawServer::start(plan).await.unwrap();
    assert_eq!(
        get(&server).await,
        (b"HTTP/1.1 200 OK\r\n\r\nhalf".to_vec(), End::Rst)
    );
}

#[tokio::test]
async fn each_request_gets_the_next_script() {
    let script = |text: &str| vec![Step::text(text)];
    let plan = RawPlan::new(script("one")).then(script("two"));
    let server = RawServer::start(plan.clone()).await.unwrap();
    // A connection on which nothing is asked uses no script up.
    let idle = TcpStream::connect(server.address()).await.unwrap();
    for expected in ["one", "two", ""] {
        assert_eq!(get(&server).await, (expected.into(), End::Fin));
    }
    assert_eq!((server.requests().len(), server.connections()), (3, 4));
    drop(idle);

    let server = RawServer::start(plan.repeat_last()).await.unwrap();
    for expected in ["one", "two", "two"] {
        assert_eq!(get(&server).await, (expected.into(), End::Fin));
    }
}

#[tokio::test]
async fn the_whole_request_is_read_first() {
    let server = RawServer::start(RawPlan::new(vec![Step::text("x")]))
        .await
        .unwrap();
    let body = "b".repeat(300_000);
    let got = exchange(&server.url(), "POST", "/p", &body).await;
    assert_eq!((got.head.as_str(), got.end), ("x", End::Fin));
    assert_eq!(server.requests()[0].body, body);
}

#[tokio::test]
async fn a_client_that_leaves_during_a_pause_is_noticed() {
    let plan = RawPlan::new(vec![
        Step::text("x"),
        Step::Sleep(Duration::from_secs(3600)),
    ]);
    let server = RawServer::start(plan).await.unwrap();
    let mut stream = open(&server.url(), "GET", "/", "").await;
    read_until(&mut stream, "x").await;
    drop(stream);
    assert!(soon(server.wait_until_closed(1)).await);
    assert!(server.requests()[0].closed_by_client().is_some());
}

#[tokio::test]
async fn a_template_is_sent_with_a_date_that_parses() {
    let template =
        Template::parse("HTTP/1.1 429 X\r\nRetry-After: {{http_date:+3s}}\r\n\r\n").unwrap();
    let server = RawServer::start(RawPlan::new(vec![Step::SendTemplate(template)]))
        .await
        .unwrap();
    let got = exchange(&server.url(), "GET", "/", "").await;
    let date = got.head.split_once("Retry-After: ").unwrap().1;
    assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
}

#[tokio::test]
async fn an_http2_client_is_answered_after_its_opening() {
    let case = cases::one("TP-10");
    let expected: Vec<u8> = case
        .script
        .iter()
        .filter_map(|step| match step {
            Step::Send(bytes) => Some(bytes.to_vec()),
            _ => None,
        })
        .flatten()
        .collect();
    let server = RawServer::start(case.plan().unwrap()).await.unwrap();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    stream.write_all(&settings).await.unwrap();
    let mut got = Vec::new();
    soon(stream.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got, expected);
    let seen = &server.requests()[0];
    assert_eq!(
        (seen.method.as_str(), &seen.body[..]),
        ("PRI", &settings[..])
    );
}

#[tokio::test]
async fn every_case_without_a_long_pause_plays_to_its_end_byte_for_byte() {
    let mut played = 0;
    for case in cases::all().iter().flat_map(cases::Case::expanded) {
        let quick = !case
            .script
            .iter()
            .any(|step| matches!(step, Step::Sleep(_)));
        let Some(plan) = case.plan().filter(|_| quick && case.transport.is_none()) else {
            continue;
        };
        let fixed = case
            .script
            .iter()
            .take_while(|s| !matches!(s, Step::Close(_)));
        let mut expected = Vec::new();
        let mut template = false;
        for step in fixed {
            match step {
                Step::Send(bytes) => expected.extend_from_slice(bytes),
                Step::Repeat { bytes, times } => {
                    expected.extend(bytes.repeat(usize::try_from(*times).unwrap()));
                }
                _ => template = true,
            }
        }
        let server = RawServer::start(plan).await.unwrap();
        let mut stream = open(&server.url(), "POST", "/", "{}").await;
        let mut got = Vec::new();
        let end = soon(stream.read_to_end(&mut got)).await;
        let reset = case.script.contains(&Step::Close(Close::Rst));
        assert_eq!(end.is_err(), reset, "{}", case.id);
        assert!(template || got == expected, "{}", case.id);
        played += 1;
    }
    assert!(played > 60, "{played}");
}
