use super::*;
use crate::proto::model::ProviderError;

fn said(error_type: &str, code: &str, message: &str) -> ProviderError {
    let word = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ProviderError {
        error_type: word(error_type),
        code: word(code),
        message: message.to_owned(),
        ..ProviderError::default()
    }
}

fn response(status: u16, provider: ProviderError) -> Failure {
    let head = ResponseHead {
        status,
        headers: Vec::new(),
    };
    Failure::from_response(&head, provider, RetryHints::default())
}

const RETRY: Verdict = Verdict::Retry {
    at_once: false,
    stretch: 1,
};
const AT_ONCE: Verdict = Verdict::Retry {
    at_once: true,
    stretch: 1,
};
const LONGER: Verdict = Verdict::Retry {
    at_once: false,
    stretch: OVERLOAD_STRETCH,
};

#[test]
fn a_response_is_judged_by_its_status_and_its_words() {
    use ErrorKind as K;
    use Verdict::{RetryIfKeyed, Stop};
    // status, type, code, message -> kind, verdict before the stream.
    let rows: &[(u16, &str, &str, &str, ErrorKind, Verdict)] = &[
        // OpenAI.
        (
            400,
            "invalid_request_error",
            "invalid_value",
            "",
            K::Rejected,
            Stop,
        ),
        (
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "",
            K::ContextLength,
            Stop,
        ),
        (
            400,
            "invalid_request_error",
            "cyber_policy",
            "",
            K::ContentPolicy,
            Stop,
        ),
        (
            401,
            "invalid_request_error",
            "invalid_api_key",
            "",
            K::Auth,
            Verdict::RefreshCredential,
        ),
        (
            403,
            "invalid_request_error",
            "unsupported_country",
            "",
            K::Rejected,
            Stop,
        ),
        (
            404,
            "invalid_request_error",
            "model_not_found",
            "",
            K::Rejected,
            Stop,
        ),
        (
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
            "",
            K::RateLimited,
            RETRY,
        ),
        (
            429,
            "tokens",
            "rate_limit_exceeded",
            "",
            K::RateLimited,
            RETRY,
        ),
        (
            429,
            "insufficient_quota",
            "insufficient_quota",
            "",
            K::QuotaExhausted,
            Stop,
        ),
        (
            429,
            "insufficient_quota",
            "project_spend_limit_exceeded",
            "",
            K::QuotaExhausted,
            Stop,
        ),
        (
            429,
            "",
            "",
            "you have exceeded your quota, see billing",
            K::RateLimited,
            RETRY,
        ),
        (
            500,
            "server_error",
            "server_error",
            "",
            K::ServerError,
            RETRY,
        ),
        (500, "", "", "", K::ServerError, RetryIfKeyed),
        (502, "", "", "", K::ServerError, AT_ONCE),
        (
            503,
            "service_unavailable_error",
            "server_is_overloaded",
            "",
            K::Overloaded,
            LONGER,
        ),
        (503, "server_error", "", "down", K::Overloaded, LONGER),
        (504, "", "", "", K::UpstreamTimeout, RetryIfKeyed),
        (408, "", "", "", K::UpstreamTimeout, RetryIfKeyed),
        (524, "", "", "", K::UpstreamTimeout, RetryIfKeyed),
        (520, "", "", "", K::ServerError, RETRY),
        // Azure.
        (400, "", "content_filter", "", K::ContentPolicy, Stop),
        // Anthropic.
        (
            400,
            "invalid_request_error",
            "",
            "prompt is too long: 250000 tokens > 200000 maximum",
            K::ContextLength,
            Stop,
        ),
        (
            400,
            "invalid_request_error",
            "",
            "You have reached your specified API usage limits.",
            K::QuotaExhausted,
            Stop,
        ),
        (402, "billing_error", "", "", K::QuotaExhausted, Stop),
        (403, "permission_error", "", "", K::Rejected, Stop),
        (409, "conflict_error", "", "", K::Rejected, Stop),
        (413, "request_too_large", "", "", K::Rejected, Stop),
        (
            429,
            "rate_limit_error",
            "enforced_spend_limit_reached",
            "",
            K::QuotaExhausted,
            Stop,
        ),
        (500, "api_error", "", "", K::ServerError, RETRY),
        (
            504,
            "timeout_error",
            "",
            "",
            K::UpstreamTimeout,
            RetryIfKeyed,
        ),
        (529, "overloaded_error", "", "", K::Overloaded, LONGER),
        // Others.
        (422, "", "", "", K::Rejected, Stop),
        (301, "", "", "", K::Rejected, Stop),
        (418, "", "", "", K::Rejected, Stop),
        (501, "", "", "", K::Rejected, Stop),
    ];
    for (status, error_type, code, message, kind, verdict) in rows {
        let failure = response(*status, said(error_type, code, message));
        assert_eq!(failure.kind, *kind, "{status} {error_type} {code}");
        assert_eq!(
            judge(&failure, Phase::PreStream),
            *verdict,
            "{status} {error_type} {code}"
        );
        assert_eq!(judge(&failure, Phase::MidStream), Verdict::Interrupt);
    }
}

