//! Who is let in, over what, and what is found there.

use crate::server::RedisServer;
use crate::support::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::Path;
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::store::{Durability, RedisStore, Store};

const SECRET: &str = "a-secret-of-the-test";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_needed_and_is_shown_nowhere() {
    let Some(server) = RedisServer::start(&["--requirepass", SECRET]) else {
        return;
    };
    let address = server.address();
    let wrong = format!("{SECRET}-but-wrong");
    for builder in [
        RedisStore::builder(server.url()),
        RedisStore::builder(format!("redis://:{wrong}@{address}")),
        RedisStore::builder(server.url()).password(wrong.clone()),
        RedisStore::builder(server.url())
            .username("nobody")
            .password(SECRET),
    ] {
        assert!(!format!("{builder:?}").contains(SECRET));
        let error = refused(builder.open().await, ErrorKind::Config);
        assert!(error.message().contains("password"), "{error}");
        assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
    }
    for builder in [
        RedisStore::builder(format!("redis://:{SECRET}@{address}")),
        RedisStore::builder(format!("redis://default:{SECRET}@{address}/3")),
        RedisStore::builder(server.url()).password(SECRET),
        // What is said in code goes before what the URL says.
        RedisStore::builder(format!("redis://:{wrong}@{address}")).password(SECRET),
    ] {
        let store = builder.open().await.unwrap();
        assert!(!format!("{store:?}").contains(SECRET));
        assert_eq!(store.durability(), Durability::Buffered);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_that_is_missing_is_told_unless_nothing_depends_on_it() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let users = [
        "ACL SETUSER all on >pw ~streamkeep:* &streamkeep:* +@all",
        // May neither publish nor be told of the settings: readers look by themselves.
        "ACL SETUSER quiet on >pw ~streamkeep:* &streamkeep:* +@all -publish -config",
        "ACL SETUSER mute on >pw ~streamkeep:* +@all -evalsha -eval",
        "ACL SETUSER blind on >pw ~other:* &* +@all",
    ];
    for user in users {
        let _: String = server.ask(user);
    }
    let as_user = |user: &str| settings(&server.url()).username(user).password("pw");
    for user in ["all", "quiet"] {
        let store = as_user(user).open().await.unwrap();
        let lease = create(&store, user).await;
        store.append(&lease, batch(1..=3, COMPLETE)).await.unwrap();
        assert_eq!(all(&store, user).await.unwrap().len(), 3);
    }
    for user in ["mute", "blind"] {
        let error = refused(as_user(user).open().await, ErrorKind::Config);
        assert!(error.message().contains("permission"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_with_something_else_in_it_is_left_alone() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let at = |prefix: &str| settings(&server.url()).prefix(prefix);
    let _: i64 = server.ask("HSET theirs:layout kind theirs");
    refused(at("theirs").open().await, ErrorKind::Config);
    let _: String = server.ask("SET text:layout x");
    refused(at("text").open().await, ErrorKind::Config);
    drop(at("later").buckets(3).open().await.unwrap());
    let _: i64 = server.ask("HSET later:layout layout 2");
    let error = refused(at("later").open().await, ErrorKind::StoreUnavailable);
    assert!(error.message().contains("layout 2"), "{error}");
    let _: i64 = server.ask("HSET later:layout layout 1");
    // The buckets stay as they were: else nothing would be found again.
    let store = at("later").buckets(7).open().await.unwrap();
    create(&store, "k").await;
    let buckets: String = server.ask("HGET later:layout buckets");
    assert_eq!(buckets, "3");
    drop(at("mine").open().await.unwrap());
    let store = at("other").open().await.unwrap();
    assert_eq!(store.list(None, 10).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_of_this_machine_does_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a b.sock");
    let Some(_server) = RedisServer::start(&["--unixsocket", socket.to_str().unwrap()]) else {
        return;
    };
    let path = socket.to_str().unwrap().replace(' ', "%20");
    let store = open(&format!("unix://{path}?db=2")).await;
    let lease = create(&store, "local").await;
    store.append(&lease, batch(1..=3, COMPLETE)).await.unwrap();
    let other = open(&format!("unix://{path}?db=2")).await;
    assert_eq!(all(&other, "local").await.unwrap().len(), 3);
    let elsewhere = open(&format!("unix://{path}?db=3")).await;
    refused(all(&elsewhere, "local").await, ErrorKind::NotFound);
    refused(
        settings(&format!("unix://{path}?db=999")).open().await,
        ErrorKind::Config,
    );
}

/// An authority of the test's own, and a certificate of it with its key.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, "an authority of the test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            pem: params.self_signed(&key).unwrap().pem(),
            issuer: Issuer::new(params, key),
        }
    }

    fn certificate(&self) -> (String, String) {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_with_certificates_that_are_trusted_and_with_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (certificate, private) = ours.certificate();
    let file = |name: &str, text: &str| written(folder.path(), name, text);
    let files = [
        "--tls-cert-file".to_owned(),
        file("server.pem", &certificate),
        "--tls-key-file".to_owned(),
        file("server.key", &private),
        "--tls-ca-cert-file".to_owned(),
        file("ca.pem", &ours.pem),
        "--tls-auth-clients".to_owned(),
    ];
    for auth in ["no", "yes"] {
        let arguments: Vec<&str> = files.iter().map(String::as_str).chain([auth]).collect();
        let Some(server) = RedisServer::start(&arguments) else {
            return;
        };
        let url = format!("rediss://localhost:{}", server.port);
        let (client, key) = ours.certificate();
        let trusting = || settings(&url).root_certificates(ours.pem.clone());
        let trusted = trusting().client_certificate(client, key);
        let store = trusted.open().await.unwrap();
        let lease = create(&store, "tls").await;
        let mut watch = store.watch(&lease.key);
        store.append(&lease, batch(1..=3, COMPLETE)).await.unwrap();
        soon(watch.changed()).await;
        assert_eq!(all(&store, "tls").await.unwrap().len(), 3);
        // Without, or with another authority's, there is no connection.
        for builder in [
            settings(&url),
            settings(&url).root_certificates(theirs.pem.clone()),
        ] {
            refused(builder.open().await, ErrorKind::Config);
        }
        let nobody = trusting().patience(Duration::from_millis(300)).open().await;
        assert_eq!(
            nobody.is_ok(),
            auth == "no",
            "a client without a certificate"
        );
        let plain = settings(&format!("redis://localhost:{}", server.port))
            .patience(Duration::from_millis(300))
            .open()
            .await;
        assert!(plain.is_err(), "a connection in the clear");
    }
}
