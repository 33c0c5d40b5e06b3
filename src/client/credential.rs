//! Secrets, and where they go.

use crate::proto::model::Dialect;
use secrecy::SecretString;

/// A credential for an upstream. `Debug` shows that there is one, never which.
///
/// It is added to a request at the last moment above the waterline, and is part
/// of no journal, log line, metric, error or URL.
#[derive(Clone, Debug)]
pub struct Credential(Form);

#[derive(Clone, Debug)]
enum Form {
    ApiKey(SecretString),
    Header(String, SecretString),
}

impl Credential {
    /// An API key, sent the way the dialect's provider expects it: `x-api-key`
    /// for Anthropic, `authorization: Bearer` elsewhere.
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
        use secrecy::ExposeSecret;
        match &self.0 {
            Form::Header(name, secret) => vec![(name.clone(), secret.clone())],
            Form::ApiKey(secret) if dialect == Dialect::AnthropicMessages => {
                vec![("x-api-key".to_owned(), secret.clone())]
            }
            Form::ApiKey(secret) => {
                let bearer = SecretString::from(format!("Bearer {}", secret.expose_secret()));
                vec![("authorization".to_owned(), bearer)]
            }
        }
    }
}
