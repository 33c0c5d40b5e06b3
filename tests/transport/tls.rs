//! TLS: what is trusted, and what a failed handshake is told as.

use crate::peer::{Peer, drain, listen, post, transport, within};
use std::sync::Arc;
use streamkeep::ErrorKind;
use streamkeep::proto::model::TransportFailure;
use streamkeep::transport::{ReqwestTransport, Transport};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// A server's configuration with a certificate for this name that nobody else
/// knows, and the certificate in PEM form.
fn own_certificate(name: &str, alpn: &[&str]) -> (TlsAcceptor, String) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), made.cert.pem())
}

async fn listen_tls() -> (TcpListener, String) {
    let (listener, _) = listen().await;
    let port = listener.local_addr().unwrap().port();
    (listener, format!("https://localhost:{port}/v1/chat"))
}

fn trusting(pem: &str) -> ReqwestTransport {
    ReqwestTransport::builder()
        .root_certificates(pem)
        .build()
        .unwrap()
}

/// Shakes hands, whatever comes of it, and opens.
async fn handshake(acceptor: TlsAcceptor, transport: ReqwestTransport) -> TransportFailure {
    let (listener, url) = listen_tls().await;
    let server = tokio::spawn(async move {
        let (stream, _) = within(listener.accept()).await.unwrap();
        within(acceptor.accept(stream)).await.is_ok()
    });
    let failure = within(transport.open(post(&url))).await.unwrap_err();
    assert!(!within(server).await.unwrap(), "the handshake succeeded");
    failure
}

#[track_caller]
fn check(failure: &TransportFailure, part: &str) {
    assert_eq!((failure.kind, failure.sent), (ErrorKind::Tls, false));
    assert!(failure.message.contains(part), "{}", failure.message);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let (acceptor, _) = own_certificate("localhost", &[]);
    let failure = handshake(acceptor, ReqwestTransport::new().unwrap()).await;
    check(&failure, "UnknownIssuer");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let (acceptor, pem) = own_certificate("elsewhere.example", &[]);
    let failure = handshake(acceptor, trusting(&pem)).await;
    check(&failure, "localhost");
}

#[tokio::test]
async fn a_certificate_that_was_added_is_trusted() {
    let (acceptor, pem) = own_certificate("localhost", &["http/1.1"]);
    let (listener, url) = listen_tls().await;
    let server = tokio::spawn(async move {
        let (stream, _) = within(listener.accept()).await.unwrap();
        let mut peer = Peer::over(within(acceptor.accept(stream)).await.unwrap());
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole")
            .await;
        peer.gone().await;
    });
    let transport = trusting(&pem);
    let mut response = within(transport.open(post(&url))).await.unwrap();
    let (body, failure) = drain(&mut *response.body).await;
    assert_eq!((body.as_slice(), failure), (b"whole".as_slice(), None));
    drop((response, transport));
    within(server).await.unwrap();
}

#[tokio::test]
async fn http2_is_spoken_where_the_server_offers_it() {
    let (acceptor, pem) = own_certificate("localhost", &["h2", "http/1.1"]);
    let (listener, url) = listen_tls().await;
    let server = tokio::spawn(async move {
        let (stream, _) = within(listener.accept()).await.unwrap();
        let mut peer = Peer::over(within(acceptor.accept(stream)).await.unwrap());
        peer.send(crate::http2::SETTINGS).await;
        peer.request2().await;
        peer.send(crate::http2::head(1)).await;
        peer.send(crate::http2::data(1, b"whole", true)).await;
        peer.gone().await;
    });
    let transport = trusting(&pem);
    let mut response = within(transport.open(post(&url))).await.unwrap();
    let (body, failure) = drain(&mut *response.body).await;
    assert_eq!((body.as_slice(), failure), (b"whole".as_slice(), None));
    drop((response, transport));
    within(server).await.unwrap();
}

// RFC 9112 section 9.8: without the closing alert nobody can tell an end from an
// attack, so a body that only the end of the connection ends is incomplete.
#[tokio::test]
async fn a_body_that_ends_without_the_closing_alert_is_not_whole() {
    let (acceptor, pem) = own_certificate("localhost", &["http/1.1"]);
    let (listener, url) = listen_tls().await;
    let server = tokio::spawn(async move {
        let (stream, _) = within(listener.accept()).await.unwrap();
        let mut peer = Peer::over(within(acceptor.accept(stream)).await.unwrap());
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nfirst")
            .await;
        // The TCP connection below, without a word from TLS.
        Peer::over(peer.stream.into_inner().0).fin().await;
    });
    let transport = trusting(&pem);
    let mut response = within(transport.open(post(&url))).await.unwrap();
    let (body, failure) = drain(&mut *response.body).await;
    assert_eq!(body, b"first");
    let failure = failure.unwrap();
    assert_eq!((failure.kind, failure.sent), (ErrorKind::BodyFraming, true));
    within(server).await.unwrap();
}

/// A peer that takes the client's hello and does this with it.
async fn hello_answered(answer: &'static [u8], reset: bool) -> TransportFailure {
    let (listener, url) = listen_tls().await;
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        peer.some().await;
        peer.try_send(answer).await;
        if reset { peer.rst() } else { peer.fin().await }
    });
    let failure = within(transport(false).open(post(&url))).await.unwrap_err();
    within(server).await.unwrap();
    failure
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_fails_the_handshake() {
    let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    check(&hello_answered(answer, false).await, "tls failed");
}

#[tokio::test]
async fn a_connection_that_ends_during_the_handshake_fails_it() {
    check(
        &hello_answered(b"", false).await,
        "during the tls handshake",
    );
    check(&hello_answered(b"", true).await, "during the tls handshake");
}

#[tokio::test]
async fn a_server_that_refuses_the_handshake_is_told_with_its_alert() {
    // Fatal alert 40, handshake_failure (RFC 8446 section 6.2).
    let failure = hello_answered(&[21, 3, 3, 0, 2, 2, 40], false).await;
    check(&failure, "HandshakeFailure");
}
