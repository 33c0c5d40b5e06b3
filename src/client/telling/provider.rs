//! Who a request goes to, in the words of the OpenTelemetry conventions.

use crate::proto::dialect::Request;
use crate::proto::model::Dialect;

/// Hosts, by how they end, and the well-known value of `gen_ai.provider.name`
/// for each (semantic conventions for generative AI, development, read on
/// 2026-12-01: docs/metrics.md).
const KNOWN: &[(&str, &str)] = &[
    ("api.openai.com", "openai"),
    ("api.anthropic.com", "anthropic"),
    ("openai.azure.com", "azure.ai.openai"),
    ("inference.ai.azure.com", "azure.ai.inference"),
    ("amazonaws.com", "aws.bedrock"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("api.cohere.com", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
];

/// `gen_ai.provider.name`: by the host, and where that is nobody's we know, the
/// one whose form of the wire is spoken. The conventions say that this name
/// tells the flavour apart, and `server.address` the system.
pub(super) fn name(dialect: Dialect, host: &str) -> &'static str {
    let is_its = |end: &str| {
        host.strip_suffix(end)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', '-']))
    };
    KNOWN
        .iter()
        .find(|(end, _)| is_its(end))
        .map_or_else(|| flavour(dialect), |(_, name)| name)
}

fn flavour(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::AnthropicMessages => "anthropic",
        Dialect::GeminiGenerate => "gcp.gemini",
        Dialect::OpenAiChat | Dialect::OpenAiResponses => "openai",
    }
}

/// `server.address` and `server.port`.
pub(super) fn server(request: &Request) -> (&str, u16) {
    let host = request.host();
    let plain = request
        .url()
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
    let usual = if plain { 80 } else { 443 };
    // The port stands behind the last colon, unless that belongs to an address
    // in brackets.
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().unwrap_or(usual)),
        _ => (host, usual),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_its_end_and_the_rest_by_their_dialect() {
        use Dialect::{AnthropicMessages as A, OpenAiChat as O};
        for (dialect, host, expected) in [
            (O, "api.openai.com", "openai"),
            (O, "eu.api.openai.com", "openai"),
            (O, "my-name.openai.azure.com", "azure.ai.openai"),
            (A, "bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
            (A, "us-east5-aiplatform.googleapis.com", "gcp.vertex_ai"),
            (O, "api.groq.com", "groq"),
            (O, "notapi.groq.com", "openai"),
            (O, "127.0.0.1", "openai"),
            (A, "gateway.example", "anthropic"),
        ] {
            assert_eq!(name(dialect, host), expected, "{host}");
        }
    }

    #[test]
    fn the_port_is_the_one_in_the_url_or_the_usual_one() {
        for (url, expected) in [
            (
                "https://api.openai.com/v1/chat/completions",
                ("api.openai.com", 443),
            ),
            ("HTTP://h/v1/chat/completions", ("h", 80)),
            (
                "http://127.0.0.1:8080/v1/chat/completions",
                ("127.0.0.1", 8080),
            ),
            ("https://[::1]/v1/chat/completions", ("[::1]", 443)),
            ("https://[::1]:9/v1/chat/completions", ("[::1]", 9)),
        ] {
            let request = Request::new(Dialect::OpenAiChat, url, "{}").unwrap();
            assert_eq!(server(&request), expected, "{url}");
        }
    }
}
