//! Settings of the transport over sockets.

use super::ReqwestTransport;
use crate::error::{Error, ErrorKind, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;

/// What we call ourselves where the request does not say otherwise.
const USER_AGENT: &str = concat!("streamkeep/", env!("CARGO_PKG_VERSION"));

/// Settings of [`ReqwestTransport`].
///
/// | setting | default |
/// |---|---|
/// | [`connect_timeout`](Self::connect_timeout) | 10 s |
/// | [`pool_idle_timeout`](Self::pool_idle_timeout) | 30 s |
/// | [`tcp_keepalive`](Self::tcp_keepalive) | 60 s |
/// | [`root_certificates`](Self::root_certificates) | none beside Mozilla's |
/// | [`proxies_from_env`](Self::proxies_from_env) | no |
/// | [`http2_prior_knowledge`](Self::http2_prior_knowledge) | no |
///
/// A request without a `user-agent` of its own carries `streamkeep/<version>`.
#[derive(Clone, Debug)]
pub struct ReqwestTransportBuilder {
    connect_timeout: Duration,
    pool_idle_timeout: Duration,
    tcp_keepalive: Duration,
    root_certificates: Vec<Vec<u8>>,
    proxies_from_env: bool,
    http2_prior_knowledge: bool,
}

impl Default for ReqwestTransportBuilder {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            pool_idle_timeout: Duration::from_secs(30),
            tcp_keepalive: Duration::from_secs(60),
            root_certificates: Vec::new(),
            proxies_from_env: false,
            http2_prior_knowledge: false,
        }
    }
}

impl ReqwestTransportBuilder {
    /// How long looking up the name, connecting and the TLS handshake may take
    /// together. Default 10 s: it leaves room for three lost SYN packets, which
    /// are sent again after 1, 3 and 7 s (RFC 6298 section 2), and is still short
    /// enough for another route to be tried while a person waits. More than zero.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long a connection that nobody uses is kept. Default 30 s: half of the
    /// 60 s after which common load balancers close it from their side, so that a
    /// request seldom meets a connection that is just being closed. Zero keeps
    /// none.
    pub fn pool_idle_timeout(mut self, limit: Duration) -> Self {
        self.pool_idle_timeout = limit;
        self
    }

    /// How long a connection may be silent before TCP asks whether the other end
    /// is still there, and again every 15 s. Default 60 s: address translators
    /// and load balancers on the way drop a silent connection after some minutes
    /// without telling either end, and a model may think for longer. More than
    /// zero.
    pub fn tcp_keepalive(mut self, idle: Duration) -> Self {
        self.tcp_keepalive = idle;
        self
    }

    /// Certificates to trust beside Mozilla's roots: one PEM text with one or
    /// more of them, such as the one of a company's own gateway. May be called
    /// more than once.
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates.push(pem.into());
        self
    }

    /// Whether to go through the proxy that `HTTPS_PROXY`, `HTTP_PROXY`,
    /// `ALL_PROXY` and `NO_PROXY` name. Default no: prompts and credentials
    /// should not take another way because of a variable that somebody left in
    /// the environment.
    pub fn proxies_from_env(mut self, yes: bool) -> Self {
        self.proxies_from_env = yes;
        self
    }

    /// Whether to speak HTTP/2 from the first byte, without asking. Default no:
    /// over TLS the server chooses, and in the clear it is HTTP/1.1. For servers
    /// in the own network that speak HTTP/2 in the clear (h2c).
    pub fn http2_prior_knowledge(mut self, yes: bool) -> Self {
        self.http2_prior_knowledge = yes;
        self
    }

    /// The transport.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when a certificate cannot be read, a limit is zero
    /// that must not be, or TLS cannot be set up.
    pub fn build(self) -> Result<ReqwestTransport> {
        for (name, value) in [
            ("connect timeout", self.connect_timeout),
            ("tcp keepalive", self.tcp_keepalive),
        ] {
            if value.is_zero() {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("expected a {name} of more than zero, but found zero"),
                ));
            }
        }
        let mut client = ::reqwest::Client::builder()
            .tls_backend_preconfigured(self.tls()?)
            .user_agent(USER_AGENT)
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(self.pool_idle_timeout)
            .tcp_keepalive(self.tcp_keepalive)
            .redirect(::reqwest::redirect::Policy::none())
            .referer(false)
            .retry(::reqwest::retry::never())
            // Cargo features add up over a whole build: another crate may have
            // compiled these in, and what is decoded must not depend on that.
            .no_brotli()
            .no_deflate()
            .no_gzip()
            .no_zstd();
        if self.pool_idle_timeout.is_zero() {
            client = client.pool_max_idle_per_host(0);
        }
        if !self.proxies_from_env {
            client = client.no_proxy();
        }
        if self.http2_prior_knowledge {
            client = client.http2_prior_knowledge();
        }
        let client = client.build().map_err(|error| {
            Error::new(ErrorKind::Config, "the http client could not be set up")
                .with_source(error.without_url())
        })?;
        Ok(ReqwestTransport { client })
    }

    /// TLS with our own roots and provider. Given to the client ready-made, it
    /// keeps the client from starting the verifier of the platform.
    fn tls(&self) -> Result<ClientConfig> {
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        for pem in &self.root_certificates {
            let mut found = false;
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate =
                    certificate.map_err(|error| bad_certificate().with_source(error))?;
                roots
                    .add(certificate)
                    .map_err(|error| bad_certificate().with_source(error))?;
                found = true;
            }
            if !found {
                return Err(bad_certificate());
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| {
                Error::new(ErrorKind::Config, "tls could not be set up").with_source(error)
            })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // The client does not add these to a configuration that it was given.
        tls.alpn_protocols = if self.http2_prior_knowledge {
            vec![b"h2".to_vec()]
        } else {
            vec![b"h2".to_vec(), b"http/1.1".to_vec()]
        };
        Ok(tls)
    }
}

fn bad_certificate() -> Error {
    Error::new(
        ErrorKind::Config,
        "expected certificates in PEM form to trust, but found none or a broken one",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(builder: ReqwestTransportBuilder, why: &str) {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains(why), "{error}");
    }

    #[test]
    fn what_cannot_work_is_refused_when_building() {
        let new = ReqwestTransport::builder;
        refused(new().connect_timeout(Duration::ZERO), "connect timeout");
        refused(new().tcp_keepalive(Duration::ZERO), "tcp keepalive");
        refused(new().root_certificates("not a certificate"), "PEM");
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        refused(new().root_certificates(broken), "PEM");
    }

    #[test]
    fn the_defaults_build() {
        ReqwestTransport::new().unwrap();
        ReqwestTransport::builder()
            .pool_idle_timeout(Duration::ZERO)
            .proxies_from_env(true)
            .http2_prior_knowledge(true)
            .build()
            .unwrap();
    }
}
