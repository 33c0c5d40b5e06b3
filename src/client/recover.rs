//! Recovering an answer by its key, from any process.
//!
//! A journal keeps the request, not the policies of the call that began it, so
//! what is recovered by key alone runs with the default ones.

use super::{Attached, Client, Handle, wall_clock};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::dialect::ContinuationForm;
use crate::proto::journal::Status;
use crate::proto::model::{Cursor, Key, Seq};
use crate::proto::operation::{Operation, Outcome, Plan, Recovered, Recovery};
use crate::store::{Claimed, Intent, JournalState, PageLimit};

impl Client {
    /// Attaches to an answer: nothing is sent.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound), [`Expired`](ErrorKind::Expired), or a
    /// storage kind.
    pub async fn attach(&self, key: &Key) -> Result<Handle> {
        let state = self.state(key).await?;
        Ok(self.attached(&state))
    }

    /// Goes on with an interrupted answer through the provider's own cursor:
    /// nothing is generated twice.
    ///
    /// # Errors
    ///
    /// [`NotPossible`](ErrorKind::NotPossible) when the provider offered no
    /// cursor or the answer has ended; [`Busy`](ErrorKind::Busy) when somebody
    /// writes it; a storage kind.
    pub async fn resume(&self, key: &Key) -> Result<Handle> {
        self.recover(key, Recovery::Resume).await
    }

    /// Asks the model to go on from the partial answer. This is a new request,
    /// billed as one; the seam is a record of the journal.
    ///
    /// `form` is chosen by the model's name when it is `None`.
    ///
    /// # Errors
    ///
    /// As [`Client::resume`]; [`NotPossible`](ErrorKind::NotPossible) says why a
    /// partial answer cannot be continued (a tool call had started, thinking
    /// only, constrained JSON, a dialect without a form for it).
    pub async fn continue_answer(
        &self,
        key: &Key,
        form: Option<ContinuationForm>,
    ) -> Result<Handle> {
        self.recover(key, Recovery::Continue(form)).await
    }

    /// Asks for a new answer under the same key. The old one is kept as an older
    /// generation, and its readers are told. Billed in full.
    ///
    /// # Errors
    ///
    /// [`Busy`](ErrorKind::Busy) when somebody writes the current one; a storage
    /// kind.
    pub async fn regenerate(&self, key: &Key) -> Result<Handle> {
        let state = self.state(key).await?;
        let recovered = self.fold(&state).await?;
        let plan = self.inner.defaults.applied(recovered.plan());
        match self.claim(&plan, Intent::Regenerate).await? {
            Claimed::Granted(lease, _) => Ok(self.launch_new(plan, lease)),
            Claimed::Existing(state) => Err(busy(&state)),
        }
    }

    /// Stops an operation by key; see [`Handle::cancel`]. One whose writer died
    /// is ended as cancelled; one that has ended stays as it is.
    ///
    /// # Errors
    ///
    /// [`Busy`](ErrorKind::Busy) when it runs in another process: only that can
    /// close its connection.
    pub async fn cancel(&self, key: &Key) -> Result<Outcome> {
        if let Some(live) = self.inner.live.get(key) {
            live.cancel();
            if let Some(outcome) = live.outcome().await {
                return Ok(outcome);
            }
        }
        let state = self.state(key).await?;
        let recovered = self.fold(&state).await?;
        if let (true, Some(outcome)) = (state.status.is_final(), recovered.outcome()) {
            return Ok(outcome);
        }
        let handle = self.launch_recovery(recovered, Recovery::Cancel).await?;
        handle.outcome().await
    }

    async fn recover(&self, key: &Key, recovery: Recovery) -> Result<Handle> {
        let state = self.state(key).await?;
        let recovered = self.fold(&state).await?;
        self.launch_recovery(recovered, recovery).await
    }

    async fn launch_recovery(&self, recovered: Recovered, recovery: Recovery) -> Result<Handle> {
        // Whether it can be done is asked before anything is claimed.
        recovered.check(recovery)?;
        let plan = self.inner.defaults.applied(recovered.plan());
        match self.claim(&plan, Intent::TakeOver).await? {
            Claimed::Existing(state) => Err(busy(&state)),
            Claimed::Granted(lease, granted) => {
                // Somebody may have written between the fold and the claim.
                let recovered = if granted.head == recovered.head() {
                    recovered
                } else {
                    self.fold(&granted).await?
                };
                self.go_on(plan, recovered, recovery, lease).await
            }
        }
    }

    /// Takes an operation over whose writer died, and does what is right for it.
    pub(super) async fn take_over(&self, plan: Plan, state: &JournalState) -> Result<Handle> {
        match self.claim(&plan, Intent::TakeOver).await? {
            Claimed::Existing(_) => Ok(self.attached(state)),
            Claimed::Granted(lease, granted) if granted.head == Seq::ZERO => {
                // It died before its first record.
                Ok(self.launch_new(plan, lease))
            }
            Claimed::Granted(lease, granted) => {
                let recovered = self.fold(&granted).await?;
                let recovery = recovered.best_recovery(plan.retry_unknown);
                self.go_on(plan, recovered, recovery, lease).await
            }
        }
    }

    async fn go_on(
        &self,
        mut plan: Plan,
        recovered: Recovered,
        recovery: Recovery,
        lease: crate::store::Lease,
    ) -> Result<Handle> {
        plan.generation = lease.generation;
        let now = self.inner.clock.now();
        match Operation::recover(plan, recovered, recovery, now, rand::random()) {
            Ok(operation) => Ok(self.launch(operation, lease, Attached::TookOver)),
            Err(error) => {
                self.inner.store.release(&lease).await?;
                Err(error)
            }
        }
    }

    /// Folds the current generation of a journal.
    async fn fold(&self, state: &JournalState) -> Result<Recovered> {
        let mut records = Vec::new();
        let mut after = Cursor::new(state.generation, Seq::ZERO);
        loop {
            let page = self
                .inner
                .store
                .read(&state.key, after, PageLimit::default())
                .await?;
            let Some(last) = page.records.last() else {
                break;
            };
            after.seq = last.seq;
            records.extend(page.records);
        }
        Recovered::fold(&records)
    }
}

fn busy(state: &JournalState) -> Error {
    let message = match state.status {
        Status::Ended(end) => format!(
            "this answer has ended ({}); regenerate makes a new one",
            end.as_str()
        ),
        Status::Running | Status::Interrupted => {
            let left = state.leased_until.unwrap_or_default().since(wall_clock());
            format!(
                "another process is writing this answer; its lease runs for {} ms more unless it is renewed",
                left.as_millis()
            )
        }
    };
    let kind = if state.status.is_final() {
        ErrorKind::NotPossible
    } else {
        ErrorKind::Busy
    };
    Error::new(kind, message)
}
