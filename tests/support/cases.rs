//! The failure cases in `fixtures/failures`, as typed values.
//!
//! Every field of a case is known here: a fixture with another one does not
//! load. A field that a case does not have is `None` (or empty); a field that is
//! `null` where that means something is `Some(None)`.

#![expect(
    clippy::option_option,
    clippy::panic,
    clippy::unwrap_used,
    reason = "null and absent are told apart, and a fixture that is wrong fails its test"
)]

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use streamkeep::testkit::RawPlan;
pub(crate) use streamkeep::testkit::Step;

/// One case.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) link: String,
    pub(crate) protocol: Protocol,
    /// `None` is HTTP/1.1.
    pub(crate) transport: Option<Transport>,
    /// The feature may be left out.
    #[serde(default)]
    pub(crate) optional: bool,
    #[serde(default)]
    pub(crate) config: Config,
    /// Steps for gateway, storage and cancel cases, in plain words.
    #[serde(default)]
    pub(crate) actions: Vec<String>,
    /// Headers to put in the place of those of the script, one set a variant.
    #[serde(default)]
    pub(crate) variants: Vec<BTreeMap<String, String>>,
    /// Set when every connection gets the first script.
    pub(crate) script_repeat: Option<String>,
    #[serde(default)]
    pub(crate) script: Vec<Step>,
    #[serde(default)]
    pub(crate) next_scripts: Vec<Vec<Step>>,
    /// Connection 1 where there are `next_scripts`, else the whole call.
    pub(crate) expect: Expect,
    /// The whole call.
    pub(crate) expect_final: Option<Expect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Protocol {
    OpenaiChat,
    OpenaiResponses,
    Anthropic,
    Gemini,
    OllamaNdjson,
    Sse,
    Gateway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Transport {
    #[serde(rename = "h2c-prior-knowledge")]
    H2cPriorKnowledge,
}

/// The limits a case needs; times are scaled down.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) base_backoff_ms: Option<u64>,
    pub(crate) min_backoff_ms: Option<u64>,
    pub(crate) max_backoff_ms: Option<u64>,
    pub(crate) max_retry_after_ms: Option<u64>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) retry_budget_ratio: Option<f64>,
    pub(crate) retry_budget_reserve: Option<u32>,
    pub(crate) first_token_timeout_ms: Option<u64>,
    pub(crate) idle_timeout_ms: Option<u64>,
    pub(crate) progress_timeout_ms: Option<u64>,
    pub(crate) post_finish_grace_ms: Option<u64>,
    pub(crate) heartbeat_ms: Option<u64>,
    pub(crate) retention_ms: Option<u64>,
    pub(crate) max_event_bytes: Option<u64>,
    pub(crate) store_max_events_per_stream: Option<u64>,
    pub(crate) resume: Option<String>,
    pub(crate) continuation: Option<String>,
}

