//! How long a reader waited because something failed.

use streamkeep::proto::journal::{Body, Control, Record};

/// Milliseconds lost to failures, by the times of the records.
///
/// Before the first token: from the start until the attempt that brought it began.
/// After it: the pause between the last token before a failure and the next one.
pub(super) fn lost_ms(journal: &[Record]) -> u64 {
    let mut lost = 0_u64;
    // The last moment at which all was well.
    let mut well = journal.first().map_or(0, |record| record.at.as_millis());
    let mut attempt_began = well;
    let mut attempt_open = false;
    let mut failed = false;
    let mut shown = false;
    for record in journal {
        let at = record.at.as_millis();
        match &record.body {
            Body::Event(_) => {
                if failed {
                    let until = if shown { at } else { attempt_began };
                    lost = lost.saturating_add(until.saturating_sub(well));
                }
                failed = false;
                shown = true;
                well = at;
            }
            Body::Control(control) => match control.as_ref() {
                Control::AttemptStarted(_) => {
                    // One that never ended died with its process.
                    failed |= attempt_open;
                    attempt_open = true;
                    attempt_began = at;
                }
                Control::AttemptEnded(ended) => {
                    failed |= ended.failure.is_some();
                    attempt_open = false;
                }
                _ => {}
            },
            _ => {}
        }
    }
    lost
}
