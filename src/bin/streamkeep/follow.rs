//! `streamkeep follow`.

use crate::args::FollowArgs;
use crate::context::Context;
use crate::control::Gone;
use crate::exit::Exit;
use crate::feed::Wish;
use crate::report::Wanted;
use crate::teller::Teller;
use streamkeep::{Error, ErrorKind, Result};

/// How often the process that has the store open may go away, or let this one
/// go, before a single new record has come.
const MAX_IN_VAIN: u32 = 3;

pub(crate) async fn run(context: &Context, args: FollowArgs) -> Result<Exit> {
    let mut wish = Wish {
        key: args.key,
        after: args.after,
        prompt: args.prompt,
    };
    let mut teller = Teller::new(context);
    let mut in_vain = 0_u32;
    loop {
        let mut lines = context.place.open_to_read().await?.feed(&wish).await?;
        match teller.tell(&mut lines).await {
            Ok(()) => break,
            Err(Gone::Failed(error)) => return Err(error),
            // The writer came to its end, or was killed: what it wrote is in the
            // store, and the cursor says how far we are.
            Err(Gone::Lost) => {
                let moved = teller.cursor().is_some() && teller.cursor() != wish.after;
                in_vain = if moved { 0 } else { in_vain.saturating_add(1) };
                if in_vain >= MAX_IN_VAIN {
                    return Err(Error::new(
                        ErrorKind::StoreUnavailable,
                        "expected records from the process that has the store open, but it went away again and again",
                    ));
                }
                wish.after = teller.cursor().or(wish.after);
            }
        }
    }
    // Whoever read it, as `head` does, has had enough.
    if teller.is_unread() {
        return Ok(Exit::Complete);
    }
    let verdict = if let Some(verdict) = teller.rests() {
        verdict
    } else {
        // The end lies before the cursor, or there is none.
        let cursor = teller.cursor().or(wish.after);
        let wanted = Wanted {
            key: wish.key.clone(),
            generation: cursor.map(|cursor| cursor.generation.get()),
            prompt: false,
        };
        let access = context.place.open_to_read().await?;
        access.report(wanted).await?.verdict()
    };
    teller
        .end(&verdict, &wish.key, &context.place.hints())
        .await
}
