//! A request on its way out: its turn, its credential.

use super::driver::Means;
use super::gate::{Gate, Refused};
use super::live::Registry;
use super::upstream::{Entered, Entering};
use super::{Credential, CredentialProvider};
use crate::error::{Error, ErrorKind};
use crate::proto::guards::AttemptClass;
use crate::proto::model::{Dialect, EndpointId, HttpRequest};
use crate::proto::operation::{Operation, Refusal, Reply};
use crate::transport::{Outgoing, Transport};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

/// How long a credential may take to be had.
const CREDENTIAL_LIMIT: Duration = Duration::from_secs(10);

/// How long a request may wait for its turn: a person has gone by then.
const QUEUE_LIMIT: Duration = Duration::from_secs(30);

/// How long a cancel message to the provider may take.
const TELL_LIMIT: Duration = Duration::from_secs(10);

/// A request on its way out.
pub(super) struct Sending {
    request: HttpRequest,
    dialect: Dialect,
    endpoint: EndpointId,
    provider: Option<Arc<dyn CredentialProvider>>,
    transport: Arc<dyn Transport>,
}

impl Sending {
    pub(super) fn new(
        means: &Means,
        operation: &Operation,
        route: usize,
        request: HttpRequest,
    ) -> Self {
        Self {
            request,
            dialect: operation.route(route).request().dialect(),
            endpoint: operation.route(route).guarded_as(),
            provider: credential_of(means, operation, route),
            transport: Arc::clone(&means.transport),
        }
    }

    /// Waits for its turn, then for its credential.
    pub(super) fn in_turn(self, gate: &Gate, class: AttemptClass) -> Entering {
        let gate = gate.clone();
        Box::pin(async move {
            let deadline = Instant::now() + QUEUE_LIMIT;
            let permit = gate
                .enter(&self.endpoint, class, deadline)
                .await
                .map_err(refusal)?;
            let (outgoing, credential) = self.with_credential().await?;
            Ok(Entered {
                outgoing,
                credential,
                permit,
            })
        })
    }

    /// Tells the provider something, without waiting for it. The client is not
    /// idle until that is done. It frees what is in flight, so it does not wait
    /// for its turn.
    pub(super) fn run_errand(self, live: &Registry) {
        let errand = live.errand();
        tokio::spawn(async move {
            let _errand = errand;
            let transport = Arc::clone(&self.transport);
            let told = async {
                let (outgoing, _) = self
                    .with_credential()
                    .await
                    .map_err(|refusal| refusal.kind)?;
                transport
                    .open(outgoing)
                    .await
                    .map_err(|failure| failure.kind)
            };
            match timeout(TELL_LIMIT, told).await {
                Ok(Ok(response)) => {
                    debug!(status = response.head.status, "provider was told to stop");
                }
                Ok(Err(kind)) => warn!(%kind, "provider could not be told to stop"),
                Err(_) => warn!("provider did not answer when told to stop"),
            }
        });
    }

    async fn with_credential(self) -> Result<(Outgoing, Option<Credential>), Refusal> {
        let credential = match &self.provider {
            Some(provider) => Some(current(provider.as_ref()).await?),
            None => None,
        };
        let secret_headers = credential
            .as_ref()
            .map(|credential| credential.headers(self.dialect))
            .unwrap_or_default();
        let outgoing = Outgoing {
            request: self.request,
            secret_headers,
        };
        Ok((outgoing, credential))
    }
}

fn refusal(refused: Refused) -> Refusal {
    let error = refused.to_error();
    Refusal {
        kind: error.kind(),
        message: error.message().to_owned(),
        retry_after: error.retry_after(),
    }
}

/// Where the credential of a route comes from.
pub(super) fn credential_of(
    means: &Means,
    operation: &Operation,
    route: usize,
) -> Option<Arc<dyn CredentialProvider>> {
    means
        .credentials
        .of(operation.route(route), operation.route(0))
}

async fn current(provider: &dyn CredentialProvider) -> Result<Credential, Refusal> {
    let message = match timeout(CREDENTIAL_LIMIT, provider.current()).await {
        Ok(Ok(credential)) => return Ok(credential),
        Ok(Err(error)) => format!("no credential for the request: {}", error.message()),
        Err(_) => format!(
            "no credential for the request within {} s",
            CREDENTIAL_LIMIT.as_secs()
        ),
    };
    Err(Refusal {
        kind: ErrorKind::Auth,
        message,
        retry_after: None,
    })
}

/// Whether there is another credential than the one that was refused.
pub(super) async fn refresh(
    provider: Option<Arc<dyn CredentialProvider>>,
    refused: Option<Credential>,
) -> Reply {
    let no = |message: &str| Reply::No {
        message: message.to_owned(),
        retry_after: None,
    };
    let (Some(provider), Some(refused)) = (provider, refused) else {
        return no("there is no credential for this route");
    };
    let another = async {
        // Somebody else may have refreshed it in the meantime.
        let current = provider.current().await?;
        if current.differs_from(&refused) {
            return Ok(true);
        }
        let fresh = provider.refresh(&refused).await?;
        Ok::<_, Error>(fresh.differs_from(&refused))
    };
    match timeout(CREDENTIAL_LIMIT, another).await {
        Ok(Ok(true)) => Reply::Yes,
        Ok(Ok(false)) => no("there is no other credential than the one that was refused"),
        Ok(Err(_)) => no("the credential could not be refreshed"),
        Err(_) => no("the credential was not refreshed in time"),
    }
}
