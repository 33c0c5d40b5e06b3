//! The stories: how an answer can break, and how it is healed.

mod continued;
mod held;
mod killed;
mod readers;
mod resumed;
mod retried;

use super::stage::{Performance, Stage};
use streamkeep::{Dialect, Result};

/// One way for an answer to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Story {
    Retried,
    Held,
    Resumed,
    Continued,
    Killed,
    Readers,
}

impl Story {
    /// Every story, in the order in which they are told.
    pub(super) const ALL: &'static [Self] = &[
        Self::Retried,
        Self::Held,
        Self::Resumed,
        Self::Continued,
        Self::Killed,
        Self::Readers,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Retried => "retried",
            Self::Held => "held",
            Self::Resumed => "resumed",
            Self::Continued => "continued",
            Self::Killed => "killed",
            Self::Readers => "readers",
        }
    }

    pub(super) const fn dialect(self) -> Dialect {
        match self {
            Self::Retried | Self::Held => Dialect::OpenAiChat,
            Self::Continued => Dialect::AnthropicMessages,
            Self::Resumed | Self::Killed | Self::Readers => Dialect::OpenAiResponses,
        }
    }

    /// What is done to the answer.
    pub(super) const fn plot(self) -> &'static str {
        match self {
            Self::Retried => {
                "The provider is down at first, then accepts the request and reports an overload \
                 inside the stream, both before the first token."
            }
            Self::Held => {
                "The answer is held back until it is complete, and cut in the middle. Nobody has \
                 seen any of it, so it can be asked for again."
            }
            Self::Resumed => {
                "A background response is cut in the middle. The provider replays it from the \
                 start although it was given a cursor, is cut again, and then replays no more."
            }
            Self::Continued => {
                "A live answer is cut in the middle, and this provider has no cursor. It is not \
                 asked again behind the reader's back: the interruption is a value with options."
            }
            Self::Killed => {
                "The process that writes the answer is killed with kill -9 in the middle of it. \
                 Another one goes on from the journal."
            }
            Self::Readers => {
                "Three readers of one answer that is cut on the way: a live one, a slow one that \
                 loses its connection, and a late one."
            }
        }
    }

    /// Plays it.
    ///
    /// # Errors
    ///
    /// What kept it from being played; how the answer ended is for the verdict.
    pub(super) async fn play(self, stage: &mut Stage) -> Result<Performance> {
        match self {
            Self::Retried => Box::pin(retried::play(stage)).await,
            Self::Held => Box::pin(held::play(stage)).await,
            Self::Resumed => Box::pin(resumed::play(stage)).await,
            Self::Continued => Box::pin(continued::play(stage)).await,
            Self::Killed => Box::pin(killed::play(stage)).await,
            Self::Readers => Box::pin(readers::play(stage)).await,
        }
    }
}