/// The right outcome.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    // What every stream case says.
    pub(crate) class: Option<Class>,
    pub(crate) phase: Option<Phase>,
    pub(crate) text: Option<Texts>,
    pub(crate) terminal: Option<bool>,
    pub(crate) complete: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) finish: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) error_type: Option<Option<String>>,
    pub(crate) retry: Option<Retry>,

    // More about the answer.
    pub(crate) reasoning: Option<String>,
    pub(crate) text_repeat: Option<Repeated>,
    /// By choice index.
    pub(crate) choices: Option<BTreeMap<String, String>>,
    pub(crate) tool_calls: Option<Vec<ToolCall>>,
    pub(crate) structured: Option<Structured>,
    pub(crate) usage: Option<BTreeMap<String, u64>>,
    pub(crate) other_parts: Option<u64>,
    pub(crate) noise_events: Option<u64>,
    pub(crate) response_id: Option<String>,
    pub(crate) start_events: Option<u64>,
    pub(crate) accept_also: Option<Vec<Alternative>>,

    // More about the error.
    pub(crate) message_contains: Option<String>,
    pub(crate) http_status: Option<u16>,
    pub(crate) http_equiv: Option<u16>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) retry_after_ms: Option<Option<u64>>,
    pub(crate) errors_emitted: Option<u64>,

    // Times and counts of the client.
    pub(crate) within_ms: Option<u64>,
    pub(crate) first_event_within_ms: Option<u64>,
    pub(crate) delay_min_ms: Option<u64>,
    pub(crate) delay_max_ms: Option<u64>,
    pub(crate) total_min_ms: Option<u64>,
    pub(crate) reconnect_delay_min_ms: Option<u64>,
    pub(crate) upstream_closed_within_ms: Option<u64>,
    pub(crate) connections: Option<u64>,
    pub(crate) connections_max: Option<u64>,
    pub(crate) requests: Option<u64>,
    pub(crate) check: Option<String>,
    pub(crate) note: Option<String>,

    // The requests the upstream saw.
    pub(crate) request2_line: Option<String>,
    pub(crate) request2_contains: Option<String>,
    pub(crate) request2_last_role: Option<String>,
    pub(crate) same_key_on_retry: Option<bool>,
    pub(crate) cursor: Option<String>,
    /// A value of `None` says that the header must be absent.
    pub(crate) reconnect_headers: Option<Vec<BTreeMap<String, Option<String>>>>,
    pub(crate) roundtrip: Option<Vec<String>>,

    // The gateway.
    pub(crate) routes: Option<Vec<String>>,
    pub(crate) response_headers: Option<BTreeMap<String, String>>,
    pub(crate) status: Option<u16>,
    pub(crate) statuses: Option<BTreeMap<String, u16>>,
    pub(crate) malformed_status: Option<u16>,
    pub(crate) body_len: Option<u64>,
    pub(crate) heartbeat_has_id: Option<bool>,
    pub(crate) heartbeats_in_first_1000ms_min: Option<u64>,
    pub(crate) upstream_connections: Option<u64>,
    pub(crate) stream_ids: Option<u64>,
    pub(crate) reader_error: Option<String>,
    pub(crate) reader_closed_within_ms: Option<u64>,
    pub(crate) subscriber_removed_within_ms: Option<u64>,
    pub(crate) other_reader_delay_ms_max: Option<u64>,
    pub(crate) terminal_event: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) terminal_event_before_end: Option<Option<String>>,
    pub(crate) events_after_restart_min: Option<u64>,
    pub(crate) start_events_after_cursor_resume: Option<u64>,
    pub(crate) ids_stable: Option<bool>,
    pub(crate) duplicates: Option<u64>,
    pub(crate) missing: Option<u64>,
    pub(crate) wrong_events: Option<u64>,
    pub(crate) foreign_events: Option<u64>,
    pub(crate) invalid_events: Option<u64>,
    pub(crate) gap_events: Option<u64>,

    // The store.
    pub(crate) stored_status: Option<String>,
    pub(crate) no_append_after_cancel: Option<bool>,
    pub(crate) start_ok: Option<bool>,
    pub(crate) metric: Option<String>,
    pub(crate) disk_max_mib: Option<u64>,
    pub(crate) live_text: Option<String>,
    pub(crate) resumable: Option<bool>,
    pub(crate) process_alive: Option<bool>,
    pub(crate) calls_per_second_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Class {
    /// The protocol said that the message ended.
    Ok,
    /// Failed, and no content delta was delivered.
    PreStream,
    /// Failed after the first delta (text, reasoning or tool).
    MidStream,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    Headers,
    BodyBeforeContent,
    BodyAfterContent,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Retry {
    /// Nothing was delivered; the same request is safe.
    SameRequest,
    /// Cursor resume or continuation, never a blind replay.
    ContinueOnly,
    None,
}

/// The text, or the text of each reader.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Texts {
    One(String),
    PerReader(BTreeMap<String, String>),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repeated {
    pub(crate) text: String,
    pub(crate) times: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) complete: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Structured {
    pub(crate) ok: bool,
    pub(crate) reason: Option<String>,
}

/// Another outcome that is fine: these fields may differ.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Alternative {
    pub(crate) class: Option<Class>,
    pub(crate) error_type: Option<String>,
}

