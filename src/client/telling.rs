//! What is told of operations while they run: spans, events and metrics.
//!
//! This is the one place that turns what an operation did into telemetry; the
//! machine below only notes it. Three rules hold for everything told here:
//!
//! - no prompt, no output, no credential and no words of the provider's are in
//!   it: of a request its hash and the caller's own prompt version, of a failure
//!   its code, class and status;
//! - nothing is told for every token: what is counted per token is counted in
//!   the machine, and told when its attempt is over;
//! - names that the OpenTelemetry conventions for generative AI have are theirs
//!   (`gen_ai.*`, `server.*`, `error.type`), every other begins with `streamkeep`.
//!
//! `docs/metrics.md` lists the span, its events and every metric.

#[cfg(feature = "metrics")]
mod meter;
#[cfg(not(feature = "metrics"))]
#[path = "telling/unmetered.rs"]
mod meter;
#[cfg(feature = "metrics")]
mod names;
#[cfg(feature = "prometheus")]
mod prometheus;
mod provider;

#[cfg(feature = "metrics")]
pub use names::{METRICS, Metric, MetricKind};
#[cfg(feature = "prometheus")]
pub use prometheus::Recorder;

use super::Attached;
use super::clock::Clock;
use crate::proto::cost::{Bill, Fate, PriceTable};
use crate::proto::journal::FailureNote;
use crate::proto::model::{Moment, Phase, Seq};
use crate::proto::operation::{Attempt, Note, Operation, Outcome, Route};
use crate::store::Lease;
use meter::{Labels, Running};
use std::sync::Arc;
use tracing::field::Empty;
use tracing::{Span, debug, info, info_span};

/// What is told of one operation.
#[derive(Debug)]
pub(super) struct Telling {
    span: Span,
    key: String,
    generation: u32,
    clock: Clock,
    began: Moment,
    /// The route of each attempt that was begun here.
    routes: Vec<(u32, usize)>,
    bill: Bill,
    prices: Option<Arc<PriceTable>>,
    _running: Running,
}

/// Tells of a call by how it came to its answer.
pub(super) fn called(attached: Attached, operation: &str) {
    let attached = match attached {
        Attached::Started => "started",
        Attached::Existing => "existing",
        Attached::TookOver => "took_over",
    };
    debug!(
        streamkeep.key = operation,
        streamkeep.attached = attached,
        "called"
    );
    meter::called(attached);
}

impl Telling {
    /// Begins to tell of an operation, before its first order.
    pub(super) fn new(
        operation: &Operation,
        lease: &Lease,
        clock: Clock,
        prices: Option<Arc<PriceTable>>,
    ) -> Self {
        Self {
            span: span(operation, lease),
            key: lease.key.to_string(),
            generation: lease.generation.get(),
            began: clock.now().moment,
            clock,
            routes: Vec::new(),
            bill: Bill::default(),
            prices,
            _running: Running::new(),
        }
    }

    /// The span that the operation runs in.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// A request is about to wait for its turn.
    pub(super) fn opened(&mut self, operation: &Operation, attempt: u32, route: usize) {
        self.routes.push((attempt, route));
        let route = operation.route(route);
        debug!(
            streamkeep.key = self.key,
            streamkeep.attempt = attempt,
            streamkeep.route = route.name(),
            streamkeep.endpoint = route.request().endpoint(),
            "open"
        );
    }

    /// Readers may be shown every record up to this one.
    pub(super) fn announced(&self, seq: Seq) {
        debug!(
            streamkeep.key = self.key,
            streamkeep.seq = seq.get(),
            "announce"
        );
    }

    /// Takes a note of the machine.
    pub(super) fn note(&mut self, operation: &Operation, note: &Note) {
        match note {
            Note::FirstOutput { attempt, after } => {
                let labels = Labels::of(self.route(operation, *attempt));
                meter::first_token(&labels, *after);
                debug!(
                    streamkeep.key = self.key,
                    streamkeep.attempt = attempt,
                    streamkeep.first_output_ms = millis(after.as_millis()),
                    "first output"
                );
            }
            Note::Ended(attempt) => self.attempt_ended(operation, attempt),
        }
    }

