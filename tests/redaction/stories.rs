//! Stories of the client over an in-memory transport and a store on disk.

use crate::events::{
    CREATED, DONE, HEL, LO, MESSAGE_END, ROLE, STOP, completed, delta, message_begin,
};
use crate::{Place, Run};
use bytes::BytesMut;
use futures_core::future::BoxFuture;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use streamkeep::client::{CredentialProvider, Handle};
use streamkeep::proto::journal::{Record, encode};
use streamkeep::proto::model::ResponseHead;
use streamkeep::proto::operation::{Hold, Route};
use streamkeep::proto::retry::RetryPolicy;
use streamkeep::store::{SledStore, Store};
use streamkeep::transport::memory::{Exchange, MemoryTransport};
use streamkeep::{Client, Credential, Dialect, Error, ErrorKind, Key, Request, Result};

/// No wait is worth a story.
pub(crate) const RETRY: RetryPolicy = RetryPolicy {
    max_attempts: 3,
    base: Duration::from_millis(1),
    cap: Duration::from_millis(1),
    min_delay: Duration::from_millis(1),
    max_retry_after: Duration::from_secs(1),
    within: None,
    ..RetryPolicy::INTERACTIVE
};

pub(crate) fn key(story: &str) -> Key {
    Key::new(story.replace(' ', "-")).unwrap()
}

pub(crate) fn request(dialect: Dialect, base: &str, prompt: &str) -> Request {
    let (path, body) = match dialect {
        Dialect::AnthropicMessages => (
            "/v1/messages",
            format!(
                r#"{{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
            ),
        ),
        Dialect::OpenAiResponses => (
            "/v1/responses",
            format!(r#"{{"model":"m","background":true,"input":"{prompt}"}}"#),
        ),
        _ => (
            "/v1/chat/completions",
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{prompt}"}}]}}"#),
        ),
    };
    Request::new(dialect, format!("{base}{path}"), body).unwrap()
}

const BASE: &str = "https://api.upstream.test";

/// A response with a body in one piece.
fn says(status: u16, content_type: &str, body: String) -> Exchange {
    headed(status, &[("content-type", content_type)]).chunk(body)
}

fn headed(status: u16, headers: &[(&str, &str)]) -> Exchange {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Exchange::new().head(ResponseHead { status, headers })
}

fn sse() -> Exchange {
    headed(200, &[("content-type", "text/event-stream")])
}

fn whole(text: &str) -> Exchange {
    sse().chunk(format!("{ROLE}{}{STOP}{DONE}", delta(text)))
}

/// The stage of a story: a client of its own over the shared store.
struct Stage<'a> {
    run: &'a mut Run,
    store: Arc<dyn Store>,
    story: &'static str,
    transport: MemoryTransport,
}

impl Stage<'_> {
    fn client(&mut self, credential: impl CredentialProvider) -> Client {
        let builder = Client::builder()
            .transport(self.transport.clone())
            .shared_store(Arc::clone(&self.store))
            .retry(RETRY)
            .credential(credential);
        self.run.debug(self.story, &builder);
        builder.build().unwrap()
    }

    /// Calls, and catches all that can be had of it.
    async fn call(&mut self, client: &Client, request: Request, hold: Hold) {
        let call = client
            .call(request)
            .key(key(self.story))
            .retry(RETRY)
            .hold(hold);
        self.run.debug(self.story, &call);
        let handle = call.start().await.unwrap();
        self.see(client, &handle).await;
    }

    async fn see(&mut self, client: &Client, handle: &Handle) {
        let story = self.story;
        let outcome = handle.outcome().await.unwrap();
        self.run.debug(story, client);
        self.run.debug(story, handle);
        self.run.debug(story, &outcome);
        self.run.debug(story, &self.transport);
        self.run.debug(story, &self.transport.calls());
        if let Err(unfinished) = handle.complete().await {
            self.run.error(story, &*unfinished);
            self.run.error(story, &Error::from(unfinished));
        }
        let mut reader = handle.subscribe();
        self.run.debug(story, &reader);
        let mut records: Vec<Record> = Vec::new();
        while let Some(record) = reader.next().await.unwrap() {
            records.push(record);
        }
        let mut bytes = BytesMut::new();
        encode(&records, &mut bytes).unwrap();
        self.run.catch(Place::Journal, story, bytes.to_vec());
        self.run
            .catch(Place::Journal, story, format!("{records:?}"));
    }
}

