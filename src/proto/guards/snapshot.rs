//! Where the guards stand, for metrics.

use super::Guarded;
use crate::proto::breaker::BreakerSnapshot;
use crate::proto::budget::BudgetsSnapshot;
use crate::proto::hedge::HedgeSnapshot;
use crate::proto::limits::LimitSnapshot;
use crate::proto::model::{EndpointId, Moment};

/// Where all guards stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardsSnapshot {
    /// The retry budgets.
    pub budgets: BudgetsSnapshot,
    /// The endpoints with guards of their own, by name.
    pub endpoints: Vec<EndpointSnapshot>,
    /// The door that endpoints share for which there was no room.
    pub others: EndpointSnapshot,
}

/// Where the guards of one endpoint stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSnapshot {
    /// Which.
    pub endpoint: EndpointId,
    /// The circuit breaker.
    pub breaker: BreakerSnapshot,
    /// The bulkhead.
    pub limit: LimitSnapshot,
    /// The first-token statistics and the hedges.
    pub hedge: HedgeSnapshot,
}

impl Guarded {
    pub(super) fn snapshot(&mut self, now: Moment, endpoint: EndpointId) -> EndpointSnapshot {
        EndpointSnapshot {
            endpoint,
            breaker: self.breaker.snapshot(now),
            limit: self.bulkhead.snapshot(now),
            hedge: self.hedge.snapshot(now),
        }
    }
}