    fn attempt_ended(&mut self, operation: &Operation, attempt: &Attempt) {
        let Attempt { started, ended, .. } = attempt;
        let route = self.route(operation, ended.attempt);
        let dialect = route.request().dialect();
        self.bill.add(dialect, started, ended);
        meter::attempt_ended(&Labels::of(route), attempt);
        let tokens = self.bill.lines().last().and_then(|line| line.tokens);
        let failure = ended.failure.as_ref();
        let (host, port) = provider::server(route.request());
        info!(
            target: "streamkeep::attempt",
            { streamkeep.key = self.key,
            streamkeep.generation = self.generation,
            streamkeep.attempt = ended.attempt,
            streamkeep.attempt.kind = started.kind.as_str(),
            streamkeep.route = started.route,
            streamkeep.endpoint = started.endpoint,
            gen_ai.provider.name = provider::name(dialect, host),
            gen_ai.request.model = started.model,
            gen_ai.response.model = ended.model,
            server.address = host,
            server.port = port,
            "error.type" = failure.map(|failure| failure.kind.as_str()),
            streamkeep.class = ended.class,
            http.response.status_code = failure.and_then(|failure| failure.status),
            streamkeep.provider.error_type = word(failure, |failure| &failure.provider_type),
            streamkeep.provider.error_code = word(failure, |failure| &failure.provider_code),
            streamkeep.provider.request_id = ended.request_id.as_deref().filter(|id| is_word(id)),
            streamkeep.retry_after_ms = failure.and_then(|failure| failure.retry_after_ms),
            streamkeep.phase = phase(ended.phase),
            streamkeep.decision = ended.decision,
            streamkeep.delay_ms = ended.delay_ms,
            streamkeep.took_ms = ended.took_ms,
            gen_ai.usage.input_tokens = tokens.and_then(|tokens| tokens.prompt()),
            gen_ai.usage.output_tokens = tokens.map(|tokens| tokens.output),
            streamkeep.usage.basis = tokens.map(|tokens| tokens.basis.as_str()),
            streamkeep.first_output_ms = ended.first_output_ms,
            streamkeep.longest_gap_ms = ended.longest_gap_ms },
            "attempt ended"
        );
    }

    /// The operation is over.
    pub(super) fn ended(&self, operation: &Operation, outcome: &Outcome) {
        let (word, failure) = match outcome {
            Outcome::Ended(ended) => (ended.end.as_str(), ended.failure.as_ref()),
            Outcome::Interrupted(interrupted) => ("interrupted", Some(&interrupted.failure)),
            Outcome::StoreFailed(failure) => ("store_failed", Some(failure)),
        };
        let code = failure.map(|failure| failure.kind.as_str());
        let counts = operation.counts();
        let delivered = self
            .bill
            .total(Some(Fate::Delivered), self.prices.as_deref());
        let orphan = self.bill.total(Some(Fate::Orphan), self.prices.as_deref());
        let answer = operation.answer();
        let attempts = self.bill.lines().len();

        let span = &self.span;
        if let Some(model) = &answer.model {
            span.record("gen_ai.response.model", model.as_str());
        }
        if let Some(id) = answer.response_id.as_deref().filter(|id| is_word(id)) {
            span.record("gen_ai.response.id", id);
        }
        if let Some(basis) = delivered.basis.max(orphan.basis) {
            span.record("gen_ai.usage.input_tokens", delivered.input);
            span.record("gen_ai.usage.output_tokens", delivered.output);
            span.record("streamkeep.usage.basis", basis.as_str());
            span.record("streamkeep.usage.orphan_tokens", orphan.output);
        }
        if let Some(code) = code {
            span.record("error.type", code);
            span.record("otel.status_code", "ERROR");
        }
        span.record("streamkeep.outcome", word);
        span.record("streamkeep.attempts", attempts);

        let last = self.routes.last().map_or(0, |(_, route)| *route);
        let took = self.clock.now().moment.since(self.began);
        let labels = Labels::of(operation.route(last));
        meter::operation_ended(&labels, word, code, took);
        meter::counts(&counts);
        meter::bill(
            &self.bill,
            operation_routes(operation, &self.routes),
            self.prices.as_deref(),
        );
        info!(
            streamkeep.key = self.key,
            streamkeep.generation = self.generation,
            streamkeep.outcome = word,
            "error.type" = code,
            streamkeep.attempts = attempts,
            streamkeep.took_ms = millis(took.as_millis()),
            streamkeep.output_tokens = delivered.output,
            streamkeep.orphan_tokens = orphan.output,
            streamkeep.cost = delivered
                .amount
                .zip(orphan.amount)
                .map(|(delivered, orphan)| display(delivered.plus(orphan))),
            streamkeep.orphan_cost = orphan.amount.map(display),
            streamkeep.currency = self.prices.as_deref().map(PriceTable::currency),
            streamkeep.unknown_events = counts.unknown,
            streamkeep.noise_events = counts.noise,
            streamkeep.duplicates_dropped = counts.duplicates,
            "operation ended"
        );
    }

