//! What a provider of chat completions does, as scripts of the transport in memory.

use crate::events::{DONE, ROLE, STOP, delta};
use streamkeep::proto::model::ResponseHead;
use streamkeep::transport::memory::Exchange;

/// The head of an event stream, and nothing yet.
pub(crate) fn sse() -> Exchange {
    Exchange::new().head(head(200, &[("content-type", "text/event-stream")]))
}

/// A whole answer.
pub(crate) fn whole(text: &str) -> Exchange {
    sse().chunk(ROLE).chunk(delta(text)).chunk(STOP).chunk(DONE)
}

/// A response that is not the answer.
pub(crate) fn refusal(status: u16, headers: &[(&str, &str)], body: &'static str) -> Exchange {
    let json = [("content-type", "application/json")];
    let headers = [headers, &json].concat();
    Exchange::new().head(head(status, &headers)).chunk(body)
}

fn head(status: u16, headers: &[(&str, &str)]) -> ResponseHead {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    ResponseHead {
        status,
        headers: headers.iter().map(owned).collect(),
    }
}
