use super::*;

const RESPONSES: &str = "https://api.example.com/v1/responses";

fn request(dialect: Dialect, url: &str, body: &str) -> Result<Request, Error> {
    Request::new(dialect, url, body.to_owned())
}

fn chat(body: &str) -> Request {
    request(
        Dialect::OpenAiChat,
        "https://a.example/v1/chat/completions",
        body,
    )
    .unwrap()
}

fn sent(request: &Request) -> &str {
    std::str::from_utf8(request.body()).unwrap()
}

#[test]
fn a_body_is_completed_and_otherwise_untouched() {
    for (dialect, body, expected) in [
        (
            Dialect::OpenAiChat,
            r#"{"model": "m", "stream": false, "x": 1e2}"#,
            r#"{"model":"m","stream":true,"x":1e2,"stream_options":{"include_usage":true}}"#,
        ),
        (
            Dialect::OpenAiChat,
            r#"{"stream":true,"stream_options":null}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            Dialect::OpenAiChat,
            r#"{ "stream":true, "stream_options":{"include_usage":false} }"#,
            r#"{ "stream":true, "stream_options":{"include_usage":false} }"#,
        ),
        (
            Dialect::AnthropicMessages,
            r#"{"model":"m","messages":[]}"#,
            r#"{"model":"m","messages":[],"stream":true}"#,
        ),
        (
            Dialect::OpenAiResponses,
            "{ \"stream\": true }\n",
            "{ \"stream\": true }\n",
        ),
        (Dialect::OpenAiResponses, "{}", r#"{"stream":true}"#),
    ] {
        let request = request(dialect, RESPONSES, body).unwrap();
        assert_eq!(sent(&request), expected);
        // Completing a completed body changes nothing.
        let again = request.with_body(request.body().clone()).unwrap();
        assert_eq!(again.body(), request.body());
        assert_eq!(again.fingerprint(), request.fingerprint(), "{body}");
    }
    assert!(!chat("{}").wanted_stream());
    assert!(chat(r#"{"stream":true}"#).wanted_stream());
    assert_eq!(chat(r#"{"model":"m"}"#).model(), Some("m"));
}

#[test]
fn the_fingerprint_is_of_the_request_and_not_of_its_writing() {
    let one = chat(r#"{"model":"m","messages":[{"role":"user","content":"é"}],"n":1}"#);
    for same in [
        "{\"n\":1.0,\"messages\":[{\"content\":\"\\u00e9\",\"role\":\"user\"}],\n \"model\":\"m\"}",
        r#"{"model":"m","messages":[{"role":"user","content":"é"}],"n":1,"stream":true}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"é"}],"n":1,"stream":false,
            "stream_options":{"include_usage":true}}"#,
    ] {
        assert_eq!(chat(same).fingerprint(), one.fingerprint(), "{same}");
    }
    for other in [
        r#"{"model":"m","messages":[{"role":"user","content":"e"}],"n":1}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"é"}],"n":2}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"é"}],"n":1,"stream_options":{}}"#,
    ] {
        assert_ne!(chat(other).fingerprint(), one.fingerprint(), "{other}");
    }
    let body = "{\"model\":\"m\"}";
    let here = request(Dialect::OpenAiChat, "https://a.example/x", body).unwrap();
    let there = request(Dialect::OpenAiChat, "https://b.example/x", body).unwrap();
    let as_message = request(Dialect::AnthropicMessages, "https://a.example/x", body).unwrap();
    assert_ne!(here.fingerprint(), there.fingerprint());
    assert_ne!(here.fingerprint(), as_message.fingerprint());
}

#[test]
fn a_fingerprint_stays_the_same_across_releases() {
    // A stored key is compared with it a day later, by another version.
    assert_eq!(
        chat(r#"{"model":"m","messages":[]}"#)
            .fingerprint()
            .to_string(),
        "555c3bac18226f64c7fd6b5c943f4bbb713978000d64bf13e711e9fd623ee938"
    );
}

#[test]
fn a_body_must_be_a_json_object() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for body in [
        "",
        "[]",
        "1",
        "\"x\"",
        "{",
        "{} {}",
        "{\"s\":\"\\ud800\"}",
        &deep,
    ] {
        let error = request(Dialect::OpenAiChat, RESPONSES, body).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{body}");
    }
    let error = Request::new(Dialect::OpenAiChat, RESPONSES, vec![b'{', 0xff]);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidRequest);
}

#[test]
fn urls_that_are_taken() {
    for url in [
        "https://api.openai.com/v1/chat/completions",
        "http://127.0.0.1:8080/v1/messages",
        "http://[::1]:8080/v1",
        "HTTPS://host",
        "https://res.openai.azure.com/openai/deployments/d/chat/completions?api-version=2025-04-01",
        "https://h/a%20b?monkey=1&tokens=2&keyword=3",
    ] {
        assert!(request(Dialect::OpenAiChat, url, "{}").is_ok(), "{url}");
    }
}

#[test]
fn urls_that_are_refused_without_showing_their_secrets() {
    for url in [
        "",
        "api.openai.com/v1",
        "/v1/chat",
        "ftp://h/x",
        "file:///etc/passwd",
        "https://",
        "https:///x",
        "https://:80/x",
        "https://user:s3cret@h/x",
        "https://s3cret@h",
        "https://h:0/x",
        "https://h:99999/x",
        "https://h:+80/x",
        "https://h:80:80/x",
        "https://[::1/x",
        "https://[h]/x",
        "https://h x/y",
        "https://h/x y",
        "https://h/x\r\nHost: evil",
        "https://h/\u{e9}",
        "https://h\\@evil/x",
        "https://h/x#f",
        "https://h/%zz",
        "https://h/%2",
        "https://h/x?key=s3cret",
        "https://h/x?a=1&API_KEY=s3cret",
        "https://h/x?api-key=s3cret",
        "https://h/x?Access_Token=s3cret",
        "https://h/x?tok%65n=s3cret",
        "https://h/x?a=1;token=s3cret",
        "https://h?token",
    ] {
        let error = request(Dialect::OpenAiChat, url, "{}").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{url}");
        assert!(!error.to_string().contains("s3cret"), "{url}: {error}");
    }
}

#[test]
fn headers_are_sorted_out() {
    let with = |name: &str, value: &str| {
        Request::new(Dialect::AnthropicMessages, RESPONSES, "{}")
            .unwrap()
            .with_header(name, value)
    };
    for name in [
        "Authorization",
        "x-api-key",
        "API-Key",
        "x-goog-api-key",
        "Cookie",
        "proxy-authorization",
        "Connection",
        "Transfer-Encoding",
        "host",
        "content-length",
        "te",
        "",
        "a b",
        "a:b",
        "a\r\nb",
    ] {
        let error = with(name, "s3cret").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{name}");
        assert!(!error.to_string().contains("s3cret"), "{name}: {error}");
    }
    assert!(with("x-note", "a\r\nb: c").is_err());
    let request = with("Anthropic-Version", "2023-06-01").unwrap();
    assert_eq!(
        request.headers(),
        [("anthropic-version".to_owned(), "2023-06-01".to_owned())]
    );
    assert!(
        with("Accept", "application/json")
            .unwrap()
            .headers()
            .is_empty()
    );
    assert!(!format!("{request:?}").contains("2023-06-01"));
}

#[test]
fn the_requests_of_an_answer() {
    let body = r#"{"background":true,"stream":true}"#;
    let request = Request::new(Dialect::OpenAiResponses, RESPONSES, body)
        .and_then(|request| request.with_header("OpenAI-Project", "p"))
        .unwrap();
    assert!(request.is_background());
    let common = |accept: &str| {
        vec![
            ("openai-project".to_owned(), "p".to_owned()),
            ("accept".to_owned(), accept.to_owned()),
            ("accept-encoding".to_owned(), "identity".to_owned()),
        ]
    };

    let mut with_type = common("text/event-stream");
    with_type.push(("content-type".to_owned(), "application/json".to_owned()));
    assert_eq!(
        request.send(),
        HttpRequest {
            method: Method::Post,
            url: RESPONSES.to_owned(),
            headers: with_type,
            body: Bytes::from(body),
        }
    );
    let resume = request.resume("resp_1", Some(2)).unwrap();
    assert_eq!(resume.method, Method::Get);
    assert_eq!(
        resume.url,
        "https://api.example.com/v1/responses/resp_1?stream=true&starting_after=2"
    );
    assert_eq!(resume.headers, common("text/event-stream"));
    assert!(resume.body.is_empty());
    let resume = request.resume("resp_1", None).unwrap();
    assert_eq!(
        resume.url,
        "https://api.example.com/v1/responses/resp_1?stream=true"
    );
    let poll = request.poll("resp_1").unwrap();
    assert_eq!(poll.url, "https://api.example.com/v1/responses/resp_1");
    assert_eq!(poll.headers, common("application/json"));
    let cancel = request.cancel("resp_1").unwrap();
    assert_eq!(cancel.method, Method::Post);
    assert_eq!(
        cancel.url,
        "https://api.example.com/v1/responses/resp_1/cancel"
    );
    assert!(cancel.body.is_empty());
}

#[test]
fn the_query_of_the_endpoint_is_kept() {
    let url = "https://r.example/openai/responses/?api-version=p";
    let request = request(Dialect::OpenAiResponses, url, "{}").unwrap();
    assert_eq!(
        request.resume("resp_1", Some(0)).unwrap().url,
        "https://r.example/openai/responses/resp_1?api-version=p&stream=true&starting_after=0"
    );
    assert_eq!(
        request.cancel("resp_1").unwrap().url,
        "https://r.example/openai/responses/resp_1/cancel?api-version=p"
    );
}

#[test]
fn a_hostile_id_leads_nowhere_else() {
    let request = request(Dialect::OpenAiResponses, RESPONSES, "{}").unwrap();
    let long = "x".repeat(600);
    for id in [
        "", ".", "..", "../admin", "a/b", "a\\b", "a?b", "a#b", "a%2Fb", "a b", "a\r\nb", "a\0",
        &long,
    ] {
        let error = request.resume(id, Some(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotPossible, "{id:?}");
        assert!(
            request.poll(id).is_err() && request.cancel(id).is_err(),
            "{id:?}"
        );
    }
    assert!(
        request
            .poll("a:b=é@")
            .unwrap()
            .url
            .ends_with("/responses/a%3Ab%3D%C3%A9%40")
    );
}

#[test]
fn other_dialects_have_no_requests_of_a_response() {
    let request = chat("{\"background\":true}");
    assert!(!request.is_background());
    assert_eq!(
        request.resume("r", None).unwrap_err().kind(),
        ErrorKind::NotPossible
    );
}

#[test]
fn anthropic_is_told_a_version_unless_the_caller_names_one() {
    let versions = |request: Request| -> Vec<String> {
        let sent = request.send().headers.into_iter();
        sent.filter(|(name, _)| name == "anthropic-version")
            .map(|(_, value)| value)
            .collect()
    };
    let request = Request::new(Dialect::AnthropicMessages, RESPONSES, "{}").unwrap();
    assert_eq!(versions(request.clone()), ["2023-06-01"]);
    let newer = request
        .with_header("anthropic-version", "2026-10-21")
        .unwrap();
    assert_eq!(versions(newer), ["2026-10-21"]);
}
