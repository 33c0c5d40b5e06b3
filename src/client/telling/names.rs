//! The names of all metrics, in one table.

use crate::proto::operation::Gaps;

/// What kind of metric it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricKind {
    /// Only ever rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// How often which values came.
    Histogram,
}

/// A metric of this crate.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// Its name, with the unit in it.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Its unit: `seconds`, `tokens`, `nanos` (billionths of a currency unit),
    /// or what is counted.
    pub unit: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Upper bounds of a histogram's buckets, in its unit. Empty for the others.
    pub bounds: &'static [f64],
    /// What it says.
    pub about: &'static str,
}

pub(super) const CALLS: &str = "streamkeep_calls_total";
pub(super) const RUNNING: &str = "streamkeep_operations_running";
pub(super) const OPERATIONS: &str = "streamkeep_operations_total";
pub(super) const OPERATION_SECONDS: &str = "streamkeep_operation_seconds";
pub(super) const ATTEMPTS: &str = "streamkeep_attempts_total";
pub(super) const FAILURES: &str = "streamkeep_attempt_failures_total";
pub(super) const INTERRUPTIONS: &str = "streamkeep_interruptions_total";
pub(super) const ATTEMPT_SECONDS: &str = "streamkeep_attempt_seconds";
pub(super) const FIRST_TOKEN_SECONDS: &str = "streamkeep_first_token_seconds";
pub(super) const GAP_SECONDS: &str = "streamkeep_output_gap_seconds";
pub(super) const TOKENS: &str = "streamkeep_tokens_total";
pub(super) const COST: &str = "streamkeep_cost_nanos_total";
pub(super) const EVENTS: &str = "streamkeep_events_total";

/// From a cached prompt on a fast server (50 ms) to the limit of the first-token
/// clock for reasoning models and beyond; finest where people feel it.
const FIRST_TOKEN: &[f64] = &[
    0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0,
];

/// From a refusal (10 ms) to an hour in the background.
const WHOLE: &[f64] = &[
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
    3600.0,
];

/// The bounds by which the machine counts gaps, in seconds.
const GAPS: &[f64; Gaps::BOUNDS.len()] = &[
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 120.0,
];

/// Every metric that this crate emits; `docs/metrics.md` is the same list for
/// people.
pub const METRICS: &[Metric] = &[
    Metric {
        name: CALLS,
        kind: MetricKind::Counter,
        unit: "calls",
        labels: &["attached"],
        bounds: &[],
        about: "calls by how they came to their answer: started, existing (a duplicate that was served from the journal), took_over",
    },
    Metric {
        name: RUNNING,
        kind: MetricKind::Gauge,
        unit: "operations",
        labels: &[],
        bounds: &[],
        about: "operations that run in this process now",
    },
    Metric {
        name: OPERATIONS,
        kind: MetricKind::Counter,
        unit: "operations",
        labels: &["route", "model", "outcome", "code"],
        bounds: &[],
        about: "operations that came to rest, by outcome and by the code of their failure (none without one)",
    },
    Metric {
        name: OPERATION_SECONDS,
        kind: MetricKind::Histogram,
        unit: "seconds",
        labels: &["route", "model", "outcome"],
        bounds: WHOLE,
        about: "how long operations took in this process, waits included",
    },
    Metric {
        name: ATTEMPTS,
        kind: MetricKind::Counter,
        unit: "attempts",
        labels: &["route", "model", "kind", "decision"],
        bounds: &[],
        about: "upstream exchanges that ended, by why they were made and what followed",
    },
    Metric {
        name: FAILURES,
        kind: MetricKind::Counter,
        unit: "attempts",
        labels: &["route", "model", "code", "class", "phase"],
        bounds: &[],
        about: "upstream exchanges that failed, by error code, by who has to act, and by how far they had come",
    },
    Metric {
        name: INTERRUPTIONS,
        kind: MetricKind::Counter,
        unit: "interruptions",
        labels: &["route", "model", "code", "decision"],
        bounds: &[],
        about: "answers that broke after output was shown, by cause and by what followed",
    },
    Metric {
        name: ATTEMPT_SECONDS,
        kind: MetricKind::Histogram,
        unit: "seconds",
        labels: &["route", "model"],
        bounds: WHOLE,
        about: "how long upstream exchanges took",
    },
    Metric {
        name: FIRST_TOKEN_SECONDS,
        kind: MetricKind::Histogram,
        unit: "seconds",
        labels: &["route", "model"],
        bounds: FIRST_TOKEN,
        about: "from sending a request to its first output; lifecycle events and keep-alives do not count",
    },
    Metric {
        name: GAP_SECONDS,
        kind: MetricKind::Histogram,
        unit: "seconds",
        labels: &["route", "model"],
        bounds: GAPS,
        about: "between two arrivals of output of one attempt",
    },
    Metric {
        name: TOKENS,
        kind: MetricKind::Counter,
        unit: "tokens",
        labels: &["route", "model", "type", "basis", "fate"],
        bounds: &[],
        about: "tokens that were paid for, by type (input, cached_input, cache_write, output), by what their number is known from, and by whether they reached the answer (delivered) or nobody (orphan)",
    },
    Metric {
        name: COST,
        kind: MetricKind::Counter,
        unit: "nanos",
        labels: &["route", "model", "currency", "basis", "fate"],
        bounds: &[],
        about: "what the tokens cost by the client's price table, in billionths of a currency unit; nothing without a table",
    },
    Metric {
        name: EVENTS,
        kind: MetricKind::Counter,
        unit: "events",
        labels: &["what"],
        bounds: &[],
        about: "events of providers that are no plain part of an answer: unknown (delivered as they were), noise, keep_alive, comment, duplicate",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_told_by_the_bounds_they_are_counted_by() {
        let counted: Vec<f64> = Gaps::BOUNDS
            .iter()
            .map(std::time::Duration::as_secs_f64)
            .collect();
        assert_eq!(counted, GAPS);
    }

    #[test]
    fn a_name_says_what_it_is() {
        for metric in METRICS {
            assert!(metric.name.starts_with("streamkeep_"), "{}", metric.name);
            let counts = metric.name.ends_with("_total");
            assert_eq!(
                counts,
                metric.kind == MetricKind::Counter,
                "{}",
                metric.name
            );
            let has_bounds = !metric.bounds.is_empty();
            assert_eq!(
                has_bounds,
                metric.kind == MetricKind::Histogram,
                "{}",
                metric.name
            );
            assert!(metric.bounds.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
