//! An operation as its caller holds it.

use super::driver::{self, Means};
use super::live::Live;
use super::telling::Telling;
use super::{Client, Subscription};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::model::{Cursor, Generation, Key, Seq};
use crate::proto::operation::{Operation, Outcome, Recovered};
use crate::store::{JournalState, Lease};
use std::sync::Arc;
use tracing::Instrument;

/// How a handle came to its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attached {
    /// This call started it.
    Started,
    /// It was running, or resting, or finished: nothing was sent for this call.
    Existing,
    /// Its writer had died; this call took it over.
    TookOver,
}

/// An operation. Dropping the handle does not stop it: stop is
/// [`Handle::cancel`].
#[derive(Clone, Debug)]
pub struct Handle {
    client: Client,
    key: Key,
    generation: Generation,
    attached: Attached,
    live: Option<Live>,
}

impl Handle {
    /// The operation's key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Which answer this is.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// How this handle came to it.
    pub fn attached(&self) -> Attached {
        self.attached
    }

    /// Follows the answer from its first record.
    pub fn subscribe(&self) -> Subscription {
        self.subscribe_after(Cursor::new(self.generation, Seq::ZERO))
    }

    /// Follows the answer from after a cursor. Any number of readers may; a slow
    /// one costs nothing.
    pub fn subscribe_after(&self, after: Cursor) -> Subscription {
        Subscription::new(
            Arc::clone(&self.client.inner.store),
            self.key.clone(),
            after,
        )
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// A storage kind when the journal can no longer be read.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only waits.
    pub async fn outcome(&self) -> Result<Outcome> {
        if let Some(live) = &self.live
            && let Some(outcome) = live.clone().outcome().await
        {
            return Ok(outcome);
        }
        let (recovered, told) = self.recovered().await?;
        match (recovered.outcome(), told) {
            (_, Some(told)) => Err(told),
            (Some(outcome), None) => Ok(outcome),
            (None, None) => Err(Error::new(ErrorKind::Truncated, "the answer has no end")),
        }
    }

    /// Waits until nothing more comes, and folds the journal. The error is why
    /// nothing more comes, where that is not in the records: the writer died.
    pub(super) async fn recovered(&self) -> Result<(Recovered, Option<Error>)> {
        let mut records = Vec::new();
        let mut subscription = self.subscribe();
        let told = loop {
            match subscription.next().await {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break None,
                Err(error) if error.kind() == ErrorKind::Truncated => break Some(error),
                Err(error) => return Err(error),
            }
        };
        match (Recovered::fold(&records), told) {
            (Ok(recovered), told) => Ok((recovered, told)),
            // It died before its first record.
            (Err(_), Some(told)) => Err(told),
            (Err(error), None) => Err(error),
        }
    }

    /// Stops the operation: the upstream connection is closed at once, the
    /// provider is told where that is possible, nothing is retried, and what
    /// arrived is kept. Returns when the journal says so.
    ///
    /// # Errors
    ///
    /// [`Busy`](ErrorKind::Busy) when it runs in another process.
    pub async fn cancel(&self) -> Result<Outcome> {
        match &self.live {
            Some(live) => {
                live.cancel();
                self.outcome().await
            }
            None => self.client.cancel(&self.key).await,
        }
    }
}

impl Client {
    /// A handle for what is there.
    pub(super) fn attached(&self, state: &JournalState) -> Handle {
        Handle {
            live: self
                .inner
                .live
                .get(&state.key)
                .filter(|live| live.generation == state.generation),
            client: self.clone(),
            key: state.key.clone(),
            generation: state.generation,
            attached: Attached::Existing,
        }
    }

    /// Runs an operation on a task of its own.
    pub(super) fn launch(&self, operation: Operation, lease: Lease, attached: Attached) -> Handle {
        let (live, running, entry) = self.inner.live.enter(&lease.key, lease.generation);
        let means = Means {
            store: Arc::clone(&self.inner.store),
            transport: Arc::clone(&self.inner.transport),
            credentials: Arc::clone(&self.inner.credentials),
            lease_for: self.inner.lease_for,
            clock: self.inner.clock,
            gate: self.inner.gate.clone(),
            live: self.inner.live.clone(),
        };
        let handle = Handle {
            client: self.clone(),
            key: lease.key.clone(),
            generation: lease.generation,
            attached,
            live: Some(live),
        };
        let prices = self.inner.prices.clone();
        let telling = Telling::new(&operation, &lease, self.inner.clock, prices);
        let span = telling.span();
        tokio::spawn(
            async move {
                let outcome = driver::run(operation, means, telling, lease, running.cancel).await;
                // Leaves the registry first: who sees the outcome may start anew.
                drop(entry);
                running.outcome.send_replace(Some(outcome));
            }
            .instrument(span),
        );
        handle
    }
}
