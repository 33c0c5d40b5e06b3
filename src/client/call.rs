//! A call in the making.

use super::{Attached, Client, Handle, telling};
use crate::error::Result;
use crate::proto::dialect::Request;
use crate::proto::journal::{End, Status};
use crate::proto::model::Key;
use crate::proto::operation::{Hold, Limits, Operation, Plan, ResumePolicy, Route};
use crate::proto::retry::RetryPolicy;
use crate::proto::timeouts::Timeouts;
use crate::store::{Claim, Claimed, Intent};

/// A call in the making: what to ask, under which key, with which limits.
#[derive(Debug)]
pub struct Call {
    client: Client,
    plan: Plan,
}

impl Call {
    pub(super) fn new(client: Client, request: Request) -> Self {
        let plan = client.inner.defaults.plan(mint(), request);
        Self { client, plan }
    }

    /// The idempotency key. The same key and request again attaches to the
    /// answer that is there, running or finished; the same key with another
    /// request is an error. A key is minted when none is given.
    pub fn key(mut self, key: Key) -> Self {
        self.plan.key = key;
        self
    }

    /// The key it will have, minted or given.
    pub fn its_key(&self) -> &Key {
        &self.plan.key
    }

    /// The name of the first route, for records and metrics, and for
    /// [`credential_for`](super::ClientBuilder::credential_for); by default the
    /// host of its URL.
    pub fn route_name(mut self, name: impl Into<String>) -> Self {
        self.plan.route = Route::new(name, self.plan.request().clone());
        self
    }

    /// One more route that may take over before output was committed, behind
    /// those that were added before.
    pub fn fallback(mut self, route: Route) -> Self {
        self.plan.fallbacks.push(route);
        self
    }

    /// The caller's own version of the prompt, for records and metrics. The
    /// prompt itself is never told of.
    pub fn prompt_version(mut self, version: impl Into<String>) -> Self {
        self.plan.prompt_version = Some(version.into());
        self
    }

    /// How often to try before output was committed.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.plan.retry = retry;
        self
    }

    /// Whether a request whose outcome is unknown may be sent again (default:
    /// yes). It may be billed twice; the caller sees one answer either way.
    pub fn retry_unknown(mut self, allowed: bool) -> Self {
        self.plan.retry_unknown = allowed;
        self
    }

    /// How to go on through the provider's cursor.
    pub fn resume(mut self, resume: ResumePolicy) -> Self {
        self.plan.resume = resume;
        self
    }

    /// The clocks.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.plan.timeouts = timeouts;
        self
    }

    /// When the answer is first shown.
    pub fn hold(mut self, hold: Hold) -> Self {
        self.plan.hold = hold;
        self
    }

    /// The bounds.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.plan.limits = limits;
        self
    }

    /// Starts the operation, or attaches to the one that is there.
    ///
    /// A key whose answer failed before anything was shown is free again: the
    /// call starts a new generation under it. A writer that died is taken over:
    /// its answer is resumed through the provider's cursor, restarted if nothing
    /// was ever shown, or ended truthfully as an interruption.
    ///
    /// # Errors
    ///
    /// [`KeyConflict`](crate::ErrorKind::KeyConflict) when the key was used with
    /// another request; a storage kind when the claim failed. What the provider
    /// does is not an error here: it is the [`Outcome`](crate::proto::operation::Outcome).
    ///
    /// # Cancel safety
    ///
    /// Once the claim is granted the operation runs on its own; dropping this
    /// future before that starts nothing.
    pub async fn start(self) -> Result<Handle> {
        let handle = self.begin().await?;
        telling::called(handle.attached(), handle.key().as_str());
        Ok(handle)
    }

    async fn begin(self) -> Result<Handle> {
        let Self { client, plan } = self;
        let state = match client.claim(&plan, Intent::Create).await? {
            Claimed::Granted(lease, _) => return Ok(client.launch_new(plan, lease)),
            Claimed::Existing(state) => state,
        };
        let now = super::wall_clock();
        match state.status {
            Status::Ended(End::Failed) => {
                match client.claim(&plan, Intent::Regenerate).await? {
                    Claimed::Granted(lease, _) => Ok(client.launch_new(plan, lease)),
                    // Somebody else was quicker: theirs is the one.
                    Claimed::Existing(state) => Ok(client.attached(&state)),
                }
            }
            Status::Running if !state.is_held(now) => client.take_over(plan, &state).await,
            Status::Running | Status::Interrupted | Status::Ended(_) => Ok(client.attached(&state)),
        }
    }
}

impl Client {
    /// Asks the store for the right to write under this plan's key.
    pub(super) async fn claim(&self, plan: &Plan, intent: Intent) -> Result<Claimed> {
        let claim = Claim {
            key: plan.key.clone(),
            fingerprint: plan.request().fingerprint(),
            intent,
            now: super::wall_clock(),
            lease_for: self.inner.lease_for,
            keep_for: self.inner.keep_for,
        };
        self.inner.store.claim(claim).await
    }

    /// Runs a new operation under a granted lease.
    pub(super) fn launch_new(&self, mut plan: Plan, lease: crate::store::Lease) -> Handle {
        plan.generation = lease.generation;
        plan.hedge_after = self.inner.gate.hedge_delay(&plan.route.guarded_as());
        let operation = Operation::new(plan, self.inner.clock.now(), rand::random());
        self.launch(operation, lease, Attached::Started)
    }
}

/// A new key: time-ordered and unguessable (UUID version 7, RFC 9562).
fn mint() -> Key {
    let id = uuid::Uuid::now_v7().to_string();
    Key::new(id).unwrap_or_else(|_| unreachable!("a UUID is visible ASCII"))
}
