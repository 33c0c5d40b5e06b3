//! The metrics as Prometheus reads them.

use super::names::{METRICS, MetricKind};
use crate::error::{Error, ErrorKind, Result};
use metrics::Unit;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;

/// Keeps the metrics of this process, and renders them for Prometheus.
///
/// It listens nowhere: serve what [`render`](Self::render) gives under a path of
/// your own. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    handle: PrometheusHandle,
    _upkeep: Option<Arc<Upkeep>>,
}

/// Tidies up until the last recorder is gone.
struct Upkeep(AbortHandle);

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How often samples of histograms are put into their buckets. Between two times
/// each takes 16 bytes.
const UPKEEP: Duration = Duration::from_secs(5);

impl Recorder {
    /// Makes this the recorder of the whole process, with buckets that fit each
    /// histogram. Whatever else in the process uses the `metrics` crate is
    /// recorded too.
    ///
    /// In a tokio runtime a task keeps its memory bounded; elsewhere, render
    /// every few seconds.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when the process has a recorder already.
    pub fn install() -> Result<Self> {
        let mut builder = PrometheusBuilder::new();
        for metric in METRICS {
            if metric.kind == MetricKind::Histogram {
                builder = builder
                    .set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), metric.bounds)
                    .map_err(|error| {
                        Error::new(ErrorKind::Internal, "expected bounds for a histogram")
                            .with_source(error)
                    })?;
            }
        }
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| {
            Error::new(
                ErrorKind::Config,
                "expected a process without a recorder of metrics, but found one",
            )
        })?;
        describe();
        let upkeep = tokio::runtime::Handle::try_current().ok().map(|runtime| {
            let handle = handle.clone();
            let task = runtime.spawn(async move {
                let mut interval = tokio::time::interval(UPKEEP);
                loop {
                    interval.tick().await;
                    handle.run_upkeep();
                }
            });
            Arc::new(Upkeep(task.abort_handle()))
        });
        Ok(Self {
            handle,
            _upkeep: upkeep,
        })
    }

    /// The metrics as they stand, in Prometheus' text format (version 0.0.4).
    pub fn render(&self) -> String {
        self.handle.render()
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

fn describe() {
    for metric in METRICS {
        let unit = match metric.unit {
            "seconds" => Unit::Seconds,
            _ => Unit::Count,
        };
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, unit, metric.about),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, unit, metric.about),
            MetricKind::Histogram => {
                metrics::describe_histogram!(metric.name, unit, metric.about);
            }
        }
    }
}