#[test]
fn an_error_in_band_is_judged_by_its_words_alone() {
    use ErrorKind as K;
    use Verdict::Stop;
    let rows: &[(&str, &str, Option<u16>, ErrorKind, Verdict)] = &[
        ("overloaded_error", "", None, K::Overloaded, LONGER),
        ("", "rate_limit_exceeded", None, K::RateLimited, RETRY),
        (
            "too_many_requests",
            "too_many_requests",
            None,
            K::RateLimited,
            RETRY,
        ),
        (
            "service_unavailable",
            "503",
            Some(503),
            K::Overloaded,
            LONGER,
        ),
        ("", "502", Some(502), K::ServerError, RETRY),
        ("", "400", Some(400), K::Rejected, Stop),
        (
            "usage_limit_reached",
            "",
            Some(429),
            K::QuotaExhausted,
            Stop,
        ),
        ("", "context_length_exceeded", None, K::ContextLength, Stop),
        ("", "insufficient_quota", None, K::QuotaExhausted, Stop),
        ("UNAVAILABLE", "", None, K::Overloaded, LONGER),
        ("throttlingException", "", None, K::RateLimited, RETRY),
        (
            "modelTimeoutException",
            "",
            None,
            K::UpstreamTimeout,
            Verdict::RetryIfKeyed,
        ),
        ("validationException", "", None, K::Rejected, Stop),
        ("", "", None, K::ServerError, RETRY),
        ("frobnicated", "", None, K::ServerError, Stop),
    ];
    for (error_type, code, http_equivalent, kind, verdict) in rows {
        let failure = Failure::in_band(ProviderError {
            http_equivalent: *http_equivalent,
            ..said(error_type, code, "x")
        });
        assert_eq!(failure.kind, *kind, "{error_type} {code}");
        assert_eq!(
            judge(&failure, Phase::PreStream),
            *verdict,
            "{error_type} {code}"
        );
    }
}

#[test]
fn what_was_never_sent_is_always_retried_and_the_unknown_only_under_a_key() {
    for kind in [
        ErrorKind::Dns,
        ErrorKind::Connect,
        ErrorKind::Tls,
        ErrorKind::ConnectTimeout,
    ] {
        let failure = Failure {
            sent: false,
            ..Failure::new(kind, "x")
        };
        assert_eq!(judge(&failure, Phase::PreSend), RETRY);
    }
    let reset = Failure::new(ErrorKind::Reset, "x");
    assert_eq!(judge(&reset, Phase::PreStream), Verdict::RetryIfKeyed);
    let refused_stream = Failure {
        sent: false,
        ..reset
    };
    assert_eq!(judge(&refused_stream, Phase::PreSend), RETRY);
}

#[test]
fn x_should_retry_is_obeyed_both_ways_but_never_after_the_commit_point() {
    let told = |should_retry, status| Failure {
        hints: RetryHints {
            after: None,
            should_retry: Some(should_retry),
        },
        ..response(status, ProviderError::default())
    };
    assert_eq!(judge(&told(false, 503), Phase::PreStream), Verdict::Stop);
    assert_eq!(judge(&told(true, 400), Phase::PreStream), RETRY);
    assert_eq!(
        judge(&told(true, 400), Phase::MidStream),
        Verdict::Interrupt
    );
}

#[test]
fn a_cancel_is_never_retried_in_any_phase() {
    let cancelled = Failure::new(ErrorKind::Cancelled, "x");
    for phase in [Phase::PreSend, Phase::PreStream, Phase::MidStream] {
        assert_eq!(judge(&cancelled, phase), Verdict::Stop);
    }
}

#[test]
fn every_kind_is_an_interruption_once_output_was_committed() {
    for kind in ErrorKind::ALL
        .iter()
        .filter(|k| **k != ErrorKind::Cancelled)
    {
        assert_eq!(
            judge(&Failure::new(*kind, "x"), Phase::MidStream),
            Verdict::Interrupt
        );
    }
}

#[test]
fn a_note_gives_the_error_back() {
    let failure = Failure {
        hints: RetryHints {
            after: Some(Duration::from_millis(1300)),
            should_retry: None,
        },
        ..response(429, said("rate_limit_error", "rate_limit_exceeded", "slow"))
    };
    let error = failure.note().to_error();
    assert_eq!(error.kind(), ErrorKind::RateLimited);
    assert_eq!(error.retry_after(), Some(Duration::from_millis(1300)));
    assert_eq!(error.place().status, Some(429));
}

#[test]
fn a_note_keeps_what_a_failure_stands_for_in_http() {
    let failure = Failure::in_band(ProviderError {
        http_equivalent: Some(529),
        retry_after: Some(Duration::from_millis(1_300)),
        ..said("overloaded_error", "", "Overloaded")
    });
    let note = failure.note();
    assert_eq!((note.status, note.http_equivalent), (None, Some(529)));
    assert_eq!(note.retry_after_ms, Some(1_300));
    assert_eq!(note.provider_type.as_deref(), Some("overloaded_error"));
}
