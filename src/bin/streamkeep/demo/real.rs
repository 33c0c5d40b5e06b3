//! The same against a real server: its first answer is cut at a byte by a proxy.

use super::reader::Reader;
use super::requests;
use super::stage::{Performance, Stage, no_port};
use crate::values::dialect_of_url;
use streamkeep::client::Handle;
use streamkeep::proto::journal::{AttemptKind, Body, Control, Record, RecoveryOption};
use streamkeep::proto::model::{Phase, Seq};
use streamkeep::proto::operation::{Hold, Outcome};
use streamkeep::store::StoreExt;
use streamkeep::testkit::{ByteProxy, Cut, ProxyEnd, ProxyPlan};
use streamkeep::{Client, Credential, Cursor, Dialect, Error, ErrorKind, Request, Result};

/// After which byte of the response the first answer is cut, unless told otherwise:
/// some events into the answer of a usual server.
pub(super) const CUT_AT: u64 = 4096;

/// A real server, and what it is asked.
#[derive(Debug)]
pub(super) struct Target {
    url: String,
    dialect: Dialect,
    body: String,
    pub(super) credential: Option<Credential>,
    cut_at: u64,
}

/// How an answer of this dialect can be healed after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Live; the provider's own cursor leads on.
    Resume,
    /// Live; the model is asked to go on.
    Continue,
    /// Held back, so that it can be asked for again.
    Rerun,
}

impl Target {
    /// `url` is the whole URL of the endpoint, or the server's base URL.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when no dialect is given and the URL names none.
    pub(super) fn new(
        url: &str,
        dialect: Option<Dialect>,
        body: Option<String>,
        cut_at: u64,
    ) -> Result<Self> {
        let url = url.trim_end_matches('/');
        let dialect = dialect.or_else(|| dialect_of_url(url)).ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                "expected --dialect, or a URL whose path tells it, but found neither",
            )
        })?;
        let is_base = url
            .split_once("://")
            .is_some_and(|(_, rest)| !rest.contains('/'));
        let url = if is_base {
            format!("{url}{}", requests::path(dialect))
        } else {
            url.to_owned()
        };
        Ok(Self {
            url,
            dialect,
            body: body.unwrap_or_else(|| requests::body(dialect).to_owned()),
            credential: None,
            cut_at,
        })
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The whole URL of the endpoint.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The authority and the rest, when the bytes can be reached: plain HTTP.
    fn plain(&self) -> Option<(String, &str)> {
        let rest = self.url.strip_prefix("http://")?;
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(at)?;
        let host = authority.rsplit(']').next().unwrap_or(authority);
        if host.contains(':') {
            return Some((authority.to_owned(), path));
        }
        Some((format!("{authority}:80"), path))
    }

    fn request(&self, url: &str) -> Result<Request> {
        Request::new(self.dialect, url, self.body.clone())
    }

    fn way(&self) -> Result<Way> {
        let request = self.request(&self.url)?;
        Ok(match self.dialect {
            Dialect::AnthropicMessages => Way::Continue,
            Dialect::OpenAiResponses if request.is_background() => Way::Resume,
            _ => Way::Rerun,
        })
    }
}

impl Way {
    const fn story(self) -> &'static str {
        match self {
            Self::Resume => "resumed",
            Self::Continue => "continued",
            Self::Rerun => "held",
        }
    }

    const fn plan(self) -> &'static str {
        match self {
            Self::Resume => "The answer is live; its provider has a cursor.",
            Self::Continue => {
                "The answer is live and its provider has no cursor: after the cut the model is \
                 asked to go on. That it is joined as one message can be checked; what the model \
                 writes behind the seam is its own."
            }
            Self::Rerun => {
                "This provider has no cursor and its answers are not continued, so the answer is \
                 held back until it is complete: after the cut it is asked for again."
            }
        }
    }
}

/// One answer, cut or not.
struct Round {
    performance: Performance,
    /// Whether it was cut between its first token and its end.
    cut_in_the_middle: bool,
    /// Bytes of the last response.
    bytes: u64,
}

/// Plays it.
///
/// # Errors
///
/// What kept it from being played; how the answer ended is for the verdict.
pub(super) async fn play(stage: &mut Stage, target: &Target) -> Result<Performance> {
    let way = target.way()?;
    if target.plain().is_none() {
        stage.note("https: nobody can cut inside TLS, so the answer runs once, as it is");
        return Ok(round(stage, target, way, None, way.story())
            .await?
            .performance);
    }
    stage.note(way.plan());
    let first = round(stage, target, way, Some(target.cut_at), way.story()).await?;
    if first.cut_in_the_middle {
        return Ok(first.performance);
    }
    // Now it is known how long an answer is.
    let middle = first.bytes / 2;
    stage.act(&format!(
        "byte {} was not in the middle of the answer: a response has {} bytes here, so another \
         answer is asked for and cut at byte {middle}",
        target.cut_at, first.bytes
    ));
    let story = format!("{}-again", way.story());
    let mut second = round(stage, target, way, Some(middle), &story).await?;
    if !second.cut_in_the_middle {
        let problem = "the cut did not fall into the middle of the answer; choose with --cut-at";
        second.performance.problems.push(problem.to_owned());
    }
    Ok(second.performance)
}

