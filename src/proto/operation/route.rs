//! The places that can answer one operation.

use crate::error::Error;
use crate::proto::dialect::Request;
use crate::proto::journal::RouteNote;
use crate::proto::model::EndpointId;
use std::fmt;

/// One place that can answer: an endpoint, with the request for it.
///
/// The name tells routes apart in records, metrics and configuration, and says
/// which credential goes with the request: `Client::builder().credential_for`.
#[derive(Clone)]
pub struct Route {
    name: String,
    request: Request,
    question: Question,
    degraded: bool,
    larger_context: bool,
}

/// Whose question it asks.
#[derive(Clone, Debug)]
enum Question {
    Its,
    /// The first route's, with another model or the same.
    TheFirsts(Option<String>),
}

impl Route {
    /// A route with a request of its own, which may be of another dialect.
    /// Readers of deltas do not notice; readers of events see that dialect's.
    pub fn new(name: impl Into<String>, request: Request) -> Self {
        Self {
            name: name.into(),
            request,
            question: Question::Its,
            degraded: false,
            larger_context: false,
        }
    }

    /// A route that asks the same question of another endpoint, and of another
    /// model where one is given. The journal keeps the body once.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`](crate::ErrorKind::InvalidRequest) when the URL is not one.
    pub fn like(
        name: impl Into<String>,
        first: &Request,
        url: impl Into<String>,
        model: Option<&str>,
    ) -> Result<Self, Error> {
        Ok(Self {
            question: Question::TheFirsts(model.map(str::to_owned)),
            ..Self::new(name, first.at(url, model)?)
        })
    }

    /// The route of a request that names none: called after the host.
    pub(super) fn unnamed(request: Request) -> Self {
        Self::new(request.host().to_owned(), request)
    }

    /// Its answers are known to be worse (default: no). It is told with the
    /// answer, and decides nothing.
    pub fn degraded(mut self, degraded: bool) -> Self {
        self.degraded = degraded;
        self
    }

    /// It takes a longer context than the first (default: no). Only such a route
    /// takes over when the context was too long.
    pub fn larger_context(mut self, larger: bool) -> Self {
        self.larger_context = larger;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its request.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Whether its answers are known to be worse.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Whether it takes a longer context.
    pub fn takes_larger_context(&self) -> bool {
        self.larger_context
    }

    /// What is guarded together: place, model and route. The credential goes
    /// with the route.
    pub fn guarded_as(&self) -> EndpointId {
        let model = self.request.model().unwrap_or_default();
        EndpointId::of(self.request.host(), model, &self.name)
    }

    /// The route as the first record keeps it: without a body where that follows
    /// from the first route's.
    pub(super) fn note(&self, first: &Request) -> RouteNote {
        let same = |model: Option<&str>| {
            first.at(self.request.url(), model).is_ok_and(|derived| {
                derived.dialect() == self.request.dialect()
                    && derived.headers() == self.request.headers()
                    && derived.body() == self.request.body()
            })
        };
        let (body, model) = match &self.question {
            Question::TheFirsts(model) if same(model.as_deref()) => (None, model.clone()),
            _ => (
                Some(String::from_utf8_lossy(self.request.body()).into_owned()),
                None,
            ),
        };
        RouteNote {
            name: self.name.clone(),
            dialect: self.request.dialect(),
            url: self.request.url().to_owned(),
            headers: self.request.headers().to_vec(),
            body,
            model,
            degraded: self.degraded,
            larger_context: self.larger_context,
        }
    }

    pub(super) fn from_note(note: &RouteNote, first: &Request) -> Result<Self, Error> {
        let route = match &note.body {
            None => Self::like(
                note.name.clone(),
                first,
                note.url.clone(),
                note.model.as_deref(),
            )?,
            Some(body) => {
                let request = Request::new(note.dialect, note.url.clone(), body.clone())?;
                let request = note
                    .headers
                    .iter()
                    .try_fold(request, |request, (name, value)| {
                        request.with_header(name, value)
                    })?;
                Self::new(note.name.clone(), request)
            }
        };
        Ok(route
            .degraded(note.degraded)
            .larger_context(note.larger_context))
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("name", &self.name)
            .field("endpoint", &self.request.endpoint())
            .field("degraded", &self.degraded)
            .field("larger_context", &self.larger_context)
            .finish_non_exhaustive()
    }
}

/// The route with this number; the first is 0.
pub(super) fn route<'a>(first: &'a Route, fallbacks: &'a [Route], number: usize) -> &'a Route {
    number
        .checked_sub(1)
        .and_then(|behind| fallbacks.get(behind))
        .unwrap_or(first)
}

/// The number of the route with this name; the first when none has it.
pub(super) fn route_named(first: &Route, fallbacks: &[Route], name: &str) -> usize {
    fallbacks
        .iter()
        .position(|route| route.name() == name)
        .filter(|_| first.name() != name)
        .map_or(0, |position| position.saturating_add(1))
}
