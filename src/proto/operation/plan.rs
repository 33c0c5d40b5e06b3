//! What an operation is to do, as plain values.

use super::route::{Route, route};
use crate::proto::dialect::Request;
use crate::proto::model::{Generation, Key};
use crate::proto::retry::RetryPolicy;
use crate::proto::timeouts::Timeouts;
use std::time::Duration;

/// Everything one operation needs to know from its caller.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The operation's key; also sent upstream with the request and its
    /// repetitions, but not with a resume, a poll or a continuation.
    pub key: Key,
    /// Which answer to the operation this is. A later one is another request for
    /// whoever looks at keys upstream.
    pub generation: Generation,
    /// What is asked, and of whom.
    pub route: Route,
    /// Who may take over before output was committed, in order (default: none).
    pub fallbacks: Vec<Route>,
    /// How often to try before output was committed.
    pub retry: RetryPolicy,
    /// Whether a request whose outcome is unknown may be sent again. Providers
    /// do not deduplicate, so a retry may be billed twice; it is on by default
    /// because the caller sees one answer either way.
    pub retry_unknown: bool,
    /// How to go on through the provider's cursor.
    pub resume: ResumePolicy,
    /// The clocks.
    pub timeouts: Timeouts,
    /// When the answer is first shown.
    pub hold: Hold,
    /// How long the first output may take before the same request is sent a
    /// second time beside the first (default: never). See [`Plan::may_hedge`].
    pub hedge_after: Option<Duration>,
    /// The caller's own version of the prompt, for records (default: none).
    pub prompt_version: Option<String>,
    /// The bounds.
    pub limits: Limits,
}

impl Plan {
    /// What is asked, of the first route.
    pub fn request(&self) -> &Request {
        self.route.request()
    }

    /// Whether a second request beside a silent first one does no harm beyond
    /// its cost: the caller allows a repetition whose outcome is unknown, and
    /// the provider does not keep the run going when its connection is closed.
    pub fn may_hedge(&self) -> bool {
        self.retry_unknown && !self.request().is_background()
    }

    /// The route with this number; the first is 0.
    pub(super) fn route(&self, number: usize) -> &Route {
        route(&self.route, &self.fallbacks, number)
    }

    /// The key that goes upstream with every attempt of this answer.
    pub(super) fn upstream_key(&self) -> String {
        if self.generation == Generation::FIRST {
            self.key.to_string()
        } else {
            format!("{}-{}", self.key, self.generation)
        }
    }

    /// A plan with the defaults of every part.
    pub fn new(key: Key, request: Request) -> Self {
        Self {
            key,
            generation: Generation::FIRST,
            route: Route::unnamed(request),
            fallbacks: Vec::new(),
            retry: RetryPolicy::default(),
            retry_unknown: true,
            resume: ResumePolicy::default(),
            timeouts: Timeouts::default(),
            hold: Hold::default(),
            hedge_after: None,
            prompt_version: None,
            limits: Limits::default(),
        }
    }
}

/// How to go on through the provider's own cursor after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePolicy {
    /// Resumes in a row that brought nothing new before giving up (default 4).
    /// A resume that brings output starts the count again.
    pub max_in_vain: u32,
    /// Resumes in all (default 32): a stream that is cut after every event must
    /// end some time.
    pub max_total: u32,
    /// First pause between two polls of a stored response (default 1 s); doubles
    /// up to eight times itself.
    pub poll_interval: Duration,
    /// How long to poll (default 10 min: OpenAI keeps a background response for
    /// about that long).
    pub poll_for: Duration,
}

impl Default for ResumePolicy {
    fn default() -> Self {
        Self {
            max_in_vain: 4,
            max_total: 32,
            poll_interval: Duration::from_secs(1),
            poll_for: Duration::from_secs(600),
        }
    }
}

/// When an answer is first shown to readers. Until then any failure may restart
/// it cleanly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Live: from the first output on.
    #[default]
    None,
    /// After this many tokens of output, or this long after the first output,
    /// whichever comes first. Tokens are estimated at four characters each.
    Until {
        /// Tokens of output, estimated.
        tokens: u32,
        /// Since the first output.
        time: Duration,
    },
    /// When the answer is complete.
    UntilComplete,
}

/// The bounds of one operation. Every one of them ends in a clear error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest single event, in bytes (default 16 MiB: a whole image in one
    /// event fits, an endless line does not).
    pub max_event_bytes: usize,
    /// All events of an answer together, in bytes of data (default 64 MiB).
    pub max_answer_bytes: usize,
    /// Event data waiting for the store before reading the upstream pauses
    /// (default 1 MiB).
    pub max_waiting_bytes: usize,
    /// How much of an error body is read (default 64 KiB).
    pub max_error_body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_event_bytes: 16 << 20,
            max_answer_bytes: 64 << 20,
            max_waiting_bytes: 1 << 20,
            max_error_body: 64 << 10,
        }
    }
}
