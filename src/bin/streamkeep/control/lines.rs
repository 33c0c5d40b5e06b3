//! Lines of JSON over a socket, bounded.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Reads lines of at most so many bytes.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    reader: R,
    buffer: Vec<u8>,
    /// How much of the buffer has no line break in it.
    scanned: usize,
    max: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(reader: R, max: usize) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            scanned: 0,
            max,
        }
    }

    /// The next line as a value; `None` when the other side closed.
    ///
    /// # Cancel safety
    ///
    /// A future dropped before it was ready loses nothing: what was read stays
    /// in the buffer.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            let fresh = self.buffer.get(self.scanned..).unwrap_or_default();
            if let Some(found) = fresh.iter().position(|byte| *byte == b'\n') {
                let end = self.scanned.saturating_add(found);
                let value = serde_json::from_slice(self.buffer.get(..end).unwrap_or_default());
                self.buffer.drain(..=end);
                self.scanned = 0;
                return value.map(Some).map_err(|error| {
                    // Without the parser's words, which may quote what was read.
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!(
                            "expected a line of JSON, but found a fault at column {}",
                            error.column()
                        ),
                    )
                });
            }
            self.scanned = self.buffer.len();
            if self.scanned > self.max {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "expected a line of at most {} bytes, but found a longer one",
                        self.max
                    ),
                ));
            }
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Waits until the other side closes. What it still says is not read.
    pub(super) async fn closed(&mut self) {
        let mut rest = [0_u8; 64];
        while matches!(self.reader.read(&mut rest).await, Ok(read) if read > 0) {}
    }
}

/// Writes a value as a line, within this time.
pub(super) async fn write<W: AsyncWrite + Unpin>(
    writer: &mut W,
    value: &impl Serialize,
    within: Duration,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    timeout(within, writer.write_all(&line)).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_whole_however_they_are_cut() {
        let (mut far, near) = tokio::io::duplex(3);
        let writing = tokio::spawn(async move { far.write_all(b"[1,2]\n\"three\"\n[4").await });
        let mut lines = LineReader::new(near, 100);
        assert_eq!(lines.next::<Vec<u8>>().await.unwrap(), Some(vec![1, 2]));
        assert_eq!(
            lines.next::<String>().await.unwrap(),
            Some("three".to_owned())
        );
        // Half a line at the end is no line.
        assert_eq!(lines.next::<Vec<u8>>().await.unwrap(), None);
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_line_without_end_is_an_error_and_not_a_full_memory() {
        let mut lines = LineReader::new(tokio::io::repeat(b'x'), 1000);
        let error = lines.next::<String>().await.unwrap_err();
        assert!(error.to_string().contains("at most 1000 bytes"), "{error}");
        assert!(lines.buffer.len() < 100_000);
    }

    #[tokio::test]
    async fn what_is_no_json_is_an_error_that_quotes_nothing() {
        let mut lines = LineReader::new(&b"secret\n"[..], 1000);
        let error = lines.next::<u32>().await.unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
