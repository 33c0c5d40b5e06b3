//! The limits of an operation's clocks. Floor 1.

use std::time::Duration;

/// How long each clock waits. A clock that is `None` is off.
///
/// | clock | default | `REASONING` | why |
/// |---|---|---|---|
/// | `first_token` | 60 s | 10 min | chat models answer in seconds; reasoning models may be silent for minutes |
/// | `idle` | 60 s | 3 min | providers and gateways send a keep-alive every 15 to 30 s; two or more in a row missing means the peer is gone |
/// | `progress` | 3 min | 15 min | a stream that only pings is alive but useless |
/// | `finish_grace` | 2 s | 2 s | usage and end marker follow the stop reason at once, or never |
/// | `overall` | off | off | a healthy stream may be long; the caller sets a deadline where it has one |
///
/// The connect limit belongs to the transport: only it can see a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From sending the request to the first *output*. Pings, comments and
    /// lifecycle events do not stop it.
    pub first_token: Option<Duration>,
    /// Since the last byte of any kind. Runs from the first output on: before
    /// it, only `first_token` applies.
    pub idle: Option<Duration>,
    /// Since the last output. Comments, pings and keep-alives do not re-arm it.
    pub progress: Option<Duration>,
    /// After the proof of completion, how long to wait for usage and the end
    /// marker before the connection is closed.
    pub finish_grace: Duration,
    /// From the operation's start, sleeps and retries included.
    pub overall: Option<Duration>,
}

impl Timeouts {
    /// For models that answer within seconds.
    pub const CHAT: Self = Self {
        first_token: Some(Duration::from_secs(60)),
        idle: Some(Duration::from_secs(60)),
        progress: Some(Duration::from_secs(180)),
        finish_grace: Duration::from_secs(2),
        overall: None,
    };

    /// For models that think for minutes before and between outputs.
    pub const REASONING: Self = Self {
        first_token: Some(Duration::from_secs(600)),
        idle: Some(Duration::from_secs(180)),
        progress: Some(Duration::from_secs(900)),
        ..Self::CHAT
    };
}

impl Default for Timeouts {
    /// [`Timeouts::CHAT`].
    fn default() -> Self {
        Self::CHAT
    }
}
