//! Which server is in charge.

use super::fault::Fault;
use super::line::{Dialing, Line};
use super::target::{Endpoint, Kind};
use crate::error::ErrorKind;
use redis::{Value, cmd};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a failure to connect stands for everybody who wants the same server,
/// so that a thousand waiting requests are not a thousand attempts.
const ECHO: Duration = Duration::from_millis(50);

/// The connections, one for each server.
#[derive(Debug)]
pub(super) struct Routes {
    kind: Kind,
    dialing: Dialing,
    /// For the sentinels, which have users of their own.
    asking: Dialing,
    lines: Mutex<HashMap<Endpoint, Arc<Place>>>,
    primary: Mutex<Option<Endpoint>>,
    slots: Mutex<Option<Arc<Slots>>>,
    looking: tokio::sync::Mutex<Look>,
}

/// One server's connection, and who makes it.
#[derive(Debug, Default)]
struct Place(tokio::sync::Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    line: Option<Arc<Line>>,
    failed: Option<(Instant, Fault)>,
}

/// The last time that the servers were asked who is in charge.
#[derive(Debug, Default)]
struct Look {
    failed: Option<(Instant, Fault)>,
}

/// Which node has which slots: the first and the last of each span.
type Slots = Vec<(u16, u16, Endpoint)>;

impl Routes {
    pub(super) fn new(kind: Kind, dialing: Dialing, asking: Dialing) -> Self {
        Self {
            kind,
            dialing,
            asking,
            lines: Mutex::default(),
            primary: Mutex::default(),
            slots: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster(_))
    }

    pub(super) fn is_replicated(&self) -> bool {
        !matches!(self.kind, Kind::Single(_))
    }

    pub(super) fn dialing(&self) -> &Dialing {
        &self.dialing
    }

    /// The connection to whoever is in charge of a slot.
    pub(super) async fn line(&self, slot: u16) -> Result<Arc<Line>, Fault> {
        let endpoint = self.endpoint(slot).await?;
        self.line_to(&endpoint).await
    }

    /// The server to listen at for wake-ups: any node of a cluster hands them on.
    pub(super) async fn any(&self, attempt: usize) -> Result<Endpoint, Fault> {
        if let Kind::Cluster(_) = &self.kind {
            self.endpoint(0).await?;
            let nodes = self.nodes();
            if let Some(node) = nodes.get(attempt % nodes.len().max(1)) {
                return Ok(node.clone());
            }
        }
        self.endpoint(0).await
    }

    async fn endpoint(&self, slot: u16) -> Result<Endpoint, Fault> {
        match &self.kind {
            Kind::Single(endpoint) => Ok(endpoint.clone()),
            Kind::Sentinel(sentinels, name) => match self.known_primary() {
                Some(primary) => Ok(primary),
                None => self.find_primary(sentinels, name).await,
            },
            Kind::Cluster(_) => {
                let slots = match self.known_slots() {
                    Some(slots) => slots,
                    None => self.find_slots().await?,
                };
                let node = slots
                    .iter()
                    .find(|(first, last, _)| (*first..=*last).contains(&slot));
                node.map(|(_, _, node)| node.clone()).ok_or_else(|| {
                    self.forget_map();
                    Fault::NotNow("CLUSTERDOWN".to_owned())
                })
            }
        }
    }

    fn known_primary(&self) -> Option<Endpoint> {
        lock(&self.primary).clone()
    }

    fn known_slots(&self) -> Option<Arc<Slots>> {
        lock(&self.slots).clone()
    }

    /// The connection to this server.
    pub(super) async fn line_to(&self, endpoint: &Endpoint) -> Result<Arc<Line>, Fault> {
        let place = Arc::clone(lock(&self.lines).entry(endpoint.clone()).or_default());
        let mut held = place.0.lock().await;
        if let Some(line) = held.line.as_ref().filter(|line| line.is_usable()) {
            return Ok(Arc::clone(line));
        }
        held.line = None;
        if let Some(fault) = recent(held.failed.as_ref()) {
            return Err(fault);
        }
        match self.connect(endpoint).await {
            Ok(line) => {
                let line = Arc::new(line);
                held.line = Some(Arc::clone(&line));
                held.failed = None;
                Ok(line)
            }
            Err(fault) => {
                held.failed = Some((Instant::now(), fault.clone()));
                Err(fault)
            }
        }
    }

