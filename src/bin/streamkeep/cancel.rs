//! `streamkeep cancel`.

use crate::args::CancelArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::hints::Hints;
use crate::out::Out;
use crate::recover;
use crate::store::{self, Access};
use crate::verdict::Verdict;
use std::time::Duration;
use streamkeep::Result;
use streamkeep::proto::journal::End;
use tokio::time::timeout;

/// How long the provider may take to be told to stop.
const LAST_WORDS: Duration = Duration::from_secs(12);

pub(crate) async fn run(context: &Context, args: CancelArgs) -> Result<Exit> {
    let key = &args.key;
    let verdict = match context.place.open_to_read().await? {
        Access::There(there) => there.cancel(key).await?,
        Access::Here { store, .. } => {
            let client = recover::client(context, store, key, &args.credential)
                .await?
                .build()?;
            store::outlive(&context.place, &client, key, &context.talk).await?;
            let outcome = client.cancel(key).await?;
            let _ = timeout(LAST_WORDS, client.idle()).await;
            Verdict::of_outcome(&outcome)
        }
    };
    let mut out = Out::new(&context.talk);
    if context.json {
        out.json(&verdict.line(key, None, &Hints::default())).await;
    } else if verdict.is(End::Cancelled) {
        context
            .talk
            .say(format_args!("{key} is cancelled; what arrived is kept"));
    } else {
        context
            .talk
            .say(format_args!("{key} had ended before: {}", verdict.outcome));
    }
    out.finish().map(|()| Exit::Complete)
}
