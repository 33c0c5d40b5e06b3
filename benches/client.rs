//! What keeping an answer costs beside reading its bytes: CPU per event of the
//! whole client (decoding, meaning, journal in memory, one reader) against
//! reqwest's byte stream alone, in one run.
//!
//! The upstream is a child process, so that only the reading side is counted. CPU
//! time is what the kernel counts for this process (`/proc/self/stat`), which is
//! steadier than the clock on a busy machine.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench is a program of its own: it fails by panicking and prints its figures"
)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use streamkeep::proto::model::{HttpRequest, Method};
use streamkeep::store::MemoryStore;
use streamkeep::transport::{Outgoing, ReqwestTransport, Transport};
use streamkeep::{Client, Dialect, Request};

const EVENTS: u32 = 100_000;
const ROUNDS: usize = 5;
/// Events in one write of the upstream: what a fast model's stream looks like to
/// a reader that is not the first in line.
const PER_WRITE: u32 = 4;

fn main() {
    if std::env::args().any(|argument| argument == "upstream") {
        return upstream();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (mut child, url) = start_upstream();
    let mut figures: [Vec<f64>; 2] = Default::default();
    for round in 0..=ROUNDS {
        for (figure, which) in figures.iter_mut().zip(["bytes", "client"]) {
            let before = cpu_seconds();
            match which {
                "bytes" => runtime.block_on(read_bytes(&url)),
                _ => runtime.block_on(keep_answer(&url)),
            }
            let micros = (cpu_seconds() - before) * 1e6 / f64::from(EVENTS);
            if round > 0 {
                figure.push(micros);
            }
        }
    }
    child.kill().unwrap();
    let median = |figures: &mut Vec<f64>| {
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let [bytes, client] = &mut figures;
    let (bytes, client) = (median(bytes), median(client));
    println!("{EVENTS} chat deltas, {PER_WRITE} per write, medians of {ROUNDS}, CPU us per event");
    println!("reqwest byte stream alone      {bytes:.2}");
    println!(
        "the client, journal in memory  {client:.2}   {:.2} x",
        client / bytes
    );
}

/// Reads the body and throws it away.
async fn read_bytes(url: &str) {
    let transport = ReqwestTransport::new().unwrap();
    let request = HttpRequest {
        method: Method::Post,
        url: format!("{url}/v1/chat/completions"),
        headers: Vec::new(),
        body: "{}".into(),
    };
    let mut response = transport
        .open(Outgoing {
            request,
            secret_headers: Vec::new(),
        })
        .await
        .unwrap();
    let mut bytes = 0_usize;
    while let Some(chunk) = response.body.chunk().await.unwrap() {
        bytes += chunk.len();
    }
    assert!(bytes > 10_000_000);
}

/// Keeps the answer, and reads it as one reader does.
async fn keep_answer(url: &str) {
    let client = Client::builder().store(MemoryStore::new()).build().unwrap();
    let url = format!("{url}/v1/chat/completions");
    let request = Request::new(Dialect::OpenAiChat, url, r#"{"model":"m","messages":[]}"#).unwrap();
    let handle = client.call(request).start().await.unwrap();
    let mut reader = handle.subscribe();
    let mut events = 0;
    while reader.next_event().await.unwrap().is_some() {
        events += 1;
    }
    assert_eq!(events, EVENTS + 2);
}

fn start_upstream() -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("upstream")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 6];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    let port = std::str::from_utf8(&line).unwrap().trim().to_owned();
    (child, format!("http://127.0.0.1:{port}"))
}

/// Answers every request with the same stream, until it is killed.
fn upstream() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{:<5}", listener.local_addr().unwrap().port());
    std::io::stdout().flush().unwrap();
    for connection in listener.incoming() {
        let _ = answer(connection.unwrap());
    }
}

fn answer(mut connection: TcpStream) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let _ = connection.read(&mut request)?;
    connection.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    )?;
    let event = "data: {\"id\":\"chatcmpl-Bx81QJ2kZx\",\"object\":\"chat.completion.chunk\",\"created\":1764550000,\"model\":\"gpt-5-2026-08-07\",\"system_fingerprint\":\"fp_44709d6fcb\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n";
    let batch = event.repeat(usize::try_from(PER_WRITE).unwrap());
    for _ in 0..EVENTS / PER_WRITE {
        connection.write_all(batch.as_bytes())?;
    }
    connection.write_all(b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

/// User and system time of this process, in seconds (proc(5): fields 14 and 15, in
/// ticks of a hundredth).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks = |index: usize| fields[index].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}
