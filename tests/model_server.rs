//! The real model behind `scripts/model-server`: it says where it listens, streams
//! in the three dialects, notices a reader that leaves, and does not outlive the
//! test that started it.
//!
//! Std only, so that the program is tested apart from everything it later tests.

#![cfg(test)] // else the lints take the helpers for production code

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

const PROMPT: &str = "Say hello in one short sentence.";

#[path = "support/model_server.rs"]
mod support;

use support::ModelServer;

impl ModelServer {
    /// A connection with a request on it, whose answer is still to be read.
    fn ask(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream
    }

    /// The whole answer, head and chunk sizes with it.
    fn answer(&self, method: &str, path: &str, body: &str) -> String {
        let mut all = String::new();
        self.ask(method, path, body)
            .read_to_string(&mut all)
            .unwrap();
        all
    }
}

fn chat(limit: usize) -> String {
    format!(
        r#"{{"model":"x","stream":true,"temperature":0,"seed":1,"max_tokens":{limit},"messages":[{{"role":"user","content":"{PROMPT}"}}]}}"#
    )
}

#[test]
fn the_model_streams_in_three_dialects() {
    let Some(server) = ModelServer::start() else {
        return;
    };
    let responses = format!(
        r#"{{"model":"x","stream":true,"temperature":0,"seed":1,"max_output_tokens":24,"input":"{PROMPT}"}}"#
    );
    for (path, body, end) in [
        ("/v1/chat/completions", chat(24), "data: [DONE]"),
        ("/v1/messages", chat(24), "event: message_stop"),
        ("/v1/responses", responses, "event: response.completed"),
    ] {
        let answer = server.answer("POST", path, &body);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        assert!(answer.contains("Hello"), "{path}: {answer}");
        assert!(answer.contains(end), "{path}: {answer}");
    }
}

#[test]
fn the_server_ends_well_when_its_input_closes_in_the_middle_of_an_answer() {
    let Some(mut server) = ModelServer::start() else {
        return;
    };
    let mut stream = server.ask("POST", "/v1/chat/completions", &chat(400));
    let mut begun = [0; 16];
    stream.read_exact(&mut begun).unwrap();
    drop(server.child.stdin.take());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let refused = TcpStream::connect(server.address).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[cfg(unix)]
#[test]
fn the_server_ends_well_when_it_is_told_to() {
    let Some(mut server) = ModelServer::start() else {
        return;
    };
    let kill = format!("kill -TERM {}", server.child.id());
    let told = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(told.success());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}
