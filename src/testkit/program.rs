//! A response as a list of operations: what to write, where to wait, how to end.
//!
//! Everything a fault does is done here, on plain values; `play` only carries
//! the operations out.

use super::fault::{At, Fault, Hold, Kind, Replacement, Status};
use super::frame::{Frame, FrameKind};
use super::http::reason;
use super::place::{body_length, insert, inside_character, split_characters};
use super::speak::{self, Asked, failure::Failure};
use crate::proto::model::Dialect;
use bytes::Bytes;
use std::fmt::Write as _;
use std::time::Duration;

/// A response to be played.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) framing: Framing,
    /// Steps before the head.
    pub(crate) before: Vec<Op>,
    /// Steps of the body.
    pub(crate) ops: Vec<Op>,
}

/// How the client learns where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Chunked,
    Length(u64),
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Send(Piece),
    /// Bytes outside of the body's framing.
    Raw(Bytes),
    Wait(Hold),
    Pings {
        every: Duration,
        sequence: u64,
    },
    /// The body ends as it should; what follows is not played.
    End,
    Fin,
    Rst,
}

/// Bytes of the body, written as one chunk.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    /// The generated event that has to exist, or be permitted, first.
    pub(crate) index: Option<usize>,
    /// Whether an event ends with this piece.
    pub(crate) ends_event: bool,
}

/// A fault that has nothing to work on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfit(pub(crate) &'static str);

impl Program {
    /// An event stream.
    pub(crate) fn stream() -> Self {
        Self {
            status: 200,
            headers: vec![
                ("Content-Type".into(), "text/event-stream".into()),
                ("Cache-Control".into(), "no-cache".into()),
            ],
            framing: Framing::Chunked,
            before: Vec::new(),
            ops: Vec::new(),
        }
    }

    /// One document.
    pub(crate) fn document(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self {
            status,
            headers: vec![("Content-Type".into(), content_type.into())],
            framing: Framing::Length(u64::try_from(body.len()).unwrap_or(u64::MAX)),
            before: Vec::new(),
            ops: vec![Op::Send(Piece {
                bytes: body,
                index: None,
                ends_event: true,
            })],
        }
    }

    /// A JSON document.
    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::document(status, "application/json", body.to_string())
    }

    /// The head as bytes.
    pub(crate) fn head(&self, keep_alive: bool) -> Bytes {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            // Writing to a string does not fail.
            let _ = write!(head, "{}: {}\r\n", clean(name), clean(value));
        }
        let _ = match self.framing {
            Framing::Chunked => write!(head, "Transfer-Encoding: chunked\r\n"),
            Framing::Length(n) => write!(head, "Content-Length: {n}\r\n"),
        };
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let _ = write!(head, "Connection: {connection}\r\n\r\n");
        head.into()
    }
}

/// A header without line ends: a test must not write a second header by accident.
fn clean(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

/// Makes the program of an answer's frames with these faults.
///
/// # Errors
///
/// [`Unfit`] when a fault needs something the answer does not have.
pub(crate) fn compile(
    dialect: Dialect,
    asked: &Asked,
    body: Body,
    faults: &[Fault],
) -> Result<Program, Unfit> {
    let (mut program, mut frames) = match body {
        Body::Frames(frames) => (Program::stream(), frames),
        Body::Other(program) => (program, Vec::new()),
    };
    // What takes the response's place comes first, what changes events next.
    for fault in faults {
        match &fault.kind {
            Kind::Status(status) => {
                (program, frames) = (of_status(dialect, asked, status), Vec::new());
            }
            Kind::Replace(replacement) => {
                (program, frames) = (replaced(dialect, asked, *replacement), Vec::new());
            }
            _ => change_frames(&mut frames, fault),
        }
    }
    program.ops.extend(frames.iter().map(|frame| {
        Op::Send(Piece {
            bytes: frame.bytes.clone(),
            index: frame.index,
            ends_event: true,
        })
    }));
    for fault in faults {
        change_program(&mut program, &frames, dialect, asked, fault)?;
    }
    Ok(program)
}

/// What a route answers before any fault.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// An event stream.
    Frames(Vec<Frame>),
    /// Anything else.
    Other(Program),
}

fn of_status(dialect: Dialect, asked: &Asked, fault: &Status) -> Program {
    let failure = fault
        .failure
        .unwrap_or_else(|| Failure::of_status(fault.code.unwrap_or(500)));
    let status = fault.code.unwrap_or_else(|| failure.status(dialect));
    let body = fault.body.clone().unwrap_or_else(|| {
        failure
            .body(dialect, asked.number, fault.message.as_deref())
            .to_string()
            .into()
    });
    let mut program = Program::document(status, "application/json", body);
    for (name, value) in &fault.headers {
        program
            .headers
            .retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        program.headers.push((name.clone(), value.clone()));
    }
    program
}

fn replaced(dialect: Dialect, asked: &Asked, replacement: Replacement) -> Program {
    match replacement {
        Replacement::Html => Program::document(
            200,
            "text/html; charset=utf-8",
            "<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\
             <body><h1>Sign in to go on</h1></body></html>\n",
        ),
        Replacement::JsonError(failure) => {
            Program::json(200, &failure.body(dialect, asked.number, None))
        }
        Replacement::Empty => Program::stream(),
    }
}

