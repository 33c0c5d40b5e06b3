//! What every dialect asks about a payload before it reads it.

use super::Malformed;
use crate::proto::model::{Dialect, Usage};
use crate::proto::sse::Event;
use serde::Deserialize;

use super::lenient::{Num, Obj};

/// A payload by its first character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    /// Nothing at all.
    Empty,
    /// The end marker. Official clients accept anything that begins with it
    /// (docs/providers.md#openai-chat/terminators).
    Done,
    /// It begins like an object.
    Object(&'a str),
    /// It begins like a list.
    List(&'a str),
    /// Not JSON, but the event's name says that it is an error: this is what it
    /// says. The name alone is enough, whatever the data is.
    Error(&'a str),
    /// Not JSON of any dialect.
    Noise,
}

impl<'a> Payload<'a> {
    /// Looks at the first character behind JSON's own whitespace.
    pub(super) fn of(event: &'a Event) -> Self {
        let data = event.data.trim_start_matches([' ', '\t', '\n', '\r']);
        match data.as_bytes().first() {
            Some(b'{') => Self::Object(data),
            Some(b'[') if data.starts_with("[DONE]") => Self::Done,
            Some(b'[') => Self::List(data),
            _ if event.name == "error" => Self::Error(data),
            None => Self::Empty,
            Some(_) => Self::Noise,
        }
    }
}

/// Says that a payload is not JSON, with the parser's reason and position but
/// none of the payload's text.
pub(super) fn malformed(dialect: Dialect, error: &serde_json::Error) -> Malformed {
    let what = match error.classify() {
        serde_json::error::Category::Eof => "it ends inside a value",
        serde_json::error::Category::Syntax => "it breaks JSON's syntax",
        serde_json::error::Category::Data | serde_json::error::Category::Io => {
            "it has an impossible shape"
        }
    };
    Malformed {
        dialect,
        found: format!("{what} (line {} column {})", error.line(), error.column()),
    }
}

/// A list where an object is expected, and not an error in a list.
pub(super) fn unexpected_list(dialect: Dialect) -> Malformed {
    Malformed {
        dialect,
        found: "it is a list, not an object".to_owned(),
    }
}

/// Token counts under the names of OpenAI and Anthropic.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenUsage {
    prompt_tokens: Num,
    completion_tokens: Num,
    input_tokens: Num,
    output_tokens: Num,
    prompt_tokens_details: Obj<InputDetails>,
    input_tokens_details: Obj<InputDetails>,
    completion_tokens_details: Obj<OutputDetails>,
    output_tokens_details: Obj<OutputDetails>,
    cache_read_input_tokens: Num,
    cache_creation_input_tokens: Num,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Num,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Num,
}

impl TokenUsage {
    /// As the crate counts.
    pub(super) fn usage(&self) -> Usage {
        let cached =
            |details: &Obj<InputDetails>| details.0.as_ref().and_then(|d| d.cached_tokens.0);
        let reasoning =
            |details: &Obj<OutputDetails>| details.0.as_ref().and_then(|d| d.reasoning_tokens.0);
        Usage {
            input: self.prompt_tokens.0.or(self.input_tokens.0),
            output: self.completion_tokens.0.or(self.output_tokens.0),
            cached_input: cached(&self.prompt_tokens_details)
                .or_else(|| cached(&self.input_tokens_details))
                .or(self.cache_read_input_tokens.0),
            cache_write: self.cache_creation_input_tokens.0,
            reasoning: reasoning(&self.completion_tokens_details)
                .or_else(|| reasoning(&self.output_tokens_details)),
        }
    }
}
