//! The budgets of one process: one per endpoint, and one for all.

use super::{Budget, BudgetConfig, BudgetSnapshot, Cost, Exhausted, Scope};
use crate::proto::endpoints::Endpoints;
use crate::proto::model::{EndpointId, Moment};

/// One budget per endpoint and one for the process. A spend has to pass both and
/// takes from both, or from neither.
#[derive(Clone, Debug)]
pub struct Budgets {
    config: BudgetConfig,
    endpoints: Endpoints<Budget>,
    process: Budget,
}

/// Where the budgets stand, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetsSnapshot {
    /// That of the process.
    pub process: BudgetSnapshot,
    /// Those of the endpoints, by name.
    pub endpoints: Vec<(EndpointId, BudgetSnapshot)>,
}

impl Budgets {
    /// Full ones, for at most this many endpoints. When there are more, the one
    /// that was used longest ago is forgotten and begins again with a full
    /// budget; that of the process keeps what it counted.
    pub fn new(endpoint: BudgetConfig, process: BudgetConfig, max_endpoints: usize) -> Self {
        Self {
            config: endpoint,
            endpoints: Endpoints::new(max_endpoints),
            process: Budget::new(process),
        }
    }

    /// Counts a first attempt.
    pub fn request(&mut self, now: Moment, endpoint: &EndpointId) {
        self.process.request(now);
        if let Some(own) = self.of(now, endpoint) {
            own.request(now);
        }
    }

    /// Counts a success.
    pub fn success(&mut self, now: Moment, endpoint: &EndpointId) {
        self.process.success();
        if let Some(own) = self.of(now, endpoint) {
            own.success();
        }
    }

    /// Pays for one more attempt at this endpoint, or takes nothing. Ask before
    /// the wait, so that an operation that may not try again says so at once.
    ///
    /// # Errors
    ///
    /// The budget and the part of it that has too little.
    pub fn spend(
        &mut self,
        now: Moment,
        endpoint: &EndpointId,
        cost: Cost,
    ) -> Result<(), Exhausted> {
        let told = |scope| {
            move |(which, retry_after)| Exhausted {
                scope,
                which,
                retry_after,
            }
        };
        let process = self.process.check(now, cost);
        if let Some(own) = self.of(now, endpoint) {
            own.check(now, cost).map_err(told(Scope::Endpoint))?;
            process.map_err(told(Scope::Process))?;
            own.take(now, cost);
        } else {
            process.map_err(told(Scope::Process))?;
        }
        self.process.take(now, cost);
        Ok(())
    }

    /// Where they stand.
    pub fn snapshot(&mut self, now: Moment) -> BudgetsSnapshot {
        BudgetsSnapshot {
            process: self.process.snapshot(now),
            endpoints: self
                .endpoints
                .iter_mut()
                .map(|(id, own)| (id.clone(), own.snapshot(now)))
                .collect(),
        }
    }

    fn of(&mut self, now: Moment, endpoint: &EndpointId) -> Option<&mut Budget> {
        let make = || Budget::new(self.config);
        self.endpoints.get_or_make(now, endpoint, make, |_| Some(0))
    }
}
