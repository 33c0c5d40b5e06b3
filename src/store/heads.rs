//! Who waits for which journal. Shared by every backend.

use crate::proto::model::Key;
use std::collections::HashMap;
#[cfg(feature = "redis")]
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::watch;

/// The watchers of a store, by key. For store authors.
///
/// Holds one entry for each key that somebody watches now, and nothing for any
/// other: an entry goes with its last watcher.
#[derive(Default)]
pub struct Heads(Arc<Registry>);

#[derive(Default)]
struct Registry {
    slots: Mutex<HashMap<Key, Slot>>,
    #[cfg(feature = "redis")]
    changes: Option<Changes>,
}

/// For a store that has to ask for wake-ups: which keys somebody began or ceased to
/// watch since it looked last.
#[cfg(feature = "redis")]
#[derive(Default)]
struct Changes {
    keys: Mutex<HashSet<Key>>,
    come: tokio::sync::Notify,
}

struct Slot {
    wake: watch::Sender<u64>,
    interest: Weak<Interest>,
}

/// Shared by the watchers of one slot; the last one to go takes the slot along.
struct Interest {
    key: Key,
    registry: Weak<Registry>,
}

impl Heads {
    /// With no watcher.
    pub fn new() -> Self {
        Self::default()
    }

    /// With no watcher; takes note of who comes and goes.
    #[cfg(feature = "redis")]
    pub(super) fn with_changes() -> Self {
        Self(Arc::new(Registry {
            changes: Some(Changes::default()),
            ..Registry::default()
        }))
    }

    /// Waits until somebody came or went since [`take_changes`](Self::take_changes).
    ///
    /// # Cancel safety
    ///
    /// Waits only.
    #[cfg(feature = "redis")]
    pub(super) async fn changed(&self) {
        let Some(changes) = &self.0.changes else {
            return std::future::pending().await;
        };
        loop {
            let come = changes.come.notified();
            if !changes.lock().is_empty() {
                return;
            }
            come.await;
        }
    }

    /// The keys that somebody began or ceased to watch, and whether one is watched
    /// now.
    #[cfg(feature = "redis")]
    pub(super) fn take_changes(&self) -> Vec<(Key, bool)> {
        let Some(changes) = &self.0.changes else {
            return Vec::new();
        };
        let keys = std::mem::take(&mut *changes.lock());
        let slots = self.0.lock();
        let watched = |key: &Key| {
            let slot = slots.get(key);
            slot.is_some_and(|slot| slot.interest.strong_count() > 0)
        };
        keys.into_iter()
            .map(|key| {
                let watched = watched(&key);
                (key, watched)
            })
            .collect()
    }

    /// The keys that are watched.
    #[cfg(feature = "redis")]
    pub(super) fn keys(&self) -> Vec<Key> {
        self.0.lock().keys().cloned().collect()
    }

    /// A watcher of this key, woken by every later [`wake`](Self::wake).
    pub fn watch(&self, key: &Key) -> HeadWatch {
        let mut slots = self.0.lock();
        if let Some(slot) = slots.get(key)
            && let Some(interest) = slot.interest.upgrade()
        {
            return HeadWatch {
                woken: slot.wake.subscribe(),
                _interest: interest,
            };
        }
        let interest = Arc::new(Interest {
            key: key.clone(),
            registry: Arc::downgrade(&self.0),
        });
        let (wake, woken) = watch::channel(0);
        let slot = Slot {
            wake,
            interest: Arc::downgrade(&interest),
        };
        slots.insert(key.clone(), slot);
        drop(slots);
        self.0.note(key);
        HeadWatch {
            woken,
            _interest: interest,
        }
    }

    /// Wakes every watcher of this key.
    pub fn wake(&self, key: &Key) {
        if let Some(slot) = self.0.lock().get(key) {
            slot.wake
                .send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// How many keys are watched.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether nobody watches anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Heads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heads").field("keys", &self.len()).finish()
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Slot>> {
        // Nothing that runs under the lock can leave the map half changed.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "redis")]
    fn note(&self, key: &Key) {
        if let Some(changes) = &self.changes {
            changes.lock().insert(key.clone());
            changes.come.notify_one();
        }
    }

    #[cfg(not(feature = "redis"))]
    #[expect(clippy::unused_self, reason = "nobody asks who comes and goes")]
    fn note(&self, _: &Key) {}
}

#[cfg(feature = "redis")]
impl Changes {
    fn lock(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let Some(registry) = self.registry.upgrade() else {
            return;
        };
        let mut slots = registry.lock();
        // Between the last watcher's leaving and this line somebody may have come
        // and put a new slot in its place: that one has its own interest.
        let abandoned = slots
            .get(&self.key)
            .is_some_and(|slot| slot.interest.strong_count() == 0);
        if abandoned {
            slots.remove(&self.key);
            drop(slots);
            registry.note(&self.key);
        }
    }
}

/// Wakes a reader when there may be something new. Only a hint: what is true
/// stands in the store.
#[derive(Clone)]
pub struct HeadWatch {
    woken: watch::Receiver<u64>,
    _interest: Arc<Interest>,
}

impl HeadWatch {
    /// Waits for the next wake-up. Returns at once if one came since the last
    /// call. Never returns when the store is gone.
    ///
    /// # Cancel safety
    ///
    /// A future dropped before it was ready loses no wake-up.
    pub async fn changed(&mut self) {
        if self.woken.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for HeadWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadWatch").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    fn is_woken(watch: &mut HeadWatch) -> bool {
        let changed = pin!(watch.changed());
        changed.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_watcher_is_woken_for_its_key_only_and_wake_ups_merge() {
        let heads = Heads::new();
        let (mut a, mut b) = (heads.watch(&key("a")), heads.watch(&key("b")));
        assert!(!is_woken(&mut a));
        heads.wake(&key("a"));
        heads.wake(&key("a"));
        assert!(is_woken(&mut a));
        assert!(!is_woken(&mut a));
        assert!(!is_woken(&mut b));
    }

    #[test]
    fn an_entry_goes_with_its_last_watcher() {
        let heads = Heads::new();
        let first = heads.watch(&key("a"));
        let second = first.clone();
        let third = heads.watch(&key("a"));
        drop((first, third));
        assert_eq!(heads.len(), 1);
        drop(second);
        assert!(heads.is_empty());
        heads.wake(&key("a"));
        assert!(heads.is_empty());
    }

    #[test]
    fn a_watcher_that_outlives_its_store_waits_for_ever() {
        let heads = Heads::new();
        let mut watch = heads.watch(&key("a"));
        drop(heads);
        assert!(!is_woken(&mut watch));
    }

    #[test]
    fn coming_and_going_on_many_threads_leaves_nothing_and_loses_no_wake_up() {
        let heads = Heads::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let mut watch = heads.watch(&key("a"));
                        heads.wake(&key("a"));
                        assert!(is_woken(&mut watch));
                    }
                });
            }
        });
        assert!(heads.is_empty());
    }
}
