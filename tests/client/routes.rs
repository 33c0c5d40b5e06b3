//! Other routes, and the credential of each.

use crate::chat;
use crate::provider::whole;
use futures_core::future::BoxFuture;
use secrecy::ExposeSecret as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use streamkeep::client::CredentialProvider;
use streamkeep::proto::operation::Route;
use streamkeep::transport::memory::{Exchange, MemoryTransport};
use streamkeep::{Client, Credential, Error, ErrorKind, Result};

/// The secret of each request that went out.
fn secrets(transport: &MemoryTransport) -> Vec<Option<String>> {
    transport
        .calls()
        .iter()
        .map(|call| {
            let (_, secret) = call.outgoing.secret_headers.first()?;
            Some(secret.expose_secret().to_owned())
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_credential_is_shown_to_its_own_provider_only() {
    let transport = MemoryTransport::new();
    for _ in 0..4 {
        transport.push(Exchange::new().status(503));
    }
    transport.push(whole("Hello"));
    let client = Client::builder()
        .transport(transport.clone())
        .credential(Credential::api_key("first"))
        .credential_for("named", Credential::header("api-key", "third"))
        .retry(streamkeep::proto::retry::RetryPolicy::NEVER)
        .build()
        .unwrap();
    let question = chat();
    let route = |name: &str, url: &str| Route::like(name, &question, url, None).unwrap();
    let answer = client
        .call(chat())
        .fallback(route(
            "same host",
            "http://upstream.test/v2/chat/completions",
        ))
        .fallback(route(
            "stranger",
            "http://stranger.test/v1/chat/completions",
        ))
        .fallback(route(
            "port",
            "http://upstream.test:8080/v1/chat/completions",
        ))
        .fallback(route("named", "http://other.test/v1/chat/completions"))
        .start()
        .await
        .unwrap()
        .complete()
        .await
        .unwrap();
    assert_eq!(answer.text(), "Hello");
    let bearer = Some("Bearer first".to_owned());
    assert_eq!(
        secrets(&transport),
        [bearer.clone(), bearer, None, None, Some("third".to_owned())]
    );
}

/// A credential that is rotated when it was refused.
#[derive(Debug)]
struct Rotating {
    current: Mutex<u32>,
    last: u32,
    asked: Arc<AtomicU32>,
}

impl Rotating {
    fn named(number: u32) -> Credential {
        Credential::api_key(format!("key-{number}"))
    }
}

impl CredentialProvider for Rotating {
    fn current(&self) -> BoxFuture<'_, Result<Credential>> {
        let number = *self.current.lock().unwrap();
        Box::pin(async move { Ok(Self::named(number)) })
    }

    fn refresh<'a>(&'a self, refused: &'a Credential) -> BoxFuture<'a, Result<Credential>> {
        Box::pin(async move {
            assert!(!format!("{refused:?}").contains("key-"), "never shown");
            self.asked.fetch_add(1, Ordering::SeqCst);
            let mut current = self.current.lock().unwrap();
            *current = (*current + 1).min(self.last);
            Ok(Self::named(*current))
        })
    }
}

fn rotating(last: u32) -> (Rotating, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let credential = Rotating {
        current: Mutex::new(1),
        last,
        asked: Arc::clone(&asked),
    };
    (credential, asked)
}

async fn ask(transport: &MemoryTransport, credential: impl CredentialProvider) -> Result<String> {
    let client = Client::builder()
        .transport(transport.clone())
        .credential(credential)
        .build()
        .unwrap();
    let answer = client.call(chat()).start().await.unwrap().complete().await;
    match answer {
        Ok(answer) => Ok(answer.text().to_owned()),
        Err(unfinished) => Err(unfinished.error),
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_credential_is_refreshed_once() {
    let transport = MemoryTransport::new();
    transport.push(Exchange::new().status(401));
    transport.push(whole("Hello"));
    let (credential, asked) = rotating(9);
    assert_eq!(ask(&transport, credential).await.unwrap(), "Hello");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let sent = secrets(&transport);
    assert_eq!(
        sent,
        [
            Some("Bearer key-1".to_owned()),
            Some("Bearer key-2".to_owned())
        ]
    );

    // Refused again: once is enough.
    let transport = MemoryTransport::new();
    transport.push(Exchange::new().status(401));
    transport.push(Exchange::new().status(401));
    let (credential, asked) = rotating(9);
    let error = ask(&transport, credential).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(transport.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_does_not_change_is_not_sent_again() {
    let transport = MemoryTransport::new();
    transport.push(Exchange::new().status(401));
    let (credential, asked) = rotating(1);
    let error = ask(&transport, credential).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(transport.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_credential_the_request_does_not_leave() {
    #[derive(Debug)]
    struct Silent;
    impl CredentialProvider for Silent {
        fn current(&self) -> BoxFuture<'_, Result<Credential>> {
            Box::pin(std::future::pending())
        }
        fn refresh<'a>(&'a self, _: &'a Credential) -> BoxFuture<'a, Result<Credential>> {
            self.current()
        }
    }
    #[derive(Debug)]
    struct Broken;
    impl CredentialProvider for Broken {
        fn current(&self) -> BoxFuture<'_, Result<Credential>> {
            let error = Error::new(ErrorKind::Config, "the vault is sealed");
            Box::pin(std::future::ready(Err(error)))
        }
        fn refresh<'a>(&'a self, _: &'a Credential) -> BoxFuture<'a, Result<Credential>> {
            self.current()
        }
    }
    let transport = MemoryTransport::new();
    let error = ask(&transport, Broken).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(error.message().contains("the vault is sealed"), "{error}");
    let error = ask(&transport, Silent).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    assert!(transport.calls().is_empty());
}
