//! `streamkeep list`.

use crate::context::Context;
use crate::exit::Exit;
use crate::format;
use crate::out::Out;
use crate::table::Table;
use streamkeep::Result;

pub(crate) async fn run(context: &Context) -> Result<Exit> {
    let entries = context.place.open_to_read().await?.entries().await?;
    let mut out = Out::new(&context.talk);
    if context.json {
        for entry in &entries {
            out.json(entry).await;
        }
        return out.finish().map(|()| Exit::Complete);
    }
    if entries.is_empty() {
        context
            .talk
            .say(format_args!("no answers in {}", context.place));
        return Ok(Exit::Complete);
    }
    let mut table = Table::new(&[
        "KEY",
        "STATUS",
        "GENERATION",
        "RECORDS",
        "SIZE",
        "UPDATED",
        "KEPT UNTIL",
    ]);
    for entry in entries {
        table.row(vec![
            entry.key.to_string(),
            entry.status,
            entry.generation.to_string(),
            entry.records.to_string(),
            format::bytes(entry.bytes),
            format::date(entry.updated_at_ms),
            format::date(entry.expires_at_ms),
        ]);
    }
    out.text(&table.render(0)).await;
    out.finish().map(|()| Exit::Complete)
}
