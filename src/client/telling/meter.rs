//! The metrics, through the facade of the `metrics` crate.
//!
//! Labels come from requests, and a caller may name any model, so at most
//! [`MOST`] values of each are told apart in one process; what comes later is
//! `other`. Nothing here is called for every token.

use super::names;
use super::phase;
use crate::error::ErrorKind;
use crate::proto::cost::{Bill, PriceTable};
use crate::proto::journal::AttemptEnded;
use crate::proto::model::Phase;
use crate::proto::operation::{Attempt, Counts, Route};
use metrics::{Label, counter, gauge, histogram};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many values of a label are told apart. Every one is a series of its own
/// in each metric that has the label.
const MOST: usize = 100;

/// The longest value of a label.
const LONGEST: usize = 100;

/// Values of one label that were seen.
struct Seen(Mutex<Option<HashSet<String>>>);

static ROUTES: Seen = Seen::new();
static MODELS: Seen = Seen::new();

impl Seen {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The value, if it is one of those that are told apart.
    fn bounded(&self, value: &str) -> String {
        const OTHER: &str = "other";
        if value.len() > LONGEST {
            return OTHER.to_owned();
        }
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.get_or_insert_default();
        if !seen.contains(value) {
            if seen.len() >= MOST {
                return OTHER.to_owned();
            }
            seen.insert(value.to_owned());
        }
        value.to_owned()
    }
}

/// The labels that say whose numbers they are.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    route: String,
    model: String,
}

impl Labels {
    pub(super) fn of(route: &Route) -> Self {
        Self {
            route: ROUTES.bounded(route.name()),
            model: MODELS.bounded(route.request().model().unwrap_or("none")),
        }
    }

    fn with<const N: usize>(&self, more: [(&'static str, &str); N]) -> Vec<Label> {
        let mut labels = vec![
            Label::new("route", self.route.clone()),
            Label::new("model", self.model.clone()),
        ];
        labels.extend(more.map(|(name, value)| Label::new(name, value.to_owned())));
        labels
    }
}

/// An operation that runs, for as long as this is held.
#[derive(Debug)]
pub(super) struct Running;

impl Running {
    pub(super) fn new() -> Self {
        gauge!(names::RUNNING).increment(1);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        gauge!(names::RUNNING).decrement(1);
    }
}

pub(super) fn called(attached: &'static str) {
    counter!(names::CALLS, "attached" => attached).increment(1);
}

pub(super) fn first_token(labels: &Labels, after: Duration) {
    histogram!(names::FIRST_TOKEN_SECONDS, labels.with([])).record(after);
}

pub(super) fn attempt_ended(labels: &Labels, attempt: &Attempt) {
    let Attempt {
        started,
        ended,
        gaps,
    } = attempt;
    let decision = ("decision", ended.decision.as_str());
    counter!(
        names::ATTEMPTS,
        labels.with([("kind", started.kind.as_str()), decision])
    )
    .increment(1);
    histogram!(names::ATTEMPT_SECONDS, labels.with([]))
        .record(Duration::from_millis(ended.took_ms));
    if let Some(failure) = &ended.failure {
        let code = ("code", code(Some(&failure.kind)));
        let class = ("class", ended.class.as_deref().unwrap_or("unknown"));
        let phase = ("phase", phase(ended.phase));
        counter!(names::FAILURES, labels.with([code, class, phase])).increment(1);
        if is_interruption(ended) {
            counter!(names::INTERRUPTIONS, labels.with([code, decision])).increment(1);
        }
    }
    if gaps.longest().is_some() {
        let histogram = histogram!(names::GAP_SECONDS, labels.with([]));
        for (count, mean) in gaps.counted() {
            histogram.record_many(mean, usize::try_from(count).unwrap_or(usize::MAX));
        }
    }
}

pub(super) fn operation_ended(
    labels: &Labels,
    outcome: &'static str,
    failure: Option<&str>,
    took: Duration,
) {
    let outcome = ("outcome", outcome);
    let code = ("code", code(failure));
    counter!(names::OPERATIONS, labels.with([outcome, code])).increment(1);
    histogram!(names::OPERATION_SECONDS, labels.with([outcome])).record(took);
}

pub(super) fn counts(counts: &Counts) {
    for (what, count) in [
        ("unknown", counts.unknown),
        ("noise", counts.noise),
        ("keep_alive", counts.keep_alives),
        ("comment", counts.comments),
        ("duplicate", counts.duplicates),
    ] {
        if count > 0 {
            counter!(names::EVENTS, "what" => what).increment(count);
        }
    }
}

/// Tells what an operation cost. At its end, because only then it is known which
/// attempts were given up, and in whose count a resumed response is.
pub(super) fn bill(bill: &Bill, labels_of: impl Fn(u32) -> Labels, prices: Option<&PriceTable>) {
    for line in bill.lines() {
        let Some(tokens) = line.own_tokens() else {
            continue;
        };
        let labels = labels_of(line.attempt);
        let basis = ("basis", tokens.basis.as_str());
        let fate = ("fate", line.fate.as_str());
        for (word, count) in [
            ("input", tokens.input.unwrap_or(0)),
            ("cached_input", tokens.cached_input),
            ("cache_write", tokens.cache_write),
            ("output", tokens.output),
        ] {
            if count > 0 {
                let labels = labels.with([("type", word), basis, fate]);
                counter!(names::TOKENS, labels).increment(count);
            }
        }
        if let Some(prices) = prices
            && let Some(cost) = line.cost(prices)
            && !cost.unknown_model
        {
            let currency = ("currency", prices.currency());
            counter!(names::COST, labels.with([currency, basis, fate]))
                .increment(cost.amount.nanos());
        }
    }
}

/// The code of a failure as a label: one of ours, never another text.
fn code(kind: Option<&str>) -> &'static str {
    match kind {
        None => "none",
        Some(kind) => ErrorKind::from_code(kind).map_or("unknown", ErrorKind::code),
    }
}

/// Whether an attempt broke after its output was committed.
fn is_interruption(ended: &AttemptEnded) -> bool {
    ended.phase == Phase::MidStream
        && ended
            .failure
            .as_ref()
            .is_some_and(|failure| failure.kind != "cancelled")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_who_names_a_new_model_each_time_makes_no_new_series_for_ever() {
        let seen = Seen::new();
        assert_eq!(seen.bounded("m"), "m");
        for number in 1..MOST {
            seen.bounded(&number.to_string());
        }
        assert_eq!(seen.bounded("one more"), "other");
        assert_eq!(seen.bounded("m"), "m");
        assert_eq!(Seen::new().bounded(&"x".repeat(LONGEST + 1)), "other");
    }

    #[cfg(feature = "prometheus")]
    #[test]
    fn what_runs_is_counted_for_as_long_as_it_runs() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let running = |number: u8| {
            let line = format!("{} {number}\n", names::RUNNING);
            assert!(handle.render().contains(&line), "{}", handle.render());
        };
        metrics::with_local_recorder(&recorder, || {
            let (one, other) = (Running::new(), Running::new());
            running(2);
            drop(one);
            running(1);
            drop(other);
            running(0);
        });
    }

    #[test]
    fn a_code_that_is_none_of_ours_is_not_told() {
        assert_eq!(code(Some("rate_limited")), "rate_limited");
        assert_eq!(code(Some("sk-123")), "unknown");
        assert_eq!(code(None), "none");
    }
}
