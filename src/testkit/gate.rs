//! A gate the test holds the key to.

use std::fmt;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

/// Lets a server go on only as far as the test permits.
///
/// A gate starts shut. Each [`permit`](Self::permit) lets that many events (or
/// whatever waits at the gate) through, in order of arrival; [`open`](Self::open)
/// lets everything through for ever. Clones are the same gate.
///
/// A gate replaces sleeping in tests: the server waits for the test's permission,
/// and the test waits for the server with [`wait_for_arrivals`](Self::wait_for_arrivals).
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    permits: Semaphore,
    arrivals: watch::Sender<u64>,
}

impl Gate {
    /// A gate that is shut.
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            permits: Semaphore::new(0),
            arrivals: watch::Sender::new(0),
        }))
    }

    /// Lets `n` more through. Permits add up when nobody waits yet.
    pub fn permit(&self, n: usize) {
        // The semaphore panics above its maximum; nobody can use that many.
        let room = Semaphore::MAX_PERMITS / 2;
        let free = room.saturating_sub(self.0.permits.available_permits());
        self.0.permits.add_permits(n.min(free));
    }

    /// Lets everything through, now and for ever.
    pub fn open(&self) {
        self.0.permits.close();
    }

    /// Whether [`open`](Self::open) was called.
    pub fn is_open(&self) -> bool {
        self.0.permits.is_closed()
    }

    /// How many have come to the gate so far, let through or not.
    pub fn arrivals(&self) -> u64 {
        *self.0.arrivals.borrow()
    }

    /// Waits until `n` have come to the gate since it was made.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn wait_for_arrivals(&self, n: u64) {
        let mut seen = self.0.arrivals.subscribe();
        // An error would mean that the sender is gone, and `self` holds it.
        let _ = seen.wait_for(|count| *count >= n).await;
    }

    /// Comes to the gate and waits to be let through.
    ///
    /// # Cancel safety
    ///
    /// A future dropped while waiting takes no permit; its arrival stays counted.
    pub async fn pass(&self) {
        self.0
            .arrivals
            .send_modify(|count| *count = count.saturating_add(1));
        if let Ok(permit) = self.0.permits.acquire().await {
            permit.forget();
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("open", &self.is_open())
            .field("permits", &self.0.permits.available_permits())
            .field("arrivals", &self.arrivals())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn permits_add_up_and_each_lets_one_through() {
        let gate = Gate::new();
        gate.permit(2);
        gate.pass().await;
        gate.pass().await;
        let third = tokio::spawn({
            let gate = gate.clone();
            async move { gate.pass().await }
        });
        gate.wait_for_arrivals(3).await;
        assert!(!third.is_finished());
        gate.permit(1);
        third.await.unwrap();
    }

    #[tokio::test]
    async fn an_open_gate_holds_nobody() {
        let gate = Gate::new();
        gate.open();
        gate.permit(usize::MAX);
        for _ in 0..100 {
            gate.pass().await;
        }
        assert_eq!(gate.arrivals(), 100);
    }
}
