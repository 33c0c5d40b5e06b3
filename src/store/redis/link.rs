//! From a request to its answer, through whatever happens to connections and
//! servers on the way, for as long as the store has patience.

use super::fault::Fault;
use super::line::Line;
use super::route::{Routes, beside};
use super::scripts::Request;
use super::target::Endpoint;
use crate::error::Result;
use redis::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// The first pause before trying again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How often a request goes where it is sent on to, before that counts as a fault.
const REDIRECTIONS: u32 = 5;

/// Replicas to wait for: how many, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replicas {
    pub(super) count: u32,
    pub(super) limit: Duration,
}

/// The way to the servers.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) routes: Routes,
    pub(super) patience: Duration,
}

/// How long a request may be tried.
#[derive(Debug)]
pub(super) struct Trying {
    deadline: Instant,
    pause: Duration,
    redirections: u32,
    /// Where a node sent the request for this once.
    once: Option<Endpoint>,
}

impl Link {
    pub(super) fn trying(&self) -> Trying {
        Trying {
            deadline: Instant::now() + self.patience,
            pause: FIRST_PAUSE,
            redirections: 0,
            once: None,
        }
    }

    /// Sends a request that may be sent again, until it is answered.
    ///
    /// # Errors
    ///
    /// [`StoreUnavailable`](crate::ErrorKind::StoreUnavailable) when there was no
    /// answer for as long as the store has patience: then it may have taken effect.
    /// Others as Redis refused it.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the request may take effect yet.
    pub(super) async fn run(&self, request: &Request) -> Result<Vec<Value>> {
        let mut trying = self.trying();
        loop {
            match self.once(&mut trying, request).await {
                Ok((answers, _)) => return Ok(answers),
                Err(fault) => trying.again(fault).await?,
            }
        }
    }

    /// A request with one answer.
    pub(super) async fn run_one(&self, request: &Request) -> Result<Value> {
        let answers = self.run(request).await?;
        Ok(answers.into_iter().next().unwrap_or(Value::Nil))
    }

    /// Sends a request once, and says over which connection it was answered.
    pub(super) async fn once(
        &self,
        trying: &mut Trying,
        request: &Request,
    ) -> Result<(Vec<Value>, Arc<Line>), Fault> {
        let once = trying.once.take();
        let asking = once.is_some();
        let deadline = trying.deadline;
        let sending = async {
            let line = match once {
                Some(endpoint) => self.routes.line_to(&endpoint).await,
                None => self.routes.line(request.slot).await,
            };
            let line = line.map_err(|fault| (fault, None))?;
            let answers = match line.send(request, asking).await {
                Err(Fault::NoScript) => line.send_in_full(request, asking).await,
                other => other,
            };
            match answers {
                Ok(answers) => Ok((answers, line)),
                Err(fault) => Err((fault, Some(line))),
            }
        };
        let late = || (Fault::Broken("none in time".to_owned()), None);
        let sent = timeout_at(deadline, sending).await;
        let (fault, line) = match sent.unwrap_or_else(|_| Err(late())) {
            Ok(answered) => return Ok(answered),
            Err(failed) => failed,
        };
        Err(self.noted(trying, fault, line.as_deref()))
    }

    /// Takes note of what a fault says about the servers.
    fn noted(&self, trying: &mut Trying, fault: Fault, line: Option<&Line>) -> Fault {
        match (&fault, line) {
            (Fault::Broken(_) | Fault::Demoted, Some(line)) => {
                self.routes.doubt(line.endpoint());
            }
            // Whoever could not be reached is not known here any more.
            (Fault::Broken(_) | Fault::Demoted, None) => self.routes.doubt_all(),
            (Fault::Elsewhere { to, once }, Some(line)) => {
                if !once {
                    self.routes.forget_map();
                }
                // Asking leave does no harm where none is needed.
                trying.once = Some(match to {
                    Endpoint::Tcp { host, port } => beside(host, *port, line.endpoint()),
                    Endpoint::Unix(_) => to.clone(),
                });
            }
            _ => {}
        }
        fault
    }

    /// Takes note that a connection is of no more use.
    pub(super) fn doubt(&self, line: &Line) {
        self.routes.doubt(line.endpoint());
    }
}

impl Trying {
    /// Waits until it is time to try again.
    ///
    /// # Errors
    ///
    /// The fault, when trying again would not help or there is no more time.
    pub(super) async fn again(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Refused(..) => return Err(fault.into_error()),
            Fault::Elsewhere { .. } if self.redirections < REDIRECTIONS => {
                self.redirections += 1;
                return Ok(());
            }
            _ => {}
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left <= self.pause {
            return Err(fault.into_error());
        }
        sleep(self.pause).await;
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
        Ok(())
    }
}
