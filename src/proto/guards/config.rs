//! The numbers of all guards together.

use crate::proto::breaker::BreakerConfig;
use crate::proto::budget::BudgetConfig;
use crate::proto::hedge::HedgeConfig;
use crate::proto::limits::LimitConfig;

/// What the guards of one process are like. Each part says its own reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardConfig {
    /// The retry budget of each endpoint.
    pub endpoint_budget: BudgetConfig,
    /// The retry budget of all of them together.
    pub process_budget: BudgetConfig,
    /// The circuit breaker of each endpoint.
    pub breaker: BreakerConfig,
    /// The limit in flight of each endpoint.
    pub limit: LimitConfig,
    /// The hedging of each endpoint.
    pub hedge: HedgeConfig,
    /// So many endpoints have guards of their own (default 256: a few
    /// providers with a few dozen models each); at least 1. When there are more,
    /// the one that is idle longest gives way, and when none is idle the new one
    /// shares its guards with the others that came too late.
    pub max_endpoints: usize,
}

impl GuardConfig {
    /// The defaults of every part.
    pub const DEFAULT: Self = Self {
        endpoint_budget: BudgetConfig::ENDPOINT,
        process_budget: BudgetConfig::PROCESS,
        breaker: BreakerConfig::DEFAULT,
        limit: LimitConfig::DEFAULT,
        hedge: HedgeConfig::DEFAULT,
        max_endpoints: 256,
    };

    /// Nothing is ever refused or made to wait.
    pub const OFF: Self = Self {
        endpoint_budget: BudgetConfig::UNLIMITED,
        process_budget: BudgetConfig::UNLIMITED,
        breaker: BreakerConfig::OFF,
        limit: LimitConfig {
            max: usize::MAX,
            min: usize::MAX,
            ..LimitConfig::DEFAULT
        },
        hedge: HedgeConfig::DEFAULT,
        max_endpoints: 256,
    };
}

impl Default for GuardConfig {
    /// [`GuardConfig::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}
