//! Secrets, where they come from, and where they go.

use crate::error::Result;
use crate::proto::model::Dialect;
use crate::proto::operation::Route;
use futures_core::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::sync::Arc;

/// A credential for an upstream. `Debug` shows that there is one, never which.
///
/// It is added to a request at the last moment above the waterline, and is part
/// of no journal, log line, metric, error or URL.
#[derive(Clone)]
pub struct Credential(Form);

#[derive(Clone)]
enum Form {
    ApiKey(SecretString),
    Header(String, SecretString),
}

impl fmt::Debug for Credential {
    /// Not even the header's name: a secret may have been given in its place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Form::ApiKey(_) => "Credential(ApiKey)",
            Form::Header(..) => "Credential(Header)",
        })
    }
}

impl Credential {
    /// An API key, sent the way the dialect's provider expects it: `x-api-key`
    /// for Anthropic, `x-goog-api-key` for Gemini, `authorization: Bearer` elsewhere.
    pub fn api_key(secret: impl Into<String>) -> Self {
        Self(Form::ApiKey(SecretString::from(secret.into())))
    }

    /// A header of your own, such as `api-key` for Azure.
    pub fn header(name: impl Into<String>, secret: impl Into<String>) -> Self {
        Self(Form::Header(
            name.into().to_ascii_lowercase(),
            SecretString::from(secret.into()),
        ))
    }

    /// The secret headers for a request of this dialect.
    pub(super) fn headers(&self, dialect: Dialect) -> Vec<(String, SecretString)> {
        match &self.0 {
            Form::Header(name, secret) => vec![(name.clone(), secret.clone())],
            Form::ApiKey(secret) if dialect == Dialect::AnthropicMessages => {
                vec![("x-api-key".to_owned(), secret.clone())]
            }
            Form::ApiKey(secret) if dialect == Dialect::GeminiGenerate => {
                vec![("x-goog-api-key".to_owned(), secret.clone())]
            }
            Form::ApiKey(secret) => {
                let bearer = SecretString::from(format!("Bearer {}", secret.expose_secret()));
                vec![("authorization".to_owned(), bearer)]
            }
        }
    }

    /// The secret itself, to find it in what others say.
    pub(super) fn secret(&self) -> &str {
        match &self.0 {
            Form::ApiKey(secret) | Form::Header(_, secret) => secret.expose_secret(),
        }
    }

    /// Whether it is another secret, or goes another way.
    pub(super) fn differs_from(&self, other: &Self) -> bool {
        let same = |ours: &SecretString, theirs: &SecretString| {
            ours.expose_secret() == theirs.expose_secret()
        };
        match (&self.0, &other.0) {
            (Form::ApiKey(ours), Form::ApiKey(theirs)) => !same(ours, theirs),
            (Form::Header(name, ours), Form::Header(other, theirs)) => {
                name != other || !same(ours, theirs)
            }
            _ => true,
        }
    }
}

/// Where credentials come from that are rotated, or expire.
///
/// A [`Credential`] is one itself, which never changes. Both methods are given
/// 10 s; longer counts as a failure.
///
/// # Cancel safety
///
/// The futures may be dropped at any time.
pub trait CredentialProvider: fmt::Debug + Send + Sync + 'static {
    /// The credential to send a request with now. Asked for every request, so
    /// it should come from memory.
    ///
    /// # Errors
    ///
    /// Any; the request is then not sent, and fails as
    /// [`Auth`](crate::ErrorKind::Auth). The message must hold no secret.
    fn current(&self) -> BoxFuture<'_, Result<Credential>>;

    /// The provider answered 401 to this one: another, if there is one. The
    /// request is sent once more, and only if what comes back is different.
    ///
    /// # Errors
    ///
    /// Any; the request then fails as it had.
    fn refresh<'a>(&'a self, refused: &'a Credential) -> BoxFuture<'a, Result<Credential>>;
}

impl CredentialProvider for Credential {
    fn current(&self) -> BoxFuture<'_, Result<Credential>> {
        Box::pin(ready(Ok(self.clone())))
    }

    fn refresh<'a>(&'a self, _: &'a Credential) -> BoxFuture<'a, Result<Credential>> {
        self.current()
    }
}

/// The credentials of a client, by route.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials {
    default: Option<Arc<dyn CredentialProvider>>,
    routes: HashMap<String, Arc<dyn CredentialProvider>>,
}

impl Credentials {
    pub(super) fn set_default(&mut self, provider: Arc<dyn CredentialProvider>) {
        self.default = Some(provider);
    }

    pub(super) fn set(&mut self, route: String, provider: Arc<dyn CredentialProvider>) {
        self.routes.insert(route, provider);
    }

    /// Where the credential of a route comes from. The default one is for the
    /// first route's host alone: it must not be shown to another provider.
    pub(super) fn of(&self, route: &Route, first: &Route) -> Option<Arc<dyn CredentialProvider>> {
        let by_name = self.routes.get(route.name());
        let default = || {
            let same_host = route.request().host() == first.request().host();
            self.default.as_ref().filter(|_| same_host)
        };
        by_name.or_else(default).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_differs_by_its_secret_and_by_the_way_it_goes() {
        let key = Credential::api_key("a");
        assert!(!key.differs_from(&Credential::api_key("a")));
        assert!(key.differs_from(&Credential::api_key("b")));
        assert!(key.differs_from(&Credential::header("x-api-key", "a")));
        let header = Credential::header("api-key", "a");
        assert!(!header.differs_from(&Credential::header("API-Key", "a")));
        assert!(header.differs_from(&Credential::header("x-api-key", "a")));
        assert!(header.differs_from(&Credential::header("api-key", "b")));
    }
}
