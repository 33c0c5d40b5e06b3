//! Failures before a byte of the request was written, and just after.

use crate::peer::{Peer, fails, listen, now, open, post, transport, within};
use streamkeep::ErrorKind;
use streamkeep::transport::{ReqwestTransport, Transport};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

#[tokio::test]
async fn a_closed_port_is_a_failed_connection_and_nothing_was_sent() {
    let (listener, url) = listen().await;
    drop(listener);
    let failure = fails(&transport(false), &url).await;
    assert_eq!((failure.kind, failure.sent), (ErrorKind::Connect, false));
    assert_eq!(
        failure.message,
        "no connection could be made: connection refused"
    );
}

// `.invalid` is set aside for names that never resolve (RFC 6761 section 6.4).
#[tokio::test]
async fn a_name_that_does_not_resolve_is_told_apart() {
    let failure = fails(&transport(false), "http://nowhere.invalid:9/v1").await;
    assert_eq!((failure.kind, failure.sent), (ErrorKind::Dns, false));
    assert_eq!(failure.message, "the host name did not resolve");
}

// A listener whose queue of waiting connections is full drops further SYNs, so
// that connecting neither succeeds nor fails: the one clock that the transport
// keeps itself has to end it. Linux only: other systems refuse instead.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_peer_that_never_accepts_runs_into_the_connect_limit() {
    use std::time::Duration;

    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    // Fills the queue; a connection that stays pending for this long is one that
    // found it full.
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 64, "the queue never fills");
    }
    let transport = ReqwestTransport::builder()
        .connect_timeout(Duration::from_millis(200))
        .build()
        .unwrap();
    let failure = fails(&transport, &format!("http://{address}/v1")).await;
    assert_eq!(
        (failure.kind, failure.sent),
        (ErrorKind::ConnectTimeout, false)
    );
    assert_eq!(failure.message, "no connection within the connect limit");
}

#[tokio::test]
async fn a_url_or_header_that_cannot_be_sent_is_the_callers_fault() {
    let failure = fails(&transport(false), "http://u:hush@127.0.0.1/").await;
    assert_eq!((failure.kind, failure.sent), (ErrorKind::Config, false));
    // Valid as a URL, but not as what HTTP puts on the wire.
    let failure = fails(&transport(false), "http://{hush}/").await;
    assert_eq!((failure.kind, failure.sent), (ErrorKind::Config, false));
    assert!(!format!("{failure:?}").contains("hush"));
}

#[tokio::test]
async fn a_reset_before_the_head_is_a_reset_of_what_was_sent() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.rst();
    });
    let failure = fails(&transport(false), &url).await;
    assert_eq!((failure.kind, failure.sent), (ErrorKind::Reset, true));
    within(server).await.unwrap();
}

#[tokio::test]
async fn a_head_that_is_cut_is_a_closed_connection() {
    let failure = answered_with(b"HTTP/1.1 200 OK\r\ncontent-ty").await;
    assert_eq!(
        (failure.kind, failure.sent),
        (ErrorKind::ConnectionClosed, true)
    );
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_a_broken_protocol() {
    let failure = answered_with(b"220 mail.example.com ESMTP\r\n\r\n").await;
    assert_eq!((failure.kind, failure.sent), (ErrorKind::Protocol, true));
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    for n in 0..2_000 {
        head.extend_from_slice(format!("x-{n}: {}\r\n", "a".repeat(400)).as_bytes());
    }
    let failure = answered_with(&head).await;
    assert_eq!((failure.kind, failure.sent), (ErrorKind::Protocol, true));
}

async fn answered_with(bytes: &[u8]) -> streamkeep::proto::model::TransportFailure {
    let (listener, url) = listen().await;
    let bytes = bytes.to_vec();
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        // The client may leave before it has read all of it.
        peer.try_send(bytes).await;
        peer.fin().await;
    });
    let failure = fails(&transport(false), &url).await;
    within(server).await.unwrap();
    failure
}

#[tokio::test]
async fn what_is_asked_is_what_arrives() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        let request = peer.request().await;
        peer.send("HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nX-A: 1\r\nX-A: caf\u{e9}\r\nX-B: \u{e9}\r\ncontent-length: 0\r\n\r\n")
            .await;
        peer.fin().await;
        request
    });
    let response = open(&transport(false), &url).await;
    assert_eq!(response.head.status, 429);
    let names = |name: &str| -> Vec<String> {
        let headers = response.head.headers.iter();
        headers
            .filter(|(n, _)| n == name)
            .map(|(_, value)| value.clone())
            .collect()
    };
    assert_eq!(names("retry-after"), ["3"]);
    assert_eq!(names("x-a"), ["1", "caf\u{e9}"]);
    drop(response);
    let request = within(server).await.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<_> = head.lines().collect();
    assert_eq!(lines.remove(0), "POST /v1/chat HTTP/1.1");
    lines.sort_unstable();
    let host = url
        .trim_start_matches("http://")
        .trim_end_matches("/v1/chat");
    assert_eq!(
        lines,
        [
            "accept-encoding: identity",
            "accept: */*",
            "content-length: 15",
            "content-type: application/json",
            &format!("host: {host}"),
            &format!("user-agent: streamkeep/{version}"),
        ]
    );
    assert_eq!(body, "{\"stream\":true}");
}

#[tokio::test]
async fn a_redirect_is_a_status_and_nobody_follows_it() {
    let (listener, url) = listen().await;
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = elsewhere.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.send(format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{target}/\r\ncontent-length: 0\r\n\r\n"
        ))
        .await;
        peer.fin().await;
    });
    let response = within(transport(false).open(post(&url))).await.unwrap();
    assert_eq!(response.head.status, 307);
    assert!(response.head.header("location").is_some());
    drop(response);
    within(server).await.unwrap();
    // A connection would stand in the queue by now.
    assert!(now(elsewhere.accept()).is_none(), "somebody followed");
}

/// Set in the child process of the test below.
const PROXY_CHILD: &str = "STREAMKEEP_TEST_PROXY_CHILD";

// The environment of a process cannot be changed safely while it runs, so the
// test runs itself again with another one.
#[tokio::test]
async fn a_proxy_in_the_environment_is_asked_only_when_told_to() {
    if let Ok(url) = std::env::var(PROXY_CHILD) {
        let (asks, url) = url.split_once(' ').unwrap();
        let transport = ReqwestTransport::builder()
            .proxies_from_env(asks == "yes")
            .build()
            .unwrap();
        let response = within(transport.open(post(url))).await.unwrap();
        assert_eq!(response.head.status, if asks == "yes" { 201 } else { 200 });
        return;
    }
    let (listener, url) = listen().await;
    let (proxy, proxy_url) = listen().await;
    tokio::spawn(answer_all(listener, "200 OK"));
    tokio::spawn(answer_all(proxy, "201 Created"));
    let proxy_url = proxy_url.trim_end_matches("/v1/chat");
    for asks in ["no", "yes"] {
        let test = "connecting::a_proxy_in_the_environment_is_asked_only_when_told_to";
        let child = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(PROXY_CHILD, format!("{asks} {url}"))
            .env("http_proxy", proxy_url)
            .env("HTTP_PROXY", proxy_url)
            .env_remove("no_proxy")
            .env_remove("NO_PROXY")
            .env_remove("REQUEST_METHOD")
            .output();
        let output = within(child).await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("1 passed"), "{said}");
    }
}

async fn answer_all(listener: TcpListener, status: &'static str) {
    loop {
        let mut peer = Peer::accept(&listener).await;
        peer.request().await;
        peer.send(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"))
            .await;
    }
}
