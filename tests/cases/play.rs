//! Plays one case: its script on a socket, the whole client before it.

use crate::fixtures::{Case, Config, Protocol, Transport};
use crate::watched::{Passed, Watched, noise_of};
use crate::words::dialect_of;
use serde_json::Value;
use std::time::Duration;
use streamkeep::client::Handle;
use streamkeep::proto::dialect::ContinuationForm;
use streamkeep::proto::journal::{AttemptEnded, Body, Control, Record};
use streamkeep::proto::operation::{Limits, Outcome};
use streamkeep::proto::retry::RetryPolicy;
use streamkeep::proto::timeouts::Timeouts;
use streamkeep::testkit::{RawPlan, RawServer, RecordedRequest, Step};
use streamkeep::{Client, ErrorKind, Key, Request};

/// Everything that can be seen of one case from outside.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) records: Vec<Record>,
    pub(crate) outcome: Outcome,
    /// The first candidate's text, as a reader saw it come.
    pub(crate) read: String,
    /// What the caller gets who asks for the whole answer.
    pub(crate) whole: Result<(), ErrorKind>,
    /// What the caller gets who asks for one JSON document.
    pub(crate) json: Result<(), ErrorKind>,
    pub(crate) requests: Vec<RecordedRequest>,
    pub(crate) connections: usize,
    pub(crate) exchanges: Vec<Passed>,
    pub(crate) noise: Option<u64>,
    /// Whether the client left the first connection before its script had ended.
    pub(crate) left_first: bool,
}

/// Plays a case whose script says all there is to do.
///
/// A case that says nothing about what follows a retry is cancelled in the pause
/// before it: what counts there is that a retry was decided.
pub(crate) async fn play(case: &Case, key: &str) -> Played {
    let stage = Stage::set(case, key).await;
    let handle = stage.start(case).await;
    let reader = tokio::spawn(read_text(handle.clone()));
    let ends_at_retry = case.next_scripts.is_empty();
    let mut records = Vec::new();
    let mut subscription = handle.subscribe();
    while let Some(record) = subscription.next().await.unwrap() {
        let goes_on = attempt_end(&record).is_some_and(|ended| ended.decision == "retry");
        records.push(record);
        if goes_on && ends_at_retry {
            handle.cancel().await.unwrap();
        }
    }
    let read = reader.await.unwrap();
    let outcome = handle.outcome().await.unwrap();
    let form = match case.config.continuation.as_deref() {
        Some("prefill") => Some(ContinuationForm::Prefill),
        Some("anchor") => Some(ContinuationForm::UserMessage),
        Some("auto") => None,
        _ => return stage.end(&handle, records, outcome, read).await,
    };
    let continued = stage.client.continue_answer(handle.key(), form).await;
    let continued = match continued {
        Ok(continued) => continued,
        // It has ended, or is one that must not be continued.
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotPossible, "{error}");
            return stage.end(&handle, records, outcome, read).await;
        }
    };
    let outcome = continued.outcome().await.unwrap();
    let records = records_of(&continued).await;
    let read = read_text(continued.clone()).await;
    stage.end(&continued, records, outcome, read).await
}

/// A case's upstream, and a client that is to meet it.
pub(crate) struct Stage {
    pub(crate) server: RawServer,
    pub(crate) client: Client,
    transport: Watched,
    key: Key,
}

impl Stage {
    pub(crate) async fn set(case: &Case, key: &str) -> Self {
        let transport = Watched::new(case.transport == Some(Transport::H2cPriorKnowledge));
        let config = &case.config;
        Self {
            server: RawServer::start(plan(case)).await.unwrap(),
            client: Client::builder()
                .transport(transport.clone())
                .retry(retry_policy(config, case.next_scripts.is_empty()))
                .timeouts(timeouts(case))
                .limits(limits(config))
                .build()
                .unwrap(),
            transport,
            key: Key::new(key).unwrap(),
        }
    }

    pub(crate) async fn start(&self, case: &Case) -> Handle {
        self.client
            .call(request(case, &self.server.url()))
            .key(self.key.clone())
            .start()
            .await
            .unwrap()
    }

    /// Looks at everything once the operation has come to rest.
    pub(crate) async fn end(
        self,
        handle: &Handle,
        records: Vec<Record>,
        outcome: Outcome,
        read: String,
    ) -> Played {
        let whole = handle.complete().await;
        let json = handle.json::<Value>().await;
        let left_first =
            !self.server.requests().is_empty() && self.server.wait_until_closed(1).await;
        Played {
            records,
            outcome,
            read,
            whole: whole
                .map(drop)
                .map_err(|unfinished| unfinished.error.kind()),
            json: json.map(drop).map_err(|unfinished| unfinished.error.kind()),
            requests: self.server.requests(),
            connections: self.server.connections(),
            exchanges: self.transport.exchanges(),
            noise: noise_of(self.key.as_str()),
            left_first,
        }
    }
}

