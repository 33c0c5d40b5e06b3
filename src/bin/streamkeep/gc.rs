//! `streamkeep gc`.

use crate::context::Context;
use crate::exit::Exit;
use crate::format;
use crate::out::Out;
use crate::store;
use serde::Serialize;
use streamkeep::Result;

#[derive(Debug, Serialize)]
struct Collected {
    /// Journals removed.
    removed: u64,
    /// Journals past their time that somebody holds, and were left.
    held: u64,
}

pub(crate) async fn run(context: &Context) -> Result<Exit> {
    let client = store::client(context.place.open_existing().await?).build()?;
    let collected = client.collect().await?;
    let mut out = Out::new(&context.talk);
    if context.json {
        out.json(&Collected {
            removed: collected.journals,
            held: collected.held,
        })
        .await;
    } else {
        let held = if collected.held == 0 {
            String::new()
        } else {
            format!("; {} in use were left", collected.held)
        };
        context.talk.say(format_args!(
            "{} removed{held}",
            format::count(collected.journals, "journal")
        ));
    }
    out.finish().map(|()| Exit::Complete)
}
