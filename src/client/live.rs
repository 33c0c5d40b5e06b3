//! The operations that run in this process.

use crate::proto::model::{Generation, Key};
use crate::proto::operation::Outcome;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// One running operation, as others in this process see it.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) generation: Generation,
    cancel: Arc<watch::Sender<bool>>,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl Live {
    pub(super) fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    /// The outcome; `None` if the driver ended without one, which only a
    /// runtime that shuts down can cause.
    pub(super) async fn outcome(mut self) -> Option<Outcome> {
        self.outcome.wait_for(Option::is_some).await.ok()?.clone()
    }
}

/// What is needed to run an operation so that others can see it.
pub(super) struct Running {
    pub(super) cancel: watch::Receiver<bool>,
    pub(super) outcome: watch::Sender<Option<Outcome>>,
}

/// The operations that run in this process, by key. Bounded by what runs: an
/// entry goes with its driver.
#[derive(Clone, Debug, Default)]
pub(super) struct Registry(Arc<Mutex<HashMap<Key, Live>>>, Arc<Count>);

#[derive(Debug)]
struct Count(watch::Sender<usize>);

impl Default for Count {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

/// Something that runs, for as long as this is held.
#[derive(Debug)]
pub(super) struct Busy(Arc<Count>);

impl Busy {
    fn new(count: &Arc<Count>) -> Self {
        count
            .0
            .send_modify(|running| *running = running.saturating_add(1));
        Self(Arc::clone(count))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0
            .0
            .send_modify(|running| *running = running.saturating_sub(1));
    }
}

impl Registry {
    pub(super) fn enter(&self, key: &Key, generation: Generation) -> (Live, Running, Entry) {
        let cancel = watch::Sender::new(false);
        let outcome = watch::Sender::new(None);
        let live = Live {
            generation,
            outcome: outcome.subscribe(),
            cancel: Arc::new(cancel),
        };
        let running = Running {
            cancel: live.cancel.subscribe(),
            outcome,
        };
        self.lock().insert(key.clone(), live.clone());
        let entry = Entry {
            registry: self.clone(),
            key: key.clone(),
            generation,
            _busy: self.errand(),
        };
        (live, running, entry)
    }

    pub(super) fn get(&self, key: &Key) -> Option<Live> {
        self.lock().get(key).cloned()
    }

    /// Something to wait for that may outlive its operation, such as a message
    /// to the provider.
    pub(super) fn errand(&self) -> Busy {
        Busy::new(&self.1)
    }

    pub(super) async fn idle(&self) {
        let mut running = self.1.0.subscribe();
        // The sender is in `self`, so this cannot fail while we wait.
        let _ = running.wait_for(|running| *running == 0).await;
    }

    /// A panic while the lock was held would have been in `HashMap` itself; the
    /// map is whole either way.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Live>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves the registry when the driver ends, however it ends.
pub(super) struct Entry {
    registry: Registry,
    key: Key,
    generation: Generation,
    /// Given back after the entry is gone.
    _busy: Busy,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut live = self.registry.lock();
        if live
            .get(&self.key)
            .is_some_and(|live| live.generation == self.generation)
        {
            live.remove(&self.key);
        }
    }
}
