//! The real model behind `scripts/model-server`: it says where it listens, streams
//! in the three dialects, notices a reader that leaves, and does not outlive the
//! test that started it.
//!
//! Std only, so that the program is tested apart from everything it later tests.

#![cfg(test)] // else the lints take the helpers for production code

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

const PROMPT: &str = "Say hello in one short sentence.";

/// A running model server. Ends with the value, also when a test panics.
struct ModelServer {
    child: Child,
    address: SocketAddr,
}

impl ModelServer {
    /// Starts it, or says why there is none: then the caller returns. With
    /// `CI=true` a missing one is a failure.
    fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("STREAMKEEP_MODEL_SERVER") else {
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "STREAMKEEP_MODEL_SERVER is not set; scripts/test sets it"
            );
            eprintln!("SKIPPED: no STREAMKEEP_MODEL_SERVER; scripts/test sets it");
            return None;
        };
        let mut child = Command::new(program)
            .args(["--ctx", "512"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ");
        let address = address.unwrap_or_else(|| panic!("expected an address, but found {line:?}"));
        let address = address.parse().unwrap();
        Some(Self { child, address })
    }

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

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
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