pub(crate) async fn play(run: &mut Run) {
    let folder = tempfile::tempdir().unwrap();
    let kept: Arc<dyn Store> = Arc::new(SledStore::open(folder.path()).await.unwrap());
    run.debug("store", &kept);
    refusals(run, &kept).await;
    Box::pin(answers(run, &kept)).await;
    Box::pin(credentials(run, &kept)).await;
    drop(kept);
    run.folder("store", folder.path());
}

fn stage<'a>(run: &'a mut Run, kept: &Arc<dyn Store>, story: &'static str) -> Stage<'a> {
    Stage {
        run,
        store: Arc::clone(kept),
        story,
        transport: MemoryTransport::new(),
    }
}

/// How a provider or a proxy may throw a key back.
type Echo = fn(&str) -> Exchange;

const ECHOES: &[(&str, Echo)] = &[
    ("401 that quotes the key", |key| {
        says(
            401,
            "application/json",
            format!(
                r#"{{"error":{{"type":"invalid_request_error","code":"invalid_api_key","message":"Incorrect API key provided: {key}. You can find it at"}}}}"#
            ),
        )
    }),
    ("401 that quotes the header", |key| {
        says(
            401,
            "application/json",
            format!(
                r#"{{"error":{{"type":"authentication_error","message":"invalid header Authorization: Bearer {key}"}}}}"#
            ),
        )
    }),
    ("401 with the key in its code and type", |key| {
        says(
            401,
            "application/json",
            format!(r#"{{"error":{{"type":"{key}","code":"{key}","message":"no"}}}}"#),
        )
    }),
    ("403 in plain text", |key| {
        says(403, "text/plain", format!("key {key} is not known here"))
    }),
    ("500 page with the key in its title", |key| {
        says(
            500,
            "text/html",
            format!("<html><title>error for {key}</title><body>{key}</body></html>"),
        )
    }),
    ("400 that escapes the key", |key| {
        let escaped = key.replace('-', "\\u002d").replace('/', "\\/");
        says(
            400,
            "application/json",
            format!(
                r#"{{"error":{{"type":"invalid_request_error","message":"bad key {escaped}"}}}}"#
            ),
        )
    }),
    ("error event under 200", |key| {
        sse().chunk(format!("data: {{\"error\":{{\"type\":\"invalid_request_error\",\"message\":\"bad key {key}\"}}}}\n\n"))
    }),
    ("error document under 200", |key| {
        says(
            200,
            "application/json",
            format!(r#"{{"error":{{"message":"bad key {key}","code":"{key}"}}}}"#),
        )
    }),
    ("error outside the events", |key| {
        sse().chunk(format!(
            "error: {{\"message\":\"bad key {key}\",\"type\":\"server_error\"}}\n\n"
        ))
    }),
    ("redirect with the key in its place", |key| {
        headed(
            307,
            &[(
                "location",
                &format!("https://{key}@elsewhere.test/?key={key}"),
            )],
        )
    }),
    ("the key as the name of the request", |key| {
        headed(429, &[("x-request-id", key), ("retry-after", "0")])
    }),
    ("the key as a content type", |key| {
        says(200, key, "nothing".to_owned())
    }),
    ("the key as a content coding", |key| {
        headed(
            200,
            &[
                ("content-type", "text/event-stream"),
                ("content-encoding", key),
            ],
        )
    }),
    ("a body that is only the key", |key| {
        says(200, "application/json", key.to_owned())
    }),
];

async fn refusals(run: &mut Run, kept: &Arc<dyn Store>) {
    for (story, echo) in ECHOES {
        for opaque in [false, true] {
            let secret = if opaque {
                run.opaque(story)
            } else {
                run.secret(story)
            };
            let prompt = run.prompt(story);
            let mut stage = stage(run, kept, story);
            for _ in 0..RETRY.max_attempts {
                stage.transport.push(echo(&secret));
            }
            let credential = if opaque {
                Credential::header("api-key", secret)
            } else {
                Credential::api_key(secret)
            };
            stage.run.debug(story, &credential);
            let client = stage.client(credential);
            let request = request(Dialect::OpenAiChat, BASE, &prompt);
            let name = if opaque { "opaque" } else { "key" };
            let call = client.call(request).key(key(&format!("{story} {name}")));
            let handle = call.retry(RETRY).start().await.unwrap();
            stage.see(&client, &handle).await;
        }
    }
}

async fn answers(run: &mut Run, kept: &Arc<dyn Store>) {
    // Whole, and replayed.
    let story = "a whole answer";
    let (secret, prompt, output) = (run.secret(story), run.prompt(story), run.output(story));
    let mut on = stage(run, kept, story);
    on.transport.push(whole(&output));
    let client = on.client(Credential::api_key(secret));
    for _ in 0..2 {
        let request = request(Dialect::OpenAiChat, BASE, &prompt);
        on.call(&client, request, Hold::None).await;
    }

    // Rerun while it is held back.
    let story = "a rerun";
    let (secret, prompt, output) = (run.secret(story), run.prompt(story), run.output(story));
    let mut on = stage(run, kept, story);
    on.transport
        .push(sse().chunk(delta("half")).breaks(ErrorKind::Reset));
    on.transport.push(whole(&output));
    let client = on.client(Credential::header("api-key", secret));
    on.call(
        &client,
        request(Dialect::OpenAiChat, BASE, &prompt),
        Hold::UntilComplete,
    )
    .await;

    // Interrupted, and continued by another client with another credential.
    let story = "a continuation";
    let (first, second) = (run.secret(story), run.opaque(story));
    let (prompt, output, more) = (run.prompt(story), run.output(story), run.output(story));
    let mut on = stage(run, kept, story);
    on.transport.push(
        sse()
            .chunk(message_begin(&format!("{output} ")))
            .breaks(ErrorKind::Reset),
    );
    on.transport
        .push(sse().chunk(format!("{}{MESSAGE_END}", message_begin(&more))));
    let client = on.client(Credential::api_key(first));
    on.call(
        &client,
        request(Dialect::AnthropicMessages, BASE, &prompt),
        Hold::None,
    )
    .await;
    let client = on.client(Credential::header("x-goog-api-key", second));
    let handle = client.continue_answer(&key(story), None).await.unwrap();
    on.see(&client, &handle).await;

    // Cut and resumed through the provider's cursor.
    let story = "a resume";
    let (secret, prompt, output) = (run.secret(story), run.prompt(story), run.output(story));
    let mut on = stage(run, kept, story);
    on.transport.push(
        sse()
            .chunk(CREATED)
            .chunk(HEL.replace("Hel", &output))
            .breaks(ErrorKind::Reset),
    );
    on.transport.push(sse().chunk(LO).chunk(completed(4)));
    let client = on.client(Credential::api_key(secret));
    on.call(
        &client,
        request(Dialect::OpenAiResponses, BASE, &prompt),
        Hold::None,
    )
    .await;

    // Stopped by its caller, and the provider told.
    let story = "a cancel";
    let (secret, prompt) = (run.secret(story), run.prompt(story));
    let mut on = stage(run, kept, story);
    let gate = streamkeep::transport::memory::Gate::new();
    on.transport
        .push(sse().chunk(CREATED).chunk(HEL).gate(&gate).hang());
    on.transport.push(Exchange::new().status(200));
    let client = on.client(Credential::api_key(secret));
    let call = client
        .call(request(Dialect::OpenAiResponses, BASE, &prompt))
        .key(key(story));
    let handle = call.start().await.unwrap();
    gate.reached().await;
    handle.cancel().await.unwrap();
    client.idle().await;
    on.see(&client, &handle).await;
}

/// Rotates once, and has a second secret ready.
#[derive(Debug)]
struct Rotating {
    old: Credential,
    new: Credential,
    rotated: AtomicBool,
}

impl CredentialProvider for Rotating {
    fn current(&self) -> BoxFuture<'_, Result<Credential>> {
        let rotated = self.rotated.load(Ordering::Relaxed);
        let credential = if rotated { &self.new } else { &self.old };
        Box::pin(ready(Ok(credential.clone())))
    }

    fn refresh<'a>(&'a self, _: &'a Credential) -> BoxFuture<'a, Result<Credential>> {
        self.rotated.store(true, Ordering::Relaxed);
        self.current()
    }
}

/// Has none, and says so with the secret in a level below.
#[derive(Debug)]
struct Broken;

static BROKEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();

impl CredentialProvider for Broken {
    fn current(&self) -> BoxFuture<'_, Result<Credential>> {
        let below = std::io::Error::other(BROKEN.get().unwrap().clone());
        let error = Error::new(ErrorKind::Auth, "the vault is shut").with_source(below);
        Box::pin(ready(Err(error)))
    }

    fn refresh<'a>(&'a self, _: &'a Credential) -> BoxFuture<'a, Result<Credential>> {
        self.current()
    }
}

