//! One run that writes: the answer, the control socket, the signals.

use crate::context::Context;
use crate::control::{Gone, Server};
use crate::exit::Exit;
use crate::feed::Feed;
use crate::hints::Hints;
use crate::signals::Signals;
use crate::store::Lines;
use crate::teller::Teller;
use crate::verdict::Verdict;
use std::time::Duration;
use streamkeep::client::{Attached, Handle};
use streamkeep::proto::operation::Outcome;
use streamkeep::{Client, Cursor, Error, ErrorKind, Key, Result};
use tokio::time::timeout;

/// How long to wait, at the end, until the provider has been told to stop. The
/// client gives up on that by itself a little sooner.
const LAST_WORDS: Duration = Duration::from_secs(12);

/// One run that writes an answer.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    context: &'a Context,
    client: Client,
    hints: Hints,
    server: Option<Server>,
}

impl<'a> Session<'a> {
    /// Begins to answer for the store, which this process has open.
    pub(crate) fn begin(
        context: &'a Context,
        client: Client,
        hints: Hints,
        doing: &'static str,
    ) -> Self {
        // Where others can open the store too, nobody has to answer for it.
        let server = context.place.folder().and_then(|folder| {
            Server::start(folder, &client, doing)
                .inspect_err(|error| {
                    context.talk.say(format_args!(
                        "note: no control socket in {} ({error}); other commands cannot read this store meanwhile",
                        folder.display()
                    ));
                })
                .ok()
        });
        Self {
            context,
            client,
            hints,
            server,
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Says for which key this process works.
    pub(crate) fn names(&self, key: &Key) {
        if let Some(server) = &self.server {
            server.names(key);
        }
    }

    /// Tells the answer from after a cursor to its end.
    pub(crate) async fn run(self, handle: Handle, signals: Signals, after: Cursor) -> Result<Exit> {
        let talk = &self.context.talk;
        let key = handle.key().clone();
        let is_ours = handle.attached() != Attached::Existing;
        let socket = self.server.as_ref().map(Server::socket);
        let watching = signals.watch(is_ours.then(|| handle.clone()), talk.clone(), socket);

        let mut teller = Teller::new(self.context);
        let mut lines = Lines::Here(Box::new(Feed::of(handle.subscribe(), after, false)));
        let mut told = teller.tell(&mut lines).await;
        if told.is_ok() && teller.is_unread() && is_ours {
            talk.say("stdout was closed; the answer goes on into the store (Ctrl-C stops it)");
            told = teller.tell(&mut lines).await;
        }
        let verdict = match told {
            Ok(()) if is_ours => Ok(Verdict::of_outcome(&handle.outcome().await?)),
            Ok(()) if teller.is_unread() => {
                self.end().await;
                watching.abort();
                return Ok(Exit::Complete);
            }
            Ok(()) => teller.rests().ok_or_else(|| {
                Error::new(
                    ErrorKind::Truncated,
                    "expected the answer to rest at its end, but found no such record",
                )
            }),
            // The store may be why nothing more can be read.
            Err(Gone::Failed(error)) if is_ours => match handle.outcome().await {
                Ok(outcome @ Outcome::StoreFailed(_)) => Ok(Verdict::of_outcome(&outcome)),
                _ => Err(error),
            },
            Err(Gone::Failed(error)) => Err(error),
            Err(Gone::Lost) => Err(Error::new(ErrorKind::Internal, "the own store went away")),
        };
        let ended = match &verdict {
            Ok(verdict) => teller.end(verdict, &key, &self.hints).await,
            Err(_) => Ok(Exit::Internal),
        };
        self.end().await;
        watching.abort();
        verdict?;
        ended
    }

    /// Lets the provider be told to stop, and others be told the end.
    async fn end(self) {
        let _ = timeout(LAST_WORDS, self.client.idle()).await;
        if let Some(server) = self.server {
            server.stop().await;
        }
    }
}