pub(crate) fn attempt_end(record: &Record) -> Option<&AttemptEnded> {
    match &record.body {
        Body::Control(control) => match control.as_ref() {
            Control::AttemptEnded(ended) => Some(ended),
            _ => None,
        },
        _ => None,
    }
}

pub(crate) async fn records_of(handle: &Handle) -> Vec<Record> {
    let mut records = Vec::new();
    let mut subscription = handle.subscribe();
    while let Some(record) = subscription.next().await.unwrap() {
        records.push(record);
    }
    records
}

pub(crate) async fn read_text(handle: Handle) -> String {
    let mut text = String::new();
    let mut subscription = handle.subscribe();
    while let Some(piece) = subscription.next_text().await.unwrap() {
        text.push_str(&piece);
    }
    text
}

/// By how much the clocks and the pauses of a case are stretched, so that a busy
/// machine does not decide which of them is first.
pub(crate) fn stretch(case: &Case) -> u32 {
    let Config {
        first_token_timeout_ms,
        idle_timeout_ms,
        progress_timeout_ms,
        post_finish_grace_ms,
        ..
    } = case.config;
    let clocks = [
        first_token_timeout_ms,
        idle_timeout_ms,
        progress_timeout_ms,
        post_finish_grace_ms,
        case.expect.first_event_within_ms,
    ];
    if clocks.iter().any(Option::is_some) {
        3
    } else {
        1
    }
}

fn plan(case: &Case) -> RawPlan {
    let factor = stretch(case);
    let stretched = |script: &[Step]| {
        script
            .iter()
            .map(|step| match step {
                Step::Sleep(time) => Step::Sleep(*time * factor),
                other => other.clone(),
            })
            .collect::<Vec<_>>()
    };
    let case = Case {
        script: stretched(&case.script),
        next_scripts: case.next_scripts.iter().map(|s| stretched(s)).collect(),
        ..case.clone()
    };
    case.plan().expect("a case that is played has a script")
}

fn request(case: &Case, url: &str) -> Request {
    let messages = r#"[{"role":"user","content":"ping"}]"#;
    let (path, body) = match case.protocol {
        Protocol::OpenaiChat => (
            "/v1/chat/completions",
            format!(r#"{{"model":"m","messages":{messages},"stream":true}}"#),
        ),
        // Claude 4.5 takes a prefill.
        Protocol::Anthropic => (
            "/v1/messages",
            format!(
                r#"{{"model":"claude-sonnet-4-5","max_tokens":100,"messages":{messages},"stream":true}}"#
            ),
        ),
        Protocol::OpenaiResponses => {
            let background = case.config.resume.as_deref() == Some("cursor");
            let body = format!(
                r#"{{"model":"m","input":"ping","stream":true,"background":{background}}}"#
            );
            ("/v1/responses", body)
        }
        Protocol::Gemini => (
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            r#"{"contents":[{"role":"user","parts":[{"text":"ping"}]}]}"#.to_owned(),
        ),
        other => panic!("no request is known for {other:?}"),
    };
    let dialect = dialect_of(case.protocol).unwrap();
    Request::new(dialect, format!("{url}{path}"), body).unwrap()
}

fn retry_policy(config: &Config, ends_at_retry: bool) -> RetryPolicy {
    let millis = Duration::from_millis;
    // Where nothing follows a retry, its pause only has to be long enough to be
    // cancelled in.
    let base = if ends_at_retry { 60_000 } else { 20 };
    RetryPolicy {
        max_attempts: config.max_attempts.unwrap_or(3),
        base: millis(config.base_backoff_ms.unwrap_or(base)),
        cap: millis(config.max_backoff_ms.unwrap_or(base)),
        min_delay: millis(config.min_backoff_ms.unwrap_or(10)),
        max_retry_after: millis(config.max_retry_after_ms.unwrap_or(60_000)),
        within: None,
        ..RetryPolicy::INTERACTIVE
    }
}

fn timeouts(case: &Case) -> Timeouts {
    let factor = stretch(case);
    let limit = |config: Option<u64>| config.map(|ms| Duration::from_millis(ms) * factor);
    let config = &case.config;
    let default = Timeouts::default();
    Timeouts {
        first_token: limit(config.first_token_timeout_ms).or(default.first_token),
        idle: limit(config.idle_timeout_ms).or(default.idle),
        progress: limit(config.progress_timeout_ms).or(default.progress),
        finish_grace: limit(config.post_finish_grace_ms).unwrap_or(default.finish_grace),
        overall: None,
    }
}

fn limits(config: &Config) -> Limits {
    let default = Limits::default();
    let bytes = config.max_event_bytes;
    Limits {
        max_event_bytes: bytes.map_or(default.max_event_bytes, |n| usize::try_from(n).unwrap()),
        ..default
    }
}
