//! Carries a program out on a socket.

use super::background::{Background, Pace};
use super::fault::Hold;
use super::program::{Framing, Op, Program, ping};
use super::record::Progress;
use crate::proto::model::Dialect;
use bytes::{BufMut, Bytes, BytesMut};
use std::fmt::Write as _;
use std::future::pending;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

/// What an event has to wait for before it is sent.
#[derive(Clone, Debug)]
pub(crate) enum Pacer {
    /// The scenario's pace.
    Own(Pace),
    /// The event's generation.
    Generated(Arc<Background>),
}

impl Pacer {
    /// False when the event will never come.
    async fn ready(&self, index: usize) -> bool {
        match self {
            Self::Own(pace) => {
                pace.step().await;
                true
            }
            Self::Generated(background) => background.ready(index).await,
        }
    }
}

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As HTTP has it; the connection may be used again.
    Whole,
    /// As HTTP has it, except that the body was shorter than announced.
    Short,
    /// A fault: close with a FIN.
    Fin,
    /// A fault: close with a RST.
    Rst,
}

/// Plays a response to its end.
///
/// # Errors
///
/// When the client has left.
pub(crate) async fn play<W: AsyncWrite + Unpin>(
    to: &mut W,
    program: &Program,
    dialect: Dialect,
    pacer: &Pacer,
    progress: &Progress,
    keep_alive: bool,
) -> io::Result<Outcome> {
    for step in &program.before {
        match step {
            Op::Wait(hold) => wait(hold).await,
            Op::Fin => return Ok(Outcome::Fin),
            Op::Rst => return Ok(Outcome::Rst),
            Op::Send(_) | Op::Raw(_) | Op::Pings { .. } | Op::End => {}
        }
    }
    to.write_all(&program.head(keep_alive)).await?;
    let mut body = Body {
        to,
        framing: program.framing,
        sent: 0,
        progress,
    };
    for step in &program.ops {
        match step {
            Op::Send(piece) => {
                if let Some(index) = piece.index
                    && !pacer.ready(index).await
                {
                    return body.end().await;
                }
                body.write(&piece.bytes).await?;
                if piece.ends_event {
                    progress.add_event();
                }
            }
            Op::Raw(bytes) => body.to.write_all(bytes).await?,
            Op::Wait(hold) => wait(hold).await,
            Op::Pings { every, sequence } => {
                let mut sequence = *sequence;
                loop {
                    body.write(&ping(dialect, sequence)).await?;
                    progress.add_event();
                    sequence = sequence.saturating_add(1);
                    sleep(*every).await;
                }
            }
            Op::End => return body.end().await,
            Op::Fin => return Ok(Outcome::Fin),
            Op::Rst => return Ok(Outcome::Rst),
        }
    }
    body.end().await
}

async fn wait(hold: &Hold) {
    match hold {
        Hold::For(time) => sleep(*time).await,
        Hold::Until(gate) => gate.pass().await,
        Hold::Forever => pending().await,
    }
}

struct Body<'a, W> {
    to: &'a mut W,
    framing: Framing,
    sent: u64,
    progress: &'a Progress,
}

impl<W: AsyncWrite + Unpin> Body<'_, W> {
    /// Writes bytes as one chunk, in one write.
    async fn write(&mut self, bytes: &Bytes) -> io::Result<()> {
        // An empty chunk would be the last one.
        if bytes.is_empty() {
            return Ok(());
        }
        match self.framing {
            Framing::Length(_) => self.to.write_all(bytes).await?,
            Framing::Chunked => {
                let mut chunk = BytesMut::with_capacity(bytes.len().saturating_add(20));
                // Writing to a buffer that grows does not fail.
                let _ = write!(chunk, "{:x}\r\n", bytes.len());
                chunk.put_slice(bytes);
                chunk.put_slice(b"\r\n");
                self.to.write_all(&chunk).await?;
            }
        }
        let n = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.sent = self.sent.saturating_add(n);
        self.progress.add_bytes(bytes.len());
        Ok(())
    }

    async fn end(self) -> io::Result<Outcome> {
        match self.framing {
            Framing::Chunked => {
                self.to.write_all(b"0\r\n\r\n").await?;
                Ok(Outcome::Whole)
            }
            Framing::Length(n) if n == self.sent => Ok(Outcome::Whole),
            Framing::Length(_) => Ok(Outcome::Short),
        }
    }
}