    async fn connect(&self, endpoint: &Endpoint) -> Result<Line, Fault> {
        let line = self.dialing.line(endpoint).await?;
        if let Kind::Sentinel(..) = self.kind {
            // The sentinels may be late, and a primary that came back does not know
            // yet that it is none.
            let role = line.ask(&cmd("ROLE")).await?;
            if first_text(&role) != Some("master") {
                return Err(Fault::Demoted);
            }
        }
        Ok(line)
    }

    /// This server may not be in charge any more: whoever comes next looks again.
    pub(super) fn doubt(&self, endpoint: &Endpoint) {
        let mut primary = lock(&self.primary);
        if primary.as_ref() == Some(endpoint) {
            *primary = None;
        }
        drop(primary);
        self.forget_map();
    }

    /// A server could not be reached: whoever comes next looks again.
    pub(super) fn doubt_all(&self) {
        *lock(&self.primary) = None;
        self.forget_map();
    }

    pub(super) fn forget_map(&self) {
        *lock(&self.slots) = None;
    }

    /// Asks the sentinels, one after the other; the one that knew is asked first
    /// the next time only because nobody asks before the primary fails again.
    async fn find_primary(&self, sentinels: &[Endpoint], name: &str) -> Result<Endpoint, Fault> {
        let mut look = self.looking.lock().await;
        if let Some(primary) = self.known_primary() {
            return Ok(primary);
        }
        if let Some(fault) = recent(look.failed.as_ref()) {
            return Err(fault);
        }
        let mut fault = Fault::Broken("no sentinel".to_owned());
        for sentinel in sentinels {
            match self.primary_by(sentinel, name).await {
                Ok(primary) => {
                    *lock(&self.primary) = Some(primary.clone());
                    look.failed = None;
                    return Ok(primary);
                }
                Err(failed) => fault = failed,
            }
        }
        look.failed = Some((Instant::now(), fault.clone()));
        Err(fault)
    }

    async fn primary_by(&self, sentinel: &Endpoint, name: &str) -> Result<Endpoint, Fault> {
        let line = self.asking.line(sentinel).await?;
        let mut question = cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(name);
        let answer = line.ask(&question).await?;
        let Value::Array(parts) = answer else {
            return Err(Fault::Refused(
                ErrorKind::Config,
                "expected the sentinels to know the primary's name, but they do not".to_owned(),
            ));
        };
        match parts.as_slice() {
            [host, port] => address(host, port, sentinel),
            _ => None,
        }
        .ok_or_else(|| Fault::NotNow("a primary without an address".to_owned()))
    }

    async fn find_slots(&self) -> Result<Arc<Slots>, Fault> {
        let mut look = self.looking.lock().await;
        if let Some(slots) = self.known_slots() {
            return Ok(slots);
        }
        if let Some(fault) = recent(look.failed.as_ref()) {
            return Err(fault);
        }
        let mut fault = Fault::Broken("no node".to_owned());
        for node in self.nodes() {
            match self.slots_by(&node).await {
                Ok(slots) if slots.is_empty() => fault = Fault::NotNow("CLUSTERDOWN".to_owned()),
                Ok(slots) => {
                    let slots = Arc::new(slots);
                    *lock(&self.slots) = Some(Arc::clone(&slots));
                    look.failed = None;
                    self.drop_others(&slots);
                    return Ok(slots);
                }
                Err(failed) => fault = failed,
            }
        }
        look.failed = Some((Instant::now(), fault.clone()));
        Err(fault)
    }

