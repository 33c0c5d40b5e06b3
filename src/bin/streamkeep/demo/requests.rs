//! What is asked: one request per dialect, as applications send them.

use streamkeep::{Dialect, Request, Result};

/// The request of this dialect to the server at this base URL.
pub(super) fn request(dialect: Dialect, base_url: &str) -> Result<Request> {
    let url = format!("{base_url}{}", path(dialect));
    Request::new(dialect, url, body(dialect))
}

/// The path under which servers offer this dialect.
pub(super) fn path(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiResponses => "/v1/responses",
        Dialect::AnthropicMessages => "/v1/messages",
        Dialect::GeminiGenerate => "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
        _ => "/v1/chat/completions",
    }
}

pub(super) fn body(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiResponses => {
            include_str!("../../../../fixtures/requests/openai_responses.json")
        }
        Dialect::GeminiGenerate => {
            include_str!("../../../../fixtures/requests/gemini_generate.json")
        }
        Dialect::AnthropicMessages => {
            include_str!("../../../../fixtures/requests/anthropic_messages.json")
        }
        _ => include_str!("../../../../fixtures/requests/openai_chat.json"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use streamkeep::testkit::Words;

    #[test]
    fn every_dialect_has_a_request_that_is_sent_as_it_stands() {
        for dialect in Dialect::ALL.iter().copied() {
            let request = request(dialect, "http://127.0.0.1:1").unwrap();
            assert_eq!(request.body(), body(dialect).as_bytes(), "{dialect}");
            assert!(request.model().is_some(), "{dialect}");
        }
        let background = request(Dialect::OpenAiResponses, "http://127.0.0.1:1").unwrap();
        assert!(background.is_background());
    }

    /// The test kit continues an answer whose beginning stands in the prompt.
    #[test]
    fn no_request_holds_the_beginning_of_the_answer() {
        for dialect in Dialect::ALL.iter().copied() {
            assert!(
                !body(dialect).contains(&Words::numbered(1).text()),
                "{dialect}"
            );
        }
    }
}