fn change_frames(frames: &mut Vec<Frame>, fault: &Fault) {
    match &fault.kind {
        Kind::MissingMarker => frames.retain(|f| f.kind != FrameKind::Marker),
        Kind::MissingProof => frames.retain(|f| f.kind != FrameKind::Proof),
        Kind::MissingTerminal => {
            frames.retain(|f| !matches!(f.kind, FrameKind::Proof | FrameKind::Marker));
        }
        Kind::Duplicate => {
            let at = match fault.at {
                At::Event(n) => n.checked_sub(1),
                _ => first_output(frames),
            };
            if let Some((at, frame)) = at.and_then(|at| Some((at, frames.get(at)?.clone()))) {
                frames.insert(at.saturating_add(1), frame);
            }
        }
        Kind::Malformed => {
            let at = match fault.at {
                At::Event(n) => Some(n),
                _ => first_output(frames),
            };
            if let Some(frame) = at.and_then(|at| frames.get_mut(at)) {
                frame.bytes = halved(&frame.bytes);
            }
        }
        _ => {}
    }
}

fn first_output(frames: &[Frame]) -> Option<usize> {
    frames.iter().position(|f| f.kind == FrameKind::Output)
}

/// The event with the second half of its data missing, and its blank line kept.
fn halved(event: &Bytes) -> Bytes {
    let text = String::from_utf8_lossy(event);
    let start = text.find("data: ").map_or(0, |at| at.saturating_add(6));
    let mut middle = start.saturating_add(text.len().saturating_sub(start) / 2);
    while !text.is_char_boundary(middle) {
        middle = middle.saturating_sub(1);
    }
    let (kept, _) = text.split_at(middle);
    format!("{kept}\n\n").into()
}

fn change_program(
    program: &mut Program,
    frames: &[Frame],
    dialect: Dialect,
    asked: &Asked,
    fault: &Fault,
) -> Result<(), Unfit> {
    let here = |default: At| {
        if fault.at == At::Usual {
            default
        } else {
            fault.at
        }
    };
    let start = At::Event(0);
    match &fault.kind {
        Kind::Close => insert(program, here(At::BeforeHead), vec![Op::Fin]),
        Kind::Reset => insert(program, here(At::BeforeHead), vec![Op::Rst]),
        Kind::Stall(hold) => insert(program, here(At::BeforeHead), vec![Op::Wait(hold.clone())]),
        Kind::SlowHead(hold) => insert(program, At::BeforeHead, vec![Op::Wait(hold.clone())]),
        Kind::End => {
            let proof = frames.iter().position(|f| f.kind == FrameKind::Proof);
            let at = At::Event(proof.unwrap_or(frames.len()));
            insert(program, here(at), vec![Op::End]);
        }
        Kind::InBand(failure) => {
            let at = here(start);
            let next = next_sequence(frames, at);
            let mut ops: Vec<Op> = failure
                .in_band(dialect, asked, next)
                .into_iter()
                .map(|frame| added(frame.bytes))
                .collect();
            ops.push(Op::End);
            insert(program, at, ops);
        }
        Kind::Insert(bytes) => insert(program, here(start), vec![added(bytes.clone())]),
        Kind::GarbageChunk => insert(
            program,
            here(start),
            vec![Op::Raw(Bytes::from_static(b"xyz\r\n")), Op::Fin],
        ),
        Kind::Pings(every) => {
            let at = here(start);
            let sequence = next_sequence(frames, at);
            let every = *every;
            insert(program, at, vec![Op::Pings { every, sequence }]);
        }
        Kind::SplitUtf8 => split_characters(program)?,
        Kind::CutUtf8 => {
            let at = inside_character(program, here(start))?;
            insert(program, At::Byte(at), vec![Op::Fin]);
        }
        Kind::ContentLength(difference) => {
            let length = body_length(program).saturating_add_signed(*difference);
            program.framing = Framing::Length(length);
            program.ops.push(Op::Fin);
        }
        Kind::ContentType(value) => {
            program
                .headers
                .retain(|(n, _)| !n.eq_ignore_ascii_case("content-type"));
            program.headers.push(("Content-Type".into(), value.clone()));
        }
        // On a connection that is already in use, this is the nearest thing.
        Kind::Refuse => insert(program, At::BeforeHead, vec![Op::Rst]),
        Kind::None
        | Kind::Duplicate
        | Kind::Malformed
        | Kind::MissingMarker
        | Kind::MissingProof
        | Kind::MissingTerminal
        | Kind::Status(_)
        | Kind::Replace(_) => {}
    }
    Ok(())
}

fn added(bytes: Bytes) -> Op {
    Op::Send(Piece {
        bytes,
        index: None,
        ends_event: true,
    })
}

/// The sequence number after those of the frames before this position.
fn next_sequence(frames: &[Frame], at: At) -> u64 {
    let mut offset = 0_u64;
    let before = frames.iter().enumerate().take_while(|(position, frame)| {
        offset = offset.saturating_add(u64::try_from(frame.bytes.len()).unwrap_or(u64::MAX));
        match at {
            At::Event(n) => *position < n,
            At::Byte(n) => offset <= n,
            At::Usual | At::BeforeHead => false,
        }
    });
    before
        .filter_map(|(_, frame)| frame.sequence)
        .max()
        .map_or_else(
            // A replay after a cursor goes on with its first event's number.
            || frames.iter().find_map(|f| f.sequence).unwrap_or(0),
            |last| last.saturating_add(1),
        )
}

/// The bytes of one ping.
pub(crate) fn ping(dialect: Dialect, sequence: u64) -> Bytes {
    speak::keepalive(dialect, sequence).bytes
}