    fn route<'a>(&self, operation: &'a Operation, attempt: u32) -> &'a Route {
        let number = self
            .routes
            .iter()
            .rev()
            .find(|(number, _)| *number == attempt);
        operation.route(number.map_or(0, |(_, route)| *route))
    }
}

/// The labels of the route that an attempt took.
fn operation_routes<'a>(
    operation: &'a Operation,
    routes: &'a [(u32, usize)],
) -> impl Fn(u32) -> Labels + 'a {
    move |attempt| {
        let number = routes.iter().rev().find(|(number, _)| *number == attempt);
        Labels::of(operation.route(number.map_or(0, |(_, route)| *route)))
    }
}

fn span(operation: &Operation, lease: &Lease) -> Span {
    let route = operation.route(0);
    let request = route.request();
    let (host, port) = provider::server(request);
    let model = request.model().unwrap_or_default();
    info_span!(
        "operation",
        otel.name = format!("{OPERATION} {model}").trim_end(),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = OPERATION,
        gen_ai.provider.name = provider::name(request.dialect(), host),
        gen_ai.request.model = request.model(),
        gen_ai.request.stream = true,
        gen_ai.response.model = Empty,
        gen_ai.response.id = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        server.address = host,
        server.port = port,
        "error.type" = Empty,
        streamkeep.key = %lease.key,
        streamkeep.generation = lease.generation.get(),
        streamkeep.dialect = request.dialect().name(),
        streamkeep.route = route.name(),
        streamkeep.request_hash = %request.fingerprint(),
        streamkeep.prompt_version = operation.prompt_version(),
        streamkeep.outcome = Empty,
        streamkeep.attempts = Empty,
        streamkeep.usage.basis = Empty,
        streamkeep.usage.orphan_tokens = Empty,
    )
}

/// `gen_ai.operation.name`: all three dialects are chats.
const OPERATION: &str = "chat";

/// A provider's word as it may be told: one word, or nothing. Whatever else
/// stands in its place may be a sentence, and a sentence may quote a prompt.
fn word<'a>(
    failure: Option<&'a FailureNote>,
    part: impl Fn(&'a FailureNote) -> &'a Option<String>,
) -> Option<&'a str> {
    failure
        .and_then(|failure| part(failure).as_deref())
        .filter(|text| is_word(text))
}

fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(fits)
}

const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::PreSend => "pre_send",
        Phase::PreStream => "pre_stream",
        Phase::MidStream => "mid_stream",
    }
}

fn millis(millis: u128) -> u64 {
    u64::try_from(millis).unwrap_or(u64::MAX)
}
