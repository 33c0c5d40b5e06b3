//! From a request to the response it gets.

use super::answer::Answer;
use super::background::{Background, Backgrounds};
use super::fault::WINDOW_CLOSED;
use super::http::Request;
use super::listen::Tasks;
use super::play::Pacer;
use super::program::{Body, Program, Unfit, compile};
use super::scenario::{Replay, Scenario};
use super::speak::{self, Asked, failure::Failure, responses};
use crate::proto::model::Dialect;
use serde_json::{Value, json};
use std::sync::Arc;

/// A response ready to be played.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) dialect: Dialect,
    pub(crate) program: Program,
    pub(crate) pacer: Pacer,
}

/// What a route found out.
struct Found {
    dialect: Dialect,
    asked: Asked,
    body: Body,
    pacer: Option<Pacer>,
}

/// The response to request `number`.
pub(crate) fn reply(
    scenario: &Scenario,
    backgrounds: &Backgrounds,
    tasks: &Tasks,
    request: &Request,
    number: usize,
) -> Reply {
    let route = Route {
        scenario,
        backgrounds,
        tasks,
        request,
        number,
    };
    let found = route.find();
    let dialect = found.dialect;
    let mut program = compile(dialect, &found.asked, found.body, scenario.faults(number))
        .unwrap_or_else(|unfit| unusable(&unfit));
    program.headers.push((
        speak::request_id_header(dialect).into(),
        format!("req_{number}"),
    ));
    program.headers.extend(scenario.headers.iter().cloned());
    Reply {
        dialect,
        program,
        pacer: found
            .pacer
            .unwrap_or_else(|| Pacer::Own(scenario.pace.clone())),
    }
}

/// The answer to a fault plan that cannot be carried out: loud, so that no test
/// passes because its fault never happened.
fn unusable(unfit: &Unfit) -> Program {
    let mut program = Program::json(
        500,
        &json!({"error": {
            "message": format!("the test kit's fault plan does not fit: {}", unfit.0),
            "type": "testkit_error",
            "param": null,
            "code": "testkit_error",
        }}),
    );
    program
        .headers
        .push(("x-testkit-error".into(), unfit.0.into()));
    program
}

struct Route<'a> {
    scenario: &'a Scenario,
    backgrounds: &'a Backgrounds,
    tasks: &'a Tasks,
    request: &'a Request,
    number: usize,
}

