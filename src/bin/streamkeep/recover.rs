//! `streamkeep resume`, `continue` and `regenerate`.

use crate::args::{CredentialArgs, LimitArgs};
use crate::context::Context;
use crate::credential;
use crate::exit::Exit;
use crate::session::Session;
use crate::signals::Signals;
use crate::store;
use std::sync::Arc;
use streamkeep::client::ClientBuilder;
use streamkeep::proto::dialect::ContinuationForm;
use streamkeep::proto::journal::{Body, Control, Opened};
use streamkeep::proto::model::Seq;
use streamkeep::store::{PageLimit, Store};
use streamkeep::{Cursor, Error, ErrorKind, Key, Result};

/// How to go on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Resume,
    Continue(Option<ContinuationForm>),
    Regenerate,
}

pub(crate) async fn run(
    context: &Context,
    way: Way,
    key: &Key,
    whole: bool,
    limits: LimitArgs,
    credential: &CredentialArgs,
) -> Result<Exit> {
    let store = context.place.open_existing().await?;
    let client = limits
        .apply(client(context, store, key, credential).await?)
        .build()?;
    let hints = context.place.hints().with_credential(credential);
    let doing = match way {
        Way::Resume => "resume",
        Way::Continue(_) => "continue",
        Way::Regenerate => "regenerate",
    };
    let session = Session::begin(context, client, hints, doing);
    session.names(key);
    let client = session.client();
    store::outlive(&context.place, client, key, &context.talk).await?;
    let state = client.state(key).await?;
    let signals = Signals::install()?;
    let handle = match way {
        Way::Resume => client.resume(key).await?,
        Way::Continue(form) => client.continue_answer(key, form).await?,
        Way::Regenerate => client.regenerate(key).await?,
    };
    let start = Cursor::new(handle.generation(), Seq::ZERO);
    let after = if whole || state.generation != handle.generation() {
        start
    } else {
        Cursor::new(state.generation, state.head)
    };
    session.run(handle, signals, after).await
}

/// A client with the credential for what was asked under this key.
pub(crate) async fn client(
    context: &Context,
    store: Arc<dyn Store>,
    key: &Key,
    args: &CredentialArgs,
) -> Result<ClientBuilder> {
    let opened = opened(&*store, key).await?;
    let credential = credential::find(args, opened.dialect, &opened.url, &context.talk)?;
    let builder = store::client(store);
    Ok(match credential {
        Some(credential) => builder.credential(credential),
        None => builder,
    })
}

/// What was asked under this key.
async fn opened(store: &dyn Store, key: &Key) -> Result<Opened> {
    let state = store.state(key).await?;
    let first = PageLimit {
        records: 1,
        bytes: 1,
    };
    let page = store
        .read(key, Cursor::new(state.generation, Seq::ZERO), first)
        .await?;
    match page.records.into_iter().next().map(|record| record.body) {
        Some(Body::Control(control)) => match *control {
            Control::Opened(opened) => Ok(opened),
            _ => Err(Error::new(
                ErrorKind::StoreCorrupt,
                "expected the first record to say what was asked, but found another",
            )),
        },
        Some(_) => Err(Error::new(
            ErrorKind::StoreCorrupt,
            "expected the first record to say what was asked, but found an event",
        )),
        None => Err(Error::new(
            ErrorKind::NotPossible,
            "expected a journal that says what was asked, but its writer ended before the first record; send the request again",
        )),
    }
}