async fn credentials(run: &mut Run, kept: &Arc<dyn Store>) {
    // Two routes with a credential each; the first quotes its own.
    let story = "a failover";
    let (first, second) = (run.secret(story), run.opaque(story));
    let (prompt, output) = (run.prompt(story), run.output(story));
    let on = stage(run, kept, story);
    for _ in 0..RETRY.max_attempts {
        on.transport.push(says(
            503,
            "application/json",
            format!(r#"{{"error":{{"type":"server_error","message":"no room for {first}"}}}}"#),
        ));
    }
    on.transport.push(whole(&output));
    let mut on = on;
    let asked = request(Dialect::OpenAiChat, BASE, &prompt);
    let other = Route::like(
        "other",
        &asked,
        "https://api.other.test/v1/chat/completions",
        None,
    )
    .unwrap();
    on.run.debug(story, &other);
    let client = Client::builder()
        .transport(on.transport.clone())
        .shared_store(Arc::clone(kept))
        .credential(Credential::api_key(first))
        .credential_for("other", Credential::header("api-key", second))
        .build()
        .unwrap();
    let call = client
        .call(asked)
        .key(key(story))
        .retry(RETRY)
        .fallback(other);
    on.run.debug(story, &call);
    let handle = call.start().await.unwrap();
    on.see(&client, &handle).await;

    // Refused once, refreshed, refused again.
    let story = "a refresh";
    let (old, new, prompt) = (run.secret(story), run.secret(story), run.prompt(story));
    let mut on = stage(run, kept, story);
    for secret in [&old, &new] {
        on.transport.push(says(
            401,
            "application/json",
            format!(
                r#"{{"error":{{"type":"authentication_error","message":"invalid key {secret}"}}}}"#
            ),
        ));
    }
    let client = on.client(Rotating {
        old: Credential::api_key(old),
        new: Credential::api_key(new),
        rotated: AtomicBool::new(false),
    });
    on.call(
        &client,
        request(Dialect::OpenAiChat, BASE, &prompt),
        Hold::None,
    )
    .await;

    let story = "a vault that is shut";
    let (secret, prompt) = (run.secret(story), run.prompt(story));
    BROKEN.set(format!("token {secret} expired")).unwrap();
    let mut on = stage(run, kept, story);
    let client = on.client(Broken);
    on.call(
        &client,
        request(Dialect::OpenAiChat, BASE, &prompt),
        Hold::None,
    )
    .await;
}