impl Route<'_> {
    fn find(&self) -> Found {
        let (path, query) = self
            .request
            .target
            .split_once('?')
            .unwrap_or((&self.request.target, ""));
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let (dialect, get) = match *segments.as_slice() {
            ["v1", "chat", "completions"] => (Dialect::OpenAiChat, None),
            ["v1", "messages"] => (Dialect::AnthropicMessages, None),
            ["v1", "responses"] => (Dialect::OpenAiResponses, None),
            ["v1", "responses", id] => (Dialect::OpenAiResponses, Some((id, false))),
            ["v1beta", "models", model] if model.contains(':') => (Dialect::GeminiGenerate, None),
            ["v1", "responses", id, "cancel"] => (Dialect::OpenAiResponses, Some((id, true))),
            _ => {
                let dialect = self.scenario.dialect.unwrap_or(Dialect::OpenAiChat);
                return self.failed(dialect, 404, None);
            }
        };
        if self.scenario.dialect.is_some_and(|only| only != dialect) {
            return self.failed(dialect, 404, None);
        }
        match (self.request.method.as_str(), get) {
            ("POST", None) => self.create(dialect),
            ("POST", Some((id, true))) => self.cancel(id),
            ("GET", Some((id, false))) => self.retrieve(id, query),
            _ => self.failed(dialect, 405, Some("this method is not allowed here")),
        }
    }

    fn create(&self, dialect: Dialect) -> Found {
        let Ok(request @ Value::Object(_)) = serde_json::from_slice(&self.request.body) else {
            return self.failed(dialect, 400, Some("expected a JSON object as the body"));
        };
        let flag = |name: &str| request.get(name).and_then(Value::as_bool) == Some(true);
        // Gemini names model and verb in the path.
        let (path, _) = self
            .request
            .target
            .split_once('?')
            .unwrap_or((&self.request.target, ""));
        let in_path = path
            .rsplit_once('/')
            .and_then(|(_, last)| last.rsplit_once(':'))
            .filter(|_| dialect == Dialect::GeminiGenerate);
        let asked = Asked {
            number: self.number,
            model: in_path
                .map(|(model, _)| model)
                .or_else(|| request.get("model").and_then(Value::as_str))
                .unwrap_or("test-model")
                .to_owned(),
            include_usage: request
                .pointer("/stream_options/include_usage")
                .and_then(Value::as_bool)
                == Some(true),
            background: dialect == Dialect::OpenAiResponses && flag("background"),
        };
        let answer = self.answer(&request);
        let stream = in_path.map_or_else(
            || flag("stream"),
            |(_, verb)| verb == "streamGenerateContent",
        );
        if asked.background {
            return self.create_background(&asked, &answer, stream);
        }
        let body = if stream {
            Body::Frames(speak::frames(dialect, &asked, &answer))
        } else {
            Body::Other(Program::json(200, &speak::whole(dialect, &asked, &answer)))
        };
        Found {
            dialect,
            asked,
            body,
            pacer: None,
        }
    }

    fn create_background(&self, asked: &Asked, answer: &Answer, stream: bool) -> Found {
        let frames = speak::frames(Dialect::OpenAiResponses, asked, answer);
        let background = self.backgrounds.start(
            self.tasks,
            asked.clone(),
            answer,
            frames.clone(),
            &self.scenario.pace,
            self.scenario.stays_queued,
        );
        if stream {
            streamed(&background, frames)
        } else {
            document(asked.clone(), &responses::snapshot(asked, "queued"))
        }
    }

    fn retrieve(&self, id: &str, query: &str) -> Found {
        let Some(background) = self.known(id) else {
            return self.not_found(id);
        };
        let parameter = |name: &str| {
            query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        if parameter("stream") != Some("true") {
            return document(background.asked.clone(), &background.snapshot());
        }
        let cursor = match parameter("starting_after").map(str::parse) {
            None => None,
            Some(Ok(cursor)) => Some(cursor),
            Some(Err(_)) => {
                return self.failed(
                    Dialect::OpenAiResponses,
                    400,
                    Some("expected an integer as starting_after"),
                );
            }
        };
        match self.scenario.replay {
            Replay::AfterCursor | Replay::Unknown => {
                streamed(&background, background.after(cursor))
            }
            Replay::FromStart => streamed(&background, background.after(None)),
            Replay::WindowClosed => self.failed(Dialect::OpenAiResponses, 400, Some(WINDOW_CLOSED)),
            Replay::PollOnly => self.failed(
                Dialect::OpenAiResponses,
                400,
                Some("this response cannot be streamed"),
            ),
        }
    }

    fn cancel(&self, id: &str) -> Found {
        let Some(background) = self.known(id) else {
            return self.not_found(id);
        };
        background.cancel();
        document(background.asked.clone(), &background.snapshot())
    }

    fn known(&self, id: &str) -> Option<Arc<Background>> {
        self.backgrounds
            .get(id)
            .filter(|_| self.scenario.replay != Replay::Unknown)
    }

    fn not_found(&self, id: &str) -> Found {
        let message = format!("Response with id '{id}' not found.");
        self.failed(Dialect::OpenAiResponses, 404, Some(&message))
    }

    fn failed(&self, dialect: Dialect, status: u16, message: Option<&str>) -> Found {
        let body = Failure::of_status(status).body(dialect, self.number, message);
        Found {
            dialect,
            asked: Asked {
                number: self.number,
                model: "test-model".to_owned(),
                include_usage: false,
                background: false,
            },
            body: Body::Other(Program::json(status, &body)),
            pacer: None,
        }
    }

    /// The answer to this request: the scenario's, another text, or the rest.
    fn answer(&self, request: &Value) -> Answer {
        let mut answer = self.scenario.answer.clone();
        if let Some(text) = self.scenario.answers.get(&self.number) {
            answer.text = text.clone();
        } else if self.scenario.continues {
            let mut prompt = Vec::new();
            for name in ["messages", "input"] {
                if let Some(value) = request.get(name) {
                    strings(value, &mut prompt);
                }
            }
            let had = prompt
                .iter()
                .map(|text| answer.text.longest_prefix_in(text))
                .max()
                .unwrap_or(0);
            answer.text = answer.text.from(had);
        }
        answer
    }
}

/// Every string in a value. JSON that was parsed is at most 128 levels deep.
fn strings<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        Value::Object(map) => map.values().for_each(|item| strings(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn streamed(background: &Arc<Background>, frames: Vec<super::frame::Frame>) -> Found {
    Found {
        dialect: Dialect::OpenAiResponses,
        asked: background.asked.clone(),
        body: Body::Frames(frames),
        pacer: Some(Pacer::Generated(Arc::clone(background))),
    }
}

fn document(asked: Asked, body: &Value) -> Found {
    Found {
        dialect: Dialect::OpenAiResponses,
        asked,
        body: Body::Other(Program::json(200, body)),
        pacer: None,
    }
}