    async fn slots_by(&self, node: &Endpoint) -> Result<Slots, Fault> {
        let line = self.line_to(node).await?;
        let answer = line.ask(cmd("CLUSTER").arg("SLOTS")).await;
        let Value::Array(spans) = answer? else {
            return Err(Fault::NotNow("CLUSTER SLOTS without slots".to_owned()));
        };
        Ok(spans
            .iter()
            .filter_map(|span| span_of(span, node))
            .collect())
    }

    /// The nodes that are known, and then those that were named at the beginning.
    fn nodes(&self) -> Vec<Endpoint> {
        let mut nodes: Vec<Endpoint> = lock(&self.lines).keys().cloned().collect();
        nodes.sort_by_key(ToString::to_string);
        if let Kind::Cluster(seeds) = &self.kind {
            for seed in seeds {
                if !nodes.contains(seed) {
                    nodes.push(seed.clone());
                }
            }
        }
        nodes
    }

    /// Lets go of nodes that have no slots any more.
    fn drop_others(&self, slots: &Slots) {
        let has_slots = |endpoint: &Endpoint| slots.iter().any(|(_, _, node)| node == endpoint);
        lock(&self.lines).retain(|endpoint, _| has_slots(endpoint));
    }
}

fn recent(failed: Option<&(Instant, Fault)>) -> Option<Fault> {
    failed
        .filter(|(at, _)| at.elapsed() < ECHO)
        .map(|(_, fault)| fault.clone())
}

fn span_of(span: &Value, asked: &Endpoint) -> Option<(u16, u16, Endpoint)> {
    let Value::Array(parts) = span else {
        return None;
    };
    let [
        Value::Int(first),
        Value::Int(last),
        Value::Array(primary),
        ..,
    ] = parts.as_slice()
    else {
        return None;
    };
    let [host, port, ..] = primary.as_slice() else {
        return None;
    };
    let node = address(host, port, asked)?;
    Some((
        u16::try_from(*first).ok()?,
        u16::try_from(*last).ok()?,
        node,
    ))
}

/// The address that a server names; without a host it is the one's that was asked.
fn address(host: &Value, port: &Value, asked: &Endpoint) -> Option<Endpoint> {
    let port = match port {
        Value::Int(port) => u16::try_from(*port).ok()?,
        other => text(other)?.parse().ok()?,
    };
    let named = text(host).filter(|host| !host.is_empty() && *host != "?");
    Some(beside(named.unwrap_or_default(), port, asked))
}

/// The endpoint of this host, or, without one, beside the one that named it.
pub(super) fn beside(host: &str, port: u16, asked: &Endpoint) -> Endpoint {
    let host = match asked {
        Endpoint::Tcp { host: own, .. } if host.is_empty() => own.clone(),
        _ => host.to_owned(),
    };
    Endpoint::Tcp { host, port }
}

fn first_text(value: &Value) -> Option<&str> {
    match value {
        Value::Array(parts) => parts.first().and_then(text),
        _ => None,
    }
}

/// A text of a server's answer.
pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that runs under these locks can leave them half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_span_of_slots_names_its_primary_also_where_that_does_not_know_its_own_name() {
        let asked = Endpoint::Tcp {
            host: "asked".to_owned(),
            port: 1,
        };
        for (host, expected) in [
            (bulk("10.0.0.1"), "10.0.0.1:7001"),
            (bulk("::1"), "[::1]:7001"),
            (bulk(""), "asked:7001"),
            (bulk("?"), "asked:7001"),
            (Value::Nil, "asked:7001"),
        ] {
            let node = Value::Array(vec![host, Value::Int(7001), bulk("id")]);
            let span = Value::Array(vec![Value::Int(0), Value::Int(100), node.clone(), node]);
            let (first, last, node) = span_of(&span, &asked).unwrap();
            assert_eq!((first, last), (0, 100));
            assert_eq!(node.to_string(), expected);
        }
        for odd in [Value::Nil, Value::Array(vec![]), bulk("x")] {
            assert_eq!(span_of(&odd, &asked), None);
        }
    }
}
