//! The background response that is interrupted by what happens to its writer.

use streamkeep::{Dialect, Key, Request};

/// Words of the answer.
pub(crate) const WORDS: usize = 60;

pub(crate) fn key() -> Key {
    Key::new("answer").unwrap()
}

pub(crate) fn request(base: &str) -> Request {
    let body = r#"{"model":"m","input":"count","background":true}"#;
    let url = format!("{base}/v1/responses");
    Request::new(Dialect::OpenAiResponses, url, body).unwrap()
}
