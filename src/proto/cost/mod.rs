//! What an answer cost: tokens, and money by a table of prices. Floor 1.
//!
//! Everything here is told from the records of a journal, attempt by attempt, so
//! a process that never saw the answer can tell what it cost. No price is built
//! in: prices change, and a wrong one is worse than none.
//!
//! Money is counted in whole billionths of a currency unit, never in floats.

mod bill;
mod money;
mod table;
mod tokens;

pub use bill::{Bill, Fate, Line, Total};
pub use money::{Money, NotMoney};
pub use table::{Cost, Price, PriceTable};
pub use tokens::{CHARS_PER_TOKEN, Tokens};

/// A failure of this kind as a record has it.
#[cfg(test)]
fn noted(kind: &str, status: Option<u16>) -> super::journal::FailureNote {
    super::journal::FailureNote {
        kind: kind.to_owned(),
        message: "what happened".to_owned(),
        status,
        provider_type: None,
        provider_code: None,
        http_equivalent: None,
        retry_after_ms: None,
    }
}
