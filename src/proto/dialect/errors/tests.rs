use super::*;
use serde_json::json;
use std::time::Duration;

/// Type, code, status and message.
type Fields<'a> = (Option<&'a str>, Option<&'a str>, Option<u16>, &'a str);

#[track_caller]
fn check(root: &Value, name: &str, expected: Option<Fields<'_>>) {
    let found = in_band(root, name);
    let found = found.as_ref().map(|error| {
        (
            error.error_type.as_deref(),
            error.code.as_deref(),
            error.http_equivalent,
            error.message.as_str(),
        )
    });
    assert_eq!(found, expected, "{root}");
}

#[test]
fn every_in_band_shape_is_found() {
    check(
        &json!({"error":{"message":"m","type":"service_unavailable","code":503}}),
        "message",
        Some((Some("service_unavailable"), Some("503"), Some(503), "m")),
    );
    check(
        &json!({"error":"plain"}),
        "message",
        Some((None, None, None, "plain")),
    );
    check(
        &json!([{"error":{"code":503,"status":"UNAVAILABLE","message":"m"}}]),
        "message",
        Some((Some("UNAVAILABLE"), Some("503"), Some(503), "m")),
    );
    check(
        &json!({"error":[{"code":429,"message":"m"}]}),
        "message",
        Some((None, Some("429"), Some(429), "m")),
    );
    check(
        &json!({"choices":[{"error":{"code":502,"message":"m"},"finish_reason":"stop"}]}),
        "message",
        Some((None, Some("502"), Some(502), "m")),
    );
    check(
        &json!({"choices":[{"finish_reason":"abort"}]}),
        "message",
        Some((
            None,
            Some("abort"),
            None,
            "the provider ended the answer with finish reason `abort`",
        )),
    );
    check(
        &json!({"x_groq":{"id":"r","error":"over capacity"},"choices":[]}),
        "message",
        Some((None, None, None, "over capacity")),
    );
    check(
        &json!({"type":"error","code":"server_error","message":"m","param":null}),
        "error",
        Some((None, Some("server_error"), Some(500), "m")),
    );
    check(
        &json!({"type":"error","error":{"type":"overloaded_error","message":"m"}}),
        "error",
        Some((Some("overloaded_error"), None, Some(529), "m")),
    );
    check(
        &json!({"type":"response.failed","response":{"status":"failed",
            "error":{"code":"rate_limit_exceeded","message":"m"}}}),
        "response.failed",
        Some((None, Some("rate_limit_exceeded"), Some(429), "m")),
    );
    check(
        &json!({"type":"response.completed","response":{"status":"failed","error":null}}),
        "x",
        Some((None, None, None, "")),
    );
    check(
        &json!({"code":400,"details":"too many"}),
        "error",
        Some((None, Some("400"), Some(400), "too many")),
    );
    check(
        &json!({"object":"error","message":"m","type":"BadRequestError","code":400}),
        "message",
        Some((Some("BadRequestError"), Some("400"), Some(400), "m")),
    );
    check(
        &json!({"error":{"message":"Compute error."},"message":"Compute error."}),
        "message",
        Some((None, None, None, "Compute error.")),
    );
}

#[test]
fn what_says_nothing_is_not_an_error() {
    for root in [
        json!({"error":null,"choices":[]}),
        json!({"error":{},"choices":[]}),
        json!({"error":"","choices":[]}),
        json!({"error":false}),
        json!({"choices":[{"finish_reason":"stop","error":null}]}),
        json!({"type":"response.completed","response":{"status":"completed","error":null}}),
        json!([1, 2]),
        json!([]),
        json!("text"),
    ] {
        check(&root, "message", None);
    }
}

#[test]
fn a_number_is_a_status_only_if_it_is_one() {
    for (code, status) in [
        (json!(400), Some(400)),
        (json!("599"), Some(599)),
        (json!(399), None),
        (json!(600), None),
        (json!(1302), None),
        (json!(-503), None),
        (json!("50x"), None),
    ] {
        let error = in_band(&json!({"error":{"code":code}}), "message").unwrap();
        assert_eq!(error.http_equivalent, status, "{code}");
    }
}

#[test]
fn waits_are_found_in_figures_and_in_prose() {
    for (root, millis) in [
        (json!({"error":{"resets_in_seconds":9568}}), 9_568_000),
        (
            json!({"error":{"message":"Please try again in 1.3s."}}),
            1_300,
        ),
        (
            json!({"error":{"message":"Try again in 35 seconds"}}),
            35_000,
        ),
        (
            json!({"error":{"details":[{"@type":"x"},{"retryDelay":"46s"}]}}),
            46_000,
        ),
        (json!({"error":{"metadata":{"retry_after_ms":250}}}), 250),
        (json!({"error":"please try again in 28ms"}), 28),
    ] {
        let error = in_band(&root, "message").unwrap();
        assert_eq!(
            error.retry_after,
            Some(Duration::from_millis(millis)),
            "{root}"
        );
    }
}

#[test]
fn a_spend_limit_of_anthropic_is_told_by_its_code() {
    let body = json!({"type":"error","request_id":"req_1","error":{"type":"rate_limit_error",
        "message":"m","details":{"error_code":"enforced_spend_limit_reached"}}});
    let error = whole(&body).unwrap();
    assert_eq!(error.code.as_deref(), Some("enforced_spend_limit_reached"));
    assert_eq!(error.http_equivalent, Some(429));
}

#[test]
fn whole_bodies_that_are_errors() {
    for (body, message) in [
        (json!({"detail":"Not Found"}), "Not Found"),
        (
            json!({"detail":[{"loc":["body"],"msg":"field required"},{"msg":"too long"}]}),
            "field required; too long",
        ),
        (
            json!({"statusCode":401,"message":"Access denied"}),
            "Access denied",
        ),
        (json!("plain"), "plain"),
        (json!([{"error":{"message":"wrapped"}}]), "wrapped"),
        (json!({"errors":[{"message":"first"}]}), "first"),
        (
            json!({"object":"response","status":"failed","error":{"message":"m"}}),
            "m",
        ),
    ] {
        assert_eq!(whole(&body).unwrap().message, message, "{body}");
    }
}

#[test]
fn whole_bodies_that_are_answers() {
    for body in [
        json!({"object":"chat.completion","choices":[{"message":{}}],"error":null}),
        json!({"object":"response","status":"completed","error":null,"message":"x"}),
        json!({"type":"message","content":[]}),
        json!({}),
        json!(1),
    ] {
        assert_eq!(whole(&body), None, "{body}");
    }
}
