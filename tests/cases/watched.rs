//! What passes by on the way to a case's upstream, and what is logged of it.

use bytes::Bytes;
use futures_core::future::BoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Once};
use streamkeep::proto::model::TransportFailure;
use streamkeep::transport::{Body, Outgoing, ReqwestTransport, Response, Transport};
use tracing::field::{Field, Visit};
use tracing::span;

/// The transport over sockets, and what came through it.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    transport: ReqwestTransport,
    exchanges: Arc<Mutex<Vec<Passed>>>,
}

/// What came of one exchange.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    /// The status, once there was a head.
    pub(crate) status: Option<u16>,
    /// How often the body said something: a piece, its end, or a failure.
    pub(crate) said: usize,
}

impl Watched {
    pub(crate) fn new(http2: bool) -> Self {
        Self {
            transport: ReqwestTransport::builder()
                .http2_prior_knowledge(http2)
                .build()
                .unwrap(),
            exchanges: Arc::default(),
        }
    }

    /// What came of each exchange, in their order.
    pub(crate) fn exchanges(&self) -> Vec<Passed> {
        self.exchanges.lock().unwrap().clone()
    }
}

impl Transport for Watched {
    fn open(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Response, TransportFailure>> {
        Box::pin(async move {
            let number = {
                let mut exchanges = self.exchanges.lock().unwrap();
                exchanges.push(Passed::default());
                exchanges.len() - 1
            };
            let response = self.transport.open(outgoing).await?;
            self.exchanges.lock().unwrap()[number].status = Some(response.head.status);
            Ok(Response {
                head: response.head,
                body: Box::new(WatchedBody {
                    body: response.body,
                    number,
                    exchanges: Arc::clone(&self.exchanges),
                }),
            })
        })
    }
}

#[derive(Debug)]
struct WatchedBody {
    body: Box<dyn Body>,
    number: usize,
    exchanges: Arc<Mutex<Vec<Passed>>>,
}

impl Body for WatchedBody {
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportFailure>> {
        Box::pin(async move {
            let said = self.body.chunk().await;
            self.exchanges.lock().unwrap()[self.number].said += 1;
            said
        })
    }
}

/// The noise that the client has logged, by the key of its operation.
static NOISE: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// How many noise events the operation under this key met; the log is the only
/// place that says so.
pub(crate) fn noise_of(key: &str) -> Option<u64> {
    NOISE.lock().unwrap().get(key).copied()
}

/// Listens to the log of this process.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Ear).unwrap());
}

struct Ear;

#[derive(Default)]
struct Heard {
    key: Option<String>,
    noise: Option<u64>,
}

impl Visit for Heard {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "streamkeep.key" {
            self.key = Some(value.to_owned());
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "streamkeep.noise_events" {
            self.noise = Some(value);
        }
    }
}

impl tracing::Subscriber for Ear {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("streamkeep")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut heard = Heard::default();
        event.record(&mut heard);
        if let Heard {
            key: Some(key),
            noise: Some(noise),
        } = heard
        {
            NOISE.lock().unwrap().insert(key, noise);
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
