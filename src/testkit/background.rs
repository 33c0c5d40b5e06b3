//! Background responses: they go on being generated while nobody reads.

use super::answer::Answer;
use super::frame::Frame;
use super::gate::Gate;
use super::listen::Tasks;
use super::speak::{Asked, responses};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Background responses a server remembers; the oldest goes first.
const MOST: usize = 1024;

/// What lets one event after the other go.
#[derive(Clone, Debug, Default)]
pub(crate) enum Pace {
    #[default]
    Free,
    Every(Duration),
    Gate(Gate),
}

impl Pace {
    pub(crate) async fn step(&self) {
        match self {
            Self::Free => {}
            Self::Every(time) => sleep(*time).await,
            Self::Gate(gate) => gate.pass().await,
        }
    }
}

/// One response, generated or being generated.
#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) asked: Asked,
    pub(crate) frames: Vec<Frame>,
    finished: Value,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Frames that exist so far.
    generated: usize,
    cancelled: bool,
}

impl Background {
    /// Waits until frame `index` exists. False if it never will.
    pub(crate) async fn ready(&self, index: usize) -> bool {
        let mut state = self.state.subscribe();
        state
            .wait_for(|s| s.generated > index || s.cancelled)
            .await
            .is_ok_and(|s| s.generated > index)
    }

    /// The response object as of now.
    pub(crate) fn snapshot(&self) -> Value {
        let state = *self.state.borrow();
        let status = if state.generated >= self.frames.len() {
            return self.finished.clone();
        } else if state.cancelled {
            "cancelled"
        } else if state.generated <= responses::QUEUED_FRAMES {
            "queued"
        } else {
            "in_progress"
        };
        responses::snapshot(&self.asked, status)
    }

    /// Stops the generation. A finished response stays finished.
    pub(crate) fn cancel(&self) {
        self.state.send_modify(|s| s.cancelled = true);
    }

    /// The frames after this sequence number, unnumbered ones behind it included.
    pub(crate) fn after(&self, sequence: Option<u64>) -> Vec<Frame> {
        let start = sequence.map_or(0, |cursor| {
            self.frames
                .iter()
                .rposition(|f| f.sequence.is_some_and(|s| s <= cursor))
                .map_or(0, |position| position.saturating_add(1))
        });
        self.frames.get(start..).unwrap_or_default().to_vec()
    }
}

/// The background responses of one server.
#[derive(Debug, Default)]
pub(crate) struct Backgrounds(Mutex<VecDeque<(String, Arc<Background>)>>);

impl Backgrounds {
    /// Starts a response. `stuck` ones stay queued for ever.
    pub(crate) fn start(
        &self,
        tasks: &Tasks,
        asked: Asked,
        answer: &Answer,
        frames: Vec<Frame>,
        pace: &Pace,
        stuck: bool,
    ) -> Arc<Background> {
        let all = frames.len();
        let generated = match pace {
            _ if stuck => responses::QUEUED_FRAMES.min(all),
            Pace::Free => all,
            Pace::Every(_) | Pace::Gate(_) => 0,
        };
        let id = responses::id(&asked);
        let background = Arc::new(Background {
            finished: responses::finished(&asked, answer),
            asked,
            frames,
            state: watch::Sender::new(State {
                generated,
                cancelled: false,
            }),
        });
        if generated < all && !stuck {
            tasks.spawn(generate(Arc::clone(&background), pace.clone()));
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.pop_front();
        }
        known.push_back((id, Arc::clone(&background)));
        background
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Background>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .find(|(known, _)| known == id)
            .map(|(_, background)| Arc::clone(background))
    }
}

async fn generate(background: Arc<Background>, pace: Pace) {
    let mut cancelled = background.state.subscribe();
    for _ in 0..background.frames.len() {
        tokio::select! {
            () = pace.step() => {}
            _ = cancelled.wait_for(|s| s.cancelled) => return,
        }
        background.state.send_modify(|s| {
            if !s.cancelled {
                s.generated = s.generated.saturating_add(1);
            }
        });
    }
}