impl Case {
    /// What a raw server has to play. `None` for a case without a script.
    pub(crate) fn plan(&self) -> Option<RawPlan> {
        if self.script.is_empty() {
            return None;
        }
        let mut plan = RawPlan::new(self.script.clone());
        for script in &self.next_scripts {
            plan = plan.then(script.clone());
        }
        if self.script_repeat.is_some() {
            plan = plan.repeat_last();
        }
        if self.transport == Some(Transport::H2cPriorKnowledge) {
            plan = plan.h2c();
        }
        Some(plan)
    }

    /// The case once for each of its variants, or once as it is.
    #[track_caller]
    pub(crate) fn expanded(&self) -> Vec<Self> {
        if self.variants.is_empty() {
            return vec![self.clone()];
        }
        let variant = |headers: &BTreeMap<String, String>| Self {
            variants: Vec::new(),
            script: self
                .script
                .iter()
                .enumerate()
                .map(|(position, step)| match step {
                    Step::Send(bytes) if position == 0 => with_headers(bytes, headers),
                    other => other.clone(),
                })
                .collect(),
            ..self.clone()
        };
        self.variants.iter().map(variant).collect()
    }
}

/// All cases that were seen by others, by id.
#[track_caller]
pub(crate) fn all() -> Vec<Case> {
    all_in("failures")
}

/// All cases in a folder of the fixtures, by id.
#[track_caller]
pub(crate) fn all_in(folder: &str) -> Vec<Case> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(fixtures().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    paths.iter().map(|path| load(path)).collect()
}

/// The case with this id.
#[track_caller]
pub(crate) fn one(id: &str) -> Case {
    load(&fixtures().join(format!("failures/{id}.json")))
}

/// The case with this id, as JSON, to be changed and read again.
#[track_caller]
pub(crate) fn json(id: &str) -> serde_json::Value {
    let path = fixtures().join(format!("failures/{id}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

#[track_caller]
fn load(path: &Path) -> Case {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let case: Case =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(Some(case.id.as_str()), path.file_stem().unwrap().to_str());
    case
}

/// A response head with these header values in the place of its own.
#[track_caller]
fn with_headers(head: &[u8], headers: &BTreeMap<String, String>) -> Step {
    let mut head = String::from_utf8(head.to_vec()).unwrap();
    for (name, value) in headers {
        let start = head
            .find(&format!("\r\n{name}:"))
            .unwrap_or_else(|| panic!("expected a header {name} in the script's head"))
            + 2;
        let end = start + head[start..].find("\r\n").unwrap();
        head.replace_range(start..end, &format!("{name}: {value}"));
    }
    Step::text(head)
}

/// Tells `null` from absent.
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_loads_and_has_a_plan_unless_it_has_no_script() {
        let cases = all();
        assert_eq!(cases.len(), 137);
        let without: Vec<&str> = cases
            .iter()
            .filter(|case| case.plan().is_none())
            .map(|case| case.id.as_str())
            .collect();
        assert_eq!(without, ["ST-01", "ST-03", "ST-07", "ST-10"]);
        assert_eq!(
            one("TR-01"),
            cases.iter().find(|c| c.id == "TR-01").unwrap().clone()
        );
    }

    #[test]
    fn variants_replace_a_header_of_the_first_script() {
        let case = one("RP-04");
        let variants = case.expanded();
        assert_eq!(variants.len(), 7);
        assert_eq!(variants[0].script, case.script);
        let Step::Send(head) = &variants[2].script[0] else {
            panic!("expected bytes")
        };
        let head = std::str::from_utf8(head).unwrap();
        assert!(head.contains("\r\nRetry-After: soon\r\n"), "{head}");
        assert_eq!(one("TR-01").expanded(), [one("TR-01")]);
    }

    #[test]
    fn null_is_told_from_absent() {
        assert_eq!(one("RP-04").expect.retry_after_ms, Some(None));
        assert_eq!(one("TR-01").expect.retry_after_ms, None);
    }
}
