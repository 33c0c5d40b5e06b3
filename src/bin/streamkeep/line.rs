//! One record as one line: what `--json` prints and the control socket carries.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use streamkeep::Cursor;
use streamkeep::proto::journal::{Body, Control, Delivered, Record};
use streamkeep::proto::model::Generation;

/// One record of a journal, with what it adds to the answer's text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// `<generation>-<number>`: reading after it goes on behind this record.
    cursor: String,
    /// Milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// The event, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<Event>,
    /// The control record, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    control: Option<Value>,
    /// Text of the first candidate that this event adds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    /// Text of a refusal that this event adds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) refusal: String,
    /// Whether the event carries model output of any kind.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) output: bool,
    /// Characters of output, for the estimate of tokens.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) chars: u64,
    /// The name of a tool whose call begins here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Event {
    name: String,
    data: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider_seq: Option<u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape that serde calls"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Line {
    /// The line of a record. The request body is left out unless `prompt` is
    /// set: it is the prompt.
    pub(crate) fn new(generation: Generation, record: &Record, prompt: bool) -> Self {
        let (event, control) = match &record.body {
            Body::Event(delivered) => (Some(event(delivered)), None),
            Body::Control(control) => (None, Some(told(control, prompt))),
            // A kind of record of a later version.
            _ => (None, Some(told(&Control::Unknown, prompt))),
        };
        Self {
            cursor: Cursor::new(generation, record.seq).to_string(),
            at_ms: record.at.as_millis(),
            event,
            control,
            text: String::new(),
            refusal: String::new(),
            output: false,
            chars: 0,
            tool: None,
        }
    }

    /// The cursor behind this record.
    pub(crate) fn cursor(&self) -> Option<Cursor> {
        self.cursor.parse().ok()
    }

    /// The control record, if it is one.
    pub(crate) fn control(&self) -> Option<Control> {
        let mut value = self.control.clone()?;
        if let Some(opened) = value.as_object_mut()
            && opened
                .get("record")
                .is_some_and(|record| record == "opened")
        {
            opened
                .entry("body")
                .or_insert_with(|| Value::String(String::new()));
        }
        Some(serde_json::from_value(value).unwrap_or(Control::Unknown))
    }
}

fn event(delivered: &Delivered) -> Event {
    Event {
        name: delivered.event_name().to_string(),
        data: delivered.data.to_string(),
        provider_seq: delivered.provider_seq,
    }
}

fn told(control: &Control, prompt: bool) -> Value {
    let mut value = serde_json::to_value(control).unwrap_or_default();
    if let (Control::Opened(opened), Some(fields), false) = (control, value.as_object_mut(), prompt)
    {
        fields.remove("body");
        fields.insert("body_bytes".to_owned(), opened.body.len().into());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use streamkeep::Request;
    use streamkeep::proto::journal::{End, Ended, Opened};
    use streamkeep::proto::model::{Seq, Usage, WallTime};
    use streamkeep::{Dialect, Key};

    fn record(control: Control) -> Record {
        Record {
            seq: Seq::new(3),
            at: WallTime::from_millis(7),
            body: Body::Control(Box::new(control)),
        }
    }

    fn opened() -> Control {
        let body = r#"{"messages":[{"role":"user","content":"a private word"}]}"#;
        let url = "http://127.0.0.1:1/v1/chat/completions";
        let request = Request::new(Dialect::OpenAiChat, url, body).unwrap();
        Control::Opened(Opened {
            key: Key::new("k").unwrap(),
            fingerprint: request.fingerprint(),
            dialect: request.dialect(),
            url: url.to_owned(),
            headers: Vec::new(),
            body: body.to_owned(),
            route: String::new(),
            fallbacks: Vec::new(),
            prompt_version: None,
        })
    }

    #[test]
    fn the_prompt_is_left_out_unless_asked_for() {
        let line = |prompt| {
            serde_json::to_string(&Line::new(Generation::FIRST, &record(opened()), prompt)).unwrap()
        };
        assert!(!line(false).contains("private"), "{}", line(false));
        assert!(line(false).contains("body_bytes"));
        assert!(line(true).contains("private"));
    }

    #[test]
    fn a_line_reads_back_what_it_wrote() {
        let ended = Control::Ended(Ended {
            end: End::Complete,
            stop: None,
            failure: None,
            usage: Usage::default(),
            attempts: 1,
            warnings: Vec::new(),
        });
        for control in [opened(), ended] {
            let line = Line::new(Generation::FIRST, &record(control.clone()), false);
            let back: Line = serde_json::from_str(&serde_json::to_string(&line).unwrap()).unwrap();
            assert_eq!(back, line);
            assert_eq!(back.cursor().unwrap().to_string(), "1-3");
            match (back.control().unwrap(), control) {
                (Control::Opened(back), Control::Opened(was)) => assert_eq!(back.url, was.url),
                (back, was) => assert_eq!(back, was),
            }
        }
    }
}