async fn round(
    stage: &mut Stage,
    target: &Target,
    way: Way,
    cut_at: Option<u64>,
    story: &str,
) -> Result<Round> {
    let proxy = match (target.plain(), cut_at) {
        (Some((server, path)), Some(at)) => {
            let plan = ProxyPlan::new().on(1, Cut::Fin(at));
            let proxy = ByteProxy::start(&server, plan).await.map_err(no_port)?;
            stage.act(&format!(
                "a proxy at {} stands before {server}, and cuts the first connection at byte {at}",
                proxy.address()
            ));
            Some((proxy, path))
        }
        _ => None,
    };
    let url = match &proxy {
        Some((proxy, path)) => format!("{}{path}", proxy.url()),
        None => target.url.clone(),
    };
    let client = stage.journals.client(target.credential.clone()).await?;
    let hold = match way {
        Way::Rerun if proxy.is_some() => Hold::UntilComplete,
        _ => Hold::None,
    };
    let call = client.call(target.request(&url)?).key(stage.key(story)?);
    let mut handle = call.hold(hold).start().await?;
    let mut reader = Reader::new("reader", &handle).of_a_real_server();
    stage.watch(&mut reader).await?;
    let mut problems = Vec::new();
    if let Outcome::Interrupted(interrupted) = handle.outcome().await? {
        match go_on(&client, &handle, &interrupted.options).await {
            Ok(again) => {
                handle = again;
                reader.reconnect(&handle);
                stage.watch(&mut reader).await?;
            }
            Err(error) => problems.push(error.message().to_owned()),
        }
    }
    let from = Cursor::new(handle.generation(), Seq::ZERO);
    let journal = client.store().read_all(handle.key(), from).await?;
    let connections = proxy
        .map(|(proxy, _)| proxy.connections())
        .unwrap_or_default();
    let was_cut = connections
        .first()
        .is_some_and(|first| first.ended == Some(ProxyEnd::Cut));
    Ok(Round {
        cut_in_the_middle: was_cut && journal.iter().any(is_cut_in_the_middle),
        bytes: connections.last().map_or(0, |last| last.to_client),
        performance: Performance {
            handle,
            words: None,
            readers: vec![reader.into_transcript()],
            requests: None,
            problems,
        },
    })
}

/// Does what the interruption offers, short of asking for another answer.
async fn go_on(client: &Client, handle: &Handle, options: &[RecoveryOption]) -> Result<Handle> {
    if options.contains(&RecoveryOption::Resume) {
        client.resume(handle.key()).await
    } else if options.contains(&RecoveryOption::Continue) {
        client.continue_answer(handle.key(), None).await
    } else {
        Err(Error::new(
            ErrorKind::NotPossible,
            "nothing but another answer is offered (regenerate), and that is for you to decide",
        ))
    }
}

fn is_cut_in_the_middle(record: &Record) -> bool {
    let Body::Control(control) = &record.body else {
        return false;
    };
    let Control::AttemptEnded(ended) = control.as_ref() else {
        return false;
    };
    let had_output =
        ended.phase == Phase::MidStream || ended.decision == AttemptKind::Rerun.as_str();
    ended.failure.is_some() && had_output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, dialect: Option<Dialect>) -> Result<Target> {
        Target::new(url, dialect, None, CUT_AT)
    }

    #[test]
    fn a_base_url_gets_the_path_of_the_dialect_and_a_whole_one_tells_it() {
        let chat = Some(Dialect::OpenAiChat);
        for (given, dialect, url) in [
            (
                "http://127.0.0.1:8080",
                chat,
                "http://127.0.0.1:8080/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:8080/",
                chat,
                "http://127.0.0.1:8080/v1/chat/completions",
            ),
            (
                "http://a.test/x/chat/completions",
                None,
                "http://a.test/x/chat/completions",
            ),
            (
                "https://a.test/v1/messages",
                None,
                "https://a.test/v1/messages",
            ),
        ] {
            assert_eq!(target(given, dialect).unwrap().url, url);
        }
        let error = target("http://127.0.0.1:8080", None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
    }

    #[test]
    fn plain_http_can_be_cut_and_https_cannot() {
        for (url, expected) in [
            (
                "http://a.test/v1/messages",
                Some(("a.test:80", "/v1/messages")),
            ),
            (
                "http://[::1]:9/v1/messages",
                Some(("[::1]:9", "/v1/messages")),
            ),
            (
                "http://[::1]/v1/messages",
                Some(("[::1]:80", "/v1/messages")),
            ),
            ("https://a.test/v1/messages", None),
        ] {
            let target = target(url, None).unwrap();
            let plain = target.plain();
            assert_eq!(
                plain.as_ref().map(|(a, p)| (a.as_str(), *p)),
                expected,
                "{url}"
            );
        }
    }

    #[test]
    fn the_way_follows_from_the_dialect_and_the_request() {
        let way = |dialect, body: &str| {
            let url = "http://127.0.0.1:1";
            let body = Some(body.to_owned());
            Target::new(url, Some(dialect), body, CUT_AT).unwrap().way()
        };
        assert_eq!(way(Dialect::OpenAiChat, "{}").unwrap(), Way::Rerun);
        assert_eq!(way(Dialect::OpenAiResponses, "{}").unwrap(), Way::Rerun);
        let background = r#"{"background":true}"#;
        assert_eq!(
            way(Dialect::OpenAiResponses, background).unwrap(),
            Way::Resume
        );
        assert_eq!(
            way(Dialect::AnthropicMessages, "{}").unwrap(),
            Way::Continue
        );
        assert!(way(Dialect::OpenAiChat, "not json").is_err());
    }
}
