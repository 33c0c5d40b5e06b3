//! A store that fails on purpose. For tests.

use super::{
    Batch, Claim, Claimed, Collected, Durability, HeadWatch, JournalState, Lease, Page, PageLimit,
    Store,
};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::model::{Cursor, Key, Seq, WallTime};
use futures_core::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// How an append fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Before it took effect: nothing of it is there.
    Refused(ErrorKind),
    /// After it took effect: all of it is there, and the writer does not know.
    AnswerLost(ErrorKind),
}

/// A store around another one that fails the appends it was told to, and can hold
/// appends at a gate. Everything else goes through.
///
/// Unstable, as all of the `conformance` feature.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    plan: Mutex<Plan>,
    yields: usize,
}

#[derive(Debug, Default)]
struct Plan {
    appends: u64,
    faults: BTreeMap<u64, Fault>,
    gate: Option<(Side, watch::Receiver<bool>, watch::Sender<u64>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// Holds every append that comes while it is shut.
///
/// It opens when [`open`](Self::open) is called or it is dropped.
#[derive(Debug)]
pub struct AppendGate {
    open: watch::Sender<bool>,
    arrived: watch::Receiver<u64>,
}

impl AppendGate {
    /// Waits until this many appends stand, or stood, at the gate.
    ///
    /// # Cancel safety
    ///
    /// Waits only.
    pub async fn arrived(&mut self, appends: u64) {
        // The sender lives in the store; when that is gone nobody can arrive.
        if self.arrived.wait_for(|n| *n >= appends).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Lets everybody through, now and later.
    pub fn open(self) {
        self.open.send_replace(true);
    }
}

impl FaultyStore {
    /// Around this store, without a fault.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            plan: Mutex::default(),
            yields: 0,
        }
    }

    /// Lets other tasks run this many times before and after each call, so that
    /// calls interleave as they would with a store that is far away.
    pub fn yielding(mut self, times: usize) -> Self {
        self.yields = times;
        self
    }

    /// Makes the append with this number fail, counted from 1 over all journals
    /// since the store was made.
    pub fn fail_append(&self, number: u64, fault: Fault) {
        self.plan().faults.insert(number, fault);
    }

    /// Makes the next append fail.
    pub fn fail_next_append(&self, fault: Fault) {
        let mut plan = self.plan();
        let next = plan.appends.saturating_add(1);
        plan.faults.insert(next, fault);
    }

    /// How many appends were asked for.
    pub fn appends(&self) -> u64 {
        self.plan().appends
    }

    /// Holds appends before they take effect, until the gate opens.
    pub fn hold_appends(&self) -> AppendGate {
        self.hold(Side::Before)
    }

    /// Holds the answers of appends that took effect, until the gate opens.
    pub fn hold_answers(&self) -> AppendGate {
        self.hold(Side::After)
    }

    fn hold(&self, side: Side) -> AppendGate {
        let (open, wait) = watch::channel(false);
        let (arrive, arrived) = watch::channel(0);
        self.plan().gate = Some((side, wait, arrive));
        AppendGate { open, arrived }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn stand_at_gate(&self, here: Side) {
        let wait = match &self.plan().gate {
            Some((side, wait, arrive)) if *side == here => {
                arrive.send_modify(|n| *n = n.saturating_add(1));
                Some(wait.clone())
            }
            _ => None,
        };
        if let Some(mut wait) = wait {
            // A gate that was dropped is open.
            let _ = wait.wait_for(|open| *open).await;
        }
    }

    async fn step_aside(&self) {
        for _ in 0..self.yields {
            tokio::task::yield_now().await;
        }
    }

    async fn through<T>(&self, call: BoxFuture<'_, Result<T>>) -> Result<T> {
        self.step_aside().await;
        let answer = call.await;
        self.step_aside().await;
        answer
    }

    async fn append_with_faults(&self, lease: &Lease, batch: Batch) -> Result<Seq> {
        let fault = {
            let mut plan = self.plan();
            plan.appends = plan.appends.saturating_add(1);
            let number = plan.appends;
            plan.faults.remove(&number)
        };
        self.stand_at_gate(Side::Before).await;
        if let Some(Fault::Refused(kind)) = fault {
            return Err(Error::new(
                kind,
                "expected the append to be taken, but it was refused on purpose",
            ));
        }
        let answer = self.through(self.inner.append(lease, batch)).await;
        self.stand_at_gate(Side::After).await;
        match fault {
            Some(Fault::AnswerLost(kind)) => answer.and(Err(Error::new(
                kind,
                "expected an answer to the append, but it was lost on purpose",
            ))),
            _ => answer,
        }
    }
}

impl Store for FaultyStore {
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(self.through(self.inner.claim(claim)))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, until: WallTime) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.through(self.inner.renew(lease, until)))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.through(self.inner.release(lease)))
    }

    fn append<'a>(&'a self, lease: &'a Lease, batch: Batch) -> BoxFuture<'a, Result<Seq>> {
        Box::pin(self.append_with_faults(lease, batch))
    }

    fn read<'a>(
        &'a self,
        key: &'a Key,
        after: Cursor,
        limit: PageLimit,
    ) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.through(self.inner.read(key, after, limit)))
    }

    fn state<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<JournalState>> {
        Box::pin(self.through(self.inner.state(key)))
    }

    fn list<'a>(
        &'a self,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<JournalState>>> {
        Box::pin(self.through(self.inner.list(after, limit)))
    }

    fn collect(&self, now: WallTime) -> BoxFuture<'_, Result<Collected>> {
        Box::pin(self.through(self.inner.collect(now)))
    }

    fn delete<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.through(self.inner.delete(key)))
    }

    fn watch(&self, key: &Key) -> HeadWatch {
        self.inner.watch(key)
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }
}
