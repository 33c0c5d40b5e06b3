//! A real language model through a proxy that cuts, resets and stalls at a byte.
//!
//! What is shown: the journal holds exactly what the model sent before the fault,
//! the failure is told by kind, a reader resumes from a cursor in another client
//! on the same store, and what the dialect allows heals the answer.

#![cfg(all(feature = "reqwest", feature = "sled", feature = "testkit"))]
#![cfg(test)] // else the lints take the helpers for production code

#[path = "support/model_server.rs"]
mod support;

use serde_json::json;
use std::path::Path;
use std::time::Duration;
use streamkeep::client::Handle;
use streamkeep::proto::journal::{Body, Control, RecoveryOption};
use streamkeep::proto::model::Cursor;
use streamkeep::proto::operation::{Hold, Outcome};
use streamkeep::proto::timeouts::Timeouts;
use streamkeep::store::SledStore;
use streamkeep::testkit::{ByteProxy, Cut, ProxyPlan};
use streamkeep::{Client, Dialect, ErrorKind, Key, Request};
use support::ModelServer;

const PROMPT: &str = "Write three sentences about the sea.";

/// A request to the model behind this address. Temperature zero: the model says
/// the same every time.
fn request(dialect: Dialect, base: &str) -> Request {
    let (path, body) = match dialect {
        Dialect::OpenAiChat => (
            "/v1/chat/completions",
            json!({"model": "x", "temperature": 0, "seed": 1, "max_tokens": 64,
                   "messages": [{"role": "user", "content": PROMPT}]}),
        ),
        Dialect::OpenAiResponses => (
            "/v1/responses",
            json!({"model": "x", "temperature": 0, "seed": 1, "max_output_tokens": 64, "input": PROMPT}),
        ),
        Dialect::AnthropicMessages => (
            "/v1/messages",
            json!({"model": "claude-sonnet-4-5", "temperature": 0, "seed": 1, "max_tokens": 64,
                   "messages": [{"role": "user", "content": PROMPT}]}),
        ),
        other => panic!("the model's server does not speak {other}"),
    };
    Request::new(dialect, format!("{base}{path}"), body.to_string()).unwrap()
}

/// What the model's server speaks.
const SPOKEN: [Dialect; 3] = [
    Dialect::OpenAiChat,
    Dialect::OpenAiResponses,
    Dialect::AnthropicMessages,
];

struct Scene {
    server: ModelServer,
    folder: tempfile::TempDir,
}

