//! The records of one answer as lines, read from a store that this process has
//! open.

use crate::line::Line;
use streamkeep::client::Subscription;
use streamkeep::proto::dialect::{Interpreter, interpreter};
use streamkeep::proto::journal::{Body, Control, Record};
use streamkeep::proto::model::{Delta, Generation, Seq};
use streamkeep::proto::sse::Event;
use streamkeep::store::PageLimit;
use streamkeep::{Client, Cursor, Error, ErrorKind, Key, Result};

/// What to read.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) key: Key,
    /// After which record; `None` is the start of the current generation.
    pub(crate) after: Option<Cursor>,
    /// Whether the request body stays in the first record.
    pub(crate) prompt: bool,
}

/// The records of one answer as lines.
///
/// It reads from the first record whatever the cursor says, because what an
/// event means can depend on those before it, and shows only what comes after
/// the cursor.
#[derive(Debug)]
pub(crate) struct Feed {
    subscription: Subscription,
    generation: Generation,
    after: Seq,
    /// The last record there is, when nobody writes any more.
    last: Option<Seq>,
    prompt: bool,
    reader: Option<Box<dyn Interpreter>>,
    rests: bool,
}

impl Feed {
    /// Follows an answer. `alone` says that no process can be writing it: then
    /// the feed ends at the last record instead of waiting for another.
    pub(crate) async fn open(client: &Client, wish: &Wish, alone: bool) -> Result<Self> {
        let state = client.state(&wish.key).await?;
        let after = wish
            .after
            .unwrap_or_else(|| Cursor::new(state.generation, Seq::ZERO));
        // A cursor that names nothing is an error before anything is printed.
        let probe = PageLimit {
            records: 1,
            bytes: 1,
        };
        client.store().read(&wish.key, after, probe).await?;
        let from = Cursor::new(after.generation, Seq::ZERO);
        let handle = client.attach(&wish.key).await?;
        Ok(Self {
            last: (alone && after.generation == state.generation).then_some(state.head),
            ..Self::of(handle.subscribe_after(from), after, wish.prompt)
        })
    }

    /// The lines of a subscription that stands at the first record, those after
    /// a cursor.
    pub(crate) fn of(subscription: Subscription, after: Cursor, prompt: bool) -> Self {
        Self {
            subscription,
            generation: after.generation,
            after: after.seq,
            last: None,
            prompt,
            reader: None,
            rests: false,
        }
    }

    /// The next line; `None` after the last one.
    ///
    /// # Cancel safety
    ///
    /// A future dropped before it was ready loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Line>> {
        loop {
            if self
                .last
                .is_some_and(|last| self.subscription.cursor().seq >= last)
            {
                return Ok(None);
            }
            let record = match self.subscription.next().await {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(None),
                // An older answer that had come to its end.
                Err(error) if error.kind() == ErrorKind::OldGeneration && self.rests => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            let mut line = Line::new(self.generation, &record, self.prompt);
            self.read(&record, &mut line)?;
            if record.seq > self.after {
                return Ok(Some(line));
            }
        }
    }

    fn read(&mut self, record: &Record, line: &mut Line) -> Result<()> {
        match &record.body {
            Body::Control(control) => {
                self.rests = matches!(**control, Control::Ended(_) | Control::Interrupted(_));
                if let Control::Opened(opened) = &**control {
                    self.reader = Some(interpreter(opened.dialect));
                }
            }
            Body::Event(delivered) => {
                let Some(reader) = &mut self.reader else {
                    return Err(corrupt("the first record to say what was asked"));
                };
                let event = Event::synthetic(delivered.event_name(), delivered.data.clone());
                let mut deltas = Vec::new();
                reader.read(&event, &mut deltas).map_err(|error| {
                    corrupt("events of the journal's dialect").with_source(error)
                })?;
                for delta in deltas {
                    take(delta, line);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn take(delta: Delta, line: &mut Line) {
    line.output |= delta.is_output();
    let chars = match &delta {
        Delta::Text { text, .. } | Delta::Reasoning { text, .. } | Delta::Refusal { text, .. } => {
            text.chars().count()
        }
        Delta::ToolArguments { fragment, .. } => fragment.chars().count(),
        _ => 0,
    };
    line.chars = line
        .chars
        .saturating_add(u64::try_from(chars).unwrap_or(u64::MAX));
    match delta {
        Delta::Text {
            choice: 0, text, ..
        } => line.text.push_str(&text),
        Delta::Refusal {
            choice: 0, text, ..
        } => line.refusal.push_str(&text),
        Delta::ToolCall {
            name: Some(name), ..
        } => line.tool = Some(name),
        _ => {}
    }
}

fn corrupt(expected: &str) -> Error {
    Error::new(
        ErrorKind::StoreCorrupt,
        format!("expected {expected}, but found something else"),
    )
}