impl Scene {
    fn open() -> Option<Self> {
        let server = ModelServer::start()?;
        Some(Self {
            server,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    async fn client(&self) -> Client {
        client_on(self.folder.path()).await
    }

    async fn proxy(&self, cut: Cut) -> ByteProxy {
        ByteProxy::start(
            &self.server.address.to_string(),
            ProxyPlan::new().on(1, cut),
        )
        .await
        .unwrap()
    }
}

/// Lets go of the store, so that it can be opened again: a driver that has told
/// its outcome may still hold it for a moment.
async fn close(client: Client, handle: Handle) {
    drop(handle);
    client.idle().await;
}

async fn client_on(folder: &Path) -> Client {
    let store = SledStore::open(folder).await.unwrap();
    Client::builder().store(store).build().unwrap()
}

fn key() -> Key {
    Key::new("real").unwrap()
}

async fn ask(client: &Client, dialect: Dialect, base: &str, hold: Hold) -> Handle {
    let timeouts = Timeouts {
        idle: Some(Duration::from_secs(3)),
        ..Timeouts::CHAT
    };
    let call = client
        .call(request(dialect, base))
        .key(key())
        .hold(hold)
        .timeouts(timeouts);
    call.start().await.unwrap()
}

/// Every event of the answer, with the cursor after it.
async fn events(handle: &Handle) -> Vec<(Cursor, String)> {
    let mut reader = handle.subscribe();
    let mut events = Vec::new();
    while let Some((cursor, event)) = reader.next_event().await.unwrap() {
        events.push((cursor, event.data.as_str().to_owned()));
    }
    events
}

/// The code of the failure of each attempt, `None` for one that ended well.
async fn failures(handle: &Handle) -> Vec<Option<String>> {
    let mut reader = handle.subscribe();
    let mut failures = Vec::new();
    while let Some(record) = reader.next().await.unwrap() {
        if let Body::Control(control) = record.body
            && let Control::AttemptEnded(ended) = *control
        {
            failures.push(ended.failure.map(|failure| failure.kind));
        }
    }
    failures
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_dialect_streams_whole_and_replays_the_same_from_disk() {
    let Some(scene) = Scene::open() else { return };
    for dialect in &SPOKEN {
        let folder = tempfile::tempdir().unwrap();
        let proxy = scene.proxy(Cut::Pass).await;
        let client = client_on(folder.path()).await;
        let handle = ask(&client, *dialect, &proxy.url(), Hold::None).await;
        let live = events(&handle).await;
        assert!(live.len() > 20, "{dialect}: {} events", live.len());
        let answer = handle
            .complete()
            .await
            .unwrap_or_else(|unfinished| unfinished.partial);
        assert!(answer.text().len() > 40, "{dialect}: {:?}", answer.text());
        assert!(
            answer.usage.output.is_some_and(|tokens| tokens > 10),
            "{dialect}: {:?}",
            answer.usage
        );
        close(client, handle).await;
        let client = client_on(folder.path()).await;
        let replayed = events(&client.attach(&key()).await.unwrap()).await;
        assert_eq!(replayed, live, "{dialect}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_a_reset_and_a_stall_are_told_apart_and_the_rest_is_read_from_a_cursor() {
    let Some(scene) = Scene::open() else { return };
    let dialect = Dialect::OpenAiChat;
    for (cut, expected) in [
        (Cut::Fin(4_000), ErrorKind::BodyFraming),
        (Cut::Rst(4_000), ErrorKind::Reset),
        (Cut::Stall(4_000), ErrorKind::IdleTimeout),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let proxy = scene.proxy(cut.clone()).await;
        let client = client_on(folder.path()).await;
        let handle = ask(&client, dialect, &proxy.url(), Hold::None).await;
        let Outcome::Interrupted(interrupted) = handle.outcome().await.unwrap() else {
            panic!("{cut:?}: expected an interruption");
        };
        assert_eq!(
            interrupted.failure.kind,
            expected.code(),
            "{cut:?}: {}",
            interrupted.failure.message
        );
        assert!(interrupted.options.contains(&RecoveryOption::Regenerate));
        assert_eq!(proxy.connections().len(), 1, "never a second request");
        let all = events(&handle).await;
        assert!(all.len() > 5, "{cut:?}: {} events", all.len());
        let (middle, _) = all[all.len() / 2];
        close(client, handle).await;

        // Another process, another day: the reader goes on from its cursor.
        let client = client_on(folder.path()).await;
        let handle = client.attach(&key()).await.unwrap();
        let mut reader = handle.subscribe_after(middle);
        let mut rest = Vec::new();
        while let Some((cursor, event)) = reader.next_event().await.unwrap() {
            rest.push((cursor, event.data.as_str().to_owned()));
        }
        assert_eq!(rest, all[all.len() / 2 + 1..], "{cut:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_answer_is_rerun_and_comes_whole() {
    let Some(scene) = Scene::open() else { return };
    let proxy = scene.proxy(Cut::Rst(4_000)).await;
    let client = scene.client().await;
    let handle = ask(
        &client,
        Dialect::OpenAiChat,
        &proxy.url(),
        Hold::UntilComplete,
    )
    .await;
    let outcome = handle.outcome().await.unwrap();
    assert!(matches!(outcome, Outcome::Ended(_)), "{outcome:?}");
    assert_eq!(failures(&handle).await, [Some("reset".to_owned()), None]);
    assert_eq!(proxy.connections().len(), 2);
    let all = events(&handle).await;
    assert_eq!(
        all.iter()
            .filter(|(_, data)| data.contains("\"role\""))
            .count(),
        1,
        "one start"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_message_is_continued_by_the_model_as_one_message() {
    let Some(scene) = Scene::open() else { return };
    let proxy = scene.proxy(Cut::Fin(3_000)).await;
    let client = scene.client().await;
    let handle = ask(
        &client,
        Dialect::AnthropicMessages,
        &proxy.url(),
        Hold::None,
    )
    .await;
    let unfinished = handle.complete().await.unwrap_err();
    assert!(
        unfinished.options.contains(&RecoveryOption::Continue),
        "{unfinished:?}"
    );
    let partial = unfinished.partial.text().to_owned();
    assert!(!partial.is_empty());

    let handle = client.continue_answer(&key(), None).await.unwrap();
    let outcome = handle.outcome().await.unwrap();
    assert!(matches!(outcome, Outcome::Ended(_)), "{outcome:?}");
    let whole = handle
        .complete()
        .await
        .unwrap_or_else(|unfinished| unfinished.partial);
    assert!(
        whole.text().starts_with(&partial),
        "{partial:?} / {:?}",
        whole.text()
    );
    assert!(whole.text().len() > partial.len());
    let starts = events(&handle)
        .await
        .iter()
        .filter(|(_, data)| data.contains("message_start"))
        .count();
    assert_eq!(starts, 1);
}
