//! Every stream has its dialect's shape.

use crate::wire::{BodyEnd, End, STREAM, ask, exchange, path, text_of};
use serde_json::{Value, json};
use streamkeep::proto::model::Dialect;
use streamkeep::testkit::{Ending, Scenario, Upstream, Words};

/// One scenario of each kind, by name.
fn scenarios(dialect: Dialect) -> Vec<(&'static str, Scenario)> {
    let base = || Scenario::of(dialect).words(30);
    let tools = |s: Scenario| {
        s.tool_call("left", &json!({"city": "Riga", "n": [1, 2, 3]}))
            .tool_call("right", &json!({"größe": "東京"}))
    };
    vec![
        ("plain", base()),
        ("reasoning", base().reasoning("let me think about it")),
        ("tools", tools(base())),
        ("tools only", tools(base().text(""))),
        ("refusal", base().refusal("I can not help with that")),
        ("length", base().ending(Ending::Length)),
        ("filter", base().ending(Ending::ContentFilter)),
        (
            "signs of life",
            base().keepalive_every(4).vendor_note_every(7),
        ),
        ("given text", base().text("größe, 東京 and\nnew lines")),
        ("no text", base().text("")),
        (
            "everything",
            tools(base().reasoning("hm hm"))
                .keepalive_every(1)
                .vendor_note_every(1),
        ),
    ]
}

async fn payloads_of(dialect: Dialect, name: &str, scenario: Scenario) -> Vec<Value> {
    let upstream = Upstream::start(scenario).await.unwrap();
    let got = ask(&upstream.url(), dialect).await;
    assert_eq!(
        (got.status(), got.end, got.body_end()),
        (200, End::Fin, BodyEnd::Whole),
        "{name}"
    );
    assert_eq!(got.header("content-type"), Some("text/event-stream"));
    for (event, data) in got.events() {
        // Named events repeat their name in the payload.
        if dialect == Dialect::OpenAiChat {
            assert_eq!(event, "", "{name}");
        } else {
            let payload: Value = serde_json::from_str(&data).unwrap();
            assert_eq!(payload["type"], event, "{name}");
        }
    }
    if dialect == Dialect::OpenAiChat {
        assert_eq!(got.events().last().unwrap().1, "[DONE]", "{name}");
    }
    let sent = upstream.wait_for_requests(1).await[0].events_sent;
    let on_wire = String::from_utf8(got.body())
        .unwrap()
        .matches("\n\n")
        .count();
    assert_eq!(sent, on_wire, "{name}");
    got.payloads()
}

#[tokio::test]
async fn a_chat_stream_has_one_id_a_finish_reason_and_usage_without_choices() {
    for (name, scenario) in scenarios(Dialect::OpenAiChat) {
        let all = payloads_of(Dialect::OpenAiChat, name, scenario).await;
        for chunk in &all {
            assert_eq!(chunk["id"], "chatcmpl-1", "{name}");
            assert_eq!(chunk["object"], "chat.completion.chunk", "{name}");
        }
        assert_eq!(all[0]["choices"][0]["delta"]["role"], "assistant", "{name}");
        let [.., finish, usage] = &all[..] else {
            panic!("{name}")
        };
        assert_eq!(usage["choices"], json!([]), "{name}");
        let expected = match name {
            "tools" | "tools only" | "everything" => "tool_calls",
            "length" => "length",
            "filter" => "content_filter",
            _ => "stop",
        };
        assert_eq!(finish["choices"][0]["finish_reason"], expected, "{name}");
        let outputs = all
            .iter()
            .filter_map(|c| c["choices"][0]["delta"].as_object())
            .filter(|delta| {
                ["content", "reasoning_content", "refusal"]
                    .iter()
                    .any(|key| delta.get(*key).is_some_and(|v| v != ""))
                    || delta
                        .get("tool_calls")
                        .is_some_and(|calls| calls[0]["function"]["arguments"] != "")
            })
            .count();
        let usage = &usage["usage"];
        assert_eq!(usage["completion_tokens"], outputs, "{name}");
        assert_eq!(usage["total_tokens"], outputs + 12, "{name}");
    }
}

#[tokio::test]
async fn parallel_chat_tool_calls_come_interleaved_and_whole() {
    let (_, scenario) = scenarios(Dialect::OpenAiChat).remove(2);
    let all = payloads_of(Dialect::OpenAiChat, "tools", scenario).await;
    let calls: Vec<&Value> = all
        .iter()
        .map(|c| &c["choices"][0]["delta"]["tool_calls"][0])
        .filter(|call| !call.is_null())
        .collect();
    let order: Vec<u64> = calls.iter().map(|c| c["index"].as_u64().unwrap()).collect();
    assert_eq!(order[..6], [0, 1, 0, 1, 0, 1]);
    let arguments = |index: u64| -> Value {
        let text: String = calls
            .iter()
            .filter(|c| c["index"] == index)
            .map(|c| c["function"]["arguments"].as_str().unwrap())
            .collect();
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(arguments(0), json!({"city": "Riga", "n": [1, 2, 3]}));
    assert_eq!(arguments(1), json!({"größe": "東京"}));
}

#[tokio::test]
async fn a_responses_stream_is_numbered_without_a_gap_and_ends_with_everything() {
    for (name, scenario) in scenarios(Dialect::OpenAiResponses) {
        let all = payloads_of(Dialect::OpenAiResponses, name, scenario).await;
        let numbers: Vec<u64> = all
            .iter()
            .filter(|e| e["type"] != "response.vendor_note")
            .map(|e| e["sequence_number"].as_u64().unwrap())
            .collect();
        let dense: Vec<u64> = (0..).take(numbers.len()).collect();
        assert_eq!(numbers, dense, "{name}");
        assert_eq!(all[0]["type"], "response.created", "{name}");
        let last = all.last().unwrap();
        let (kind, status) = match name {
            "length" | "filter" => ("response.incomplete", "incomplete"),
            _ => ("response.completed", "completed"),
        };
        assert_eq!(
            (&last["type"], &last["response"]["status"]),
            (&json!(kind), &json!(status))
        );
        // What the deltas say, the terminal event repeats.
        for item in last["response"]["output"].as_array().unwrap() {
            let deltas: String = all
                .iter()
                .filter(|e| e["item_id"] == item["id"])
                .filter_map(|e| e["delta"].as_str())
                .collect();
            let whole = match item["type"].as_str().unwrap() {
                "message" => item["content"][0]
                    .get("text")
                    .unwrap_or_else(|| &item["content"][0]["refusal"]),
                "reasoning" => &item["summary"][0]["text"],
                "function_call" => &item["arguments"],
                other => panic!("{other}"),
            };
            assert_eq!(*whole, deltas, "{name}");
        }
        let deltas = all.iter().filter(|e| e.get("delta").is_some()).count();
        let usage = &last["response"]["usage"];
        assert_eq!(usage["output_tokens"], deltas, "{name}");
        assert_eq!(usage["total_tokens"], deltas + 12, "{name}");
    }
}

#[tokio::test]
async fn an_anthropic_stream_opens_and_closes_each_block_and_stops() {
    for (name, scenario) in scenarios(Dialect::AnthropicMessages) {
        let all = payloads_of(Dialect::AnthropicMessages, name, scenario).await;
        assert_eq!(all[0]["type"], "message_start", "{name}");
        let mut open: Option<u64> = None;
        let mut blocks = 0_u64;
        let mut outputs = 0_u64;
        for event in &all {
            match event["type"].as_str().unwrap() {
                "content_block_start" => {
                    assert_eq!(
                        (open, event["index"].as_u64()),
                        (None, Some(blocks)),
                        "{name}"
                    );
                    open = Some(blocks);
                }
                "content_block_delta" => {
                    assert_eq!(event["index"].as_u64(), open, "{name}");
                    let delta = &event["delta"];
                    outputs += u64::from(
                        delta["type"] != "signature_delta" && delta["partial_json"] != "",
                    );
                }
                "content_block_stop" => {
                    assert_eq!(event["index"].as_u64(), open.take(), "{name}");
                    blocks += 1;
                }
                _ => {}
            }
        }
        assert_eq!(open, None, "{name}");
        let [.., delta, stop] = &all[..] else {
            panic!("{name}")
        };
        assert_eq!(stop["type"], "message_stop", "{name}");
        let expected = match name {
            "tools" | "tools only" | "everything" => "tool_use",
            "length" => "max_tokens",
            "filter" | "refusal" => "refusal",
            _ => "end_turn",
        };
        assert_eq!(delta["delta"]["stop_reason"], expected, "{name}");
        assert_eq!(delta["usage"]["output_tokens"], outputs, "{name}");
    }
}

#[tokio::test]
async fn the_words_of_every_dialect_prove_themselves() {
    for dialect in Dialect::ALL {
        let upstream = Upstream::start(Scenario::of(*dialect).words(250))
            .await
            .unwrap();
        let got = ask(&upstream.url(), *dialect).await;
        assert_eq!(
            Words::numbered(250).count_in(&text_of(&got.payloads())),
            Ok(250)
        );
    }
}

#[tokio::test]
async fn the_same_scenario_gives_the_same_bytes() {
    for dialect in Dialect::ALL {
        let mut bodies = Vec::new();
        for _ in 0..2 {
            let upstream = Upstream::start(Scenario::of(*dialect)).await.unwrap();
            bodies.push(ask(&upstream.url(), *dialect).await.rest);
        }
        assert_eq!(bodies[0], bodies[1]);
    }
}

#[tokio::test]
async fn without_stream_the_answer_is_one_document() {
    for dialect in Dialect::ALL {
        let scenario = Scenario::any_dialect()
            .words(3)
            .reasoning("hm")
            .tool_call("f", &json!({"a": 1}));
        let upstream = Upstream::start(scenario).await.unwrap();
        let body = r#"{"model":"m"}"#;
        // Gemini says in the URL whether it streams.
        let path = path(*dialect).replace("streamGenerateContent", "generateContent");
        let got = exchange(&upstream.url(), "POST", &path, body).await;
        assert_eq!(got.header("content-type"), Some("application/json"));
        let got = got.json();
        let model = match dialect {
            Dialect::GeminiGenerate => "modelVersion",
            _ => "model",
        };
        assert_eq!(got[model], "m");
        match dialect {
            Dialect::GeminiGenerate => {
                let parts = &got["candidates"][0]["content"]["parts"];
                assert_eq!(parts[1]["text"], "w1 w2 w3");
                assert_eq!(parts[2]["functionCall"]["args"], json!({"a": 1}));
                assert_eq!(got["candidates"][0]["finishReason"], "STOP");
            }
            Dialect::OpenAiChat => {
                assert_eq!(got["choices"][0]["message"]["content"], "w1 w2 w3");
                assert_eq!(got["choices"][0]["finish_reason"], "tool_calls");
            }
            Dialect::OpenAiResponses => {
                assert_eq!(got["output"][1]["content"][0]["text"], "w1 w2 w3");
                assert_eq!(got["output"][2]["arguments"], r#"{"a":1}"#);
                assert_eq!(got["status"], "completed");
            }
            _ => {
                assert_eq!(got["content"][1]["text"], "w1 w2 w3");
                assert_eq!(got["content"][2]["input"], json!({"a": 1}));
                assert_eq!(got["stop_reason"], "tool_use");
            }
        }
    }
}

#[tokio::test]
async fn what_is_no_route_or_no_request_is_refused_in_the_dialects_words() {
    let upstream = Upstream::start(Scenario::anthropic()).await.unwrap();
    let url = upstream.url();
    for (method, target, body, status) in [
        ("POST", "/v1/chat/completions", STREAM, 404),
        ("POST", "/v1/other", STREAM, 404),
        ("GET", "/v1/messages", "", 405),
        ("POST", "/v1/messages", "no json", 400),
        ("POST", "/v1/messages", "[]", 400),
    ] {
        let got = exchange(&url, method, target, body).await;
        assert_eq!(got.status(), status, "{method} {target}");
        assert!(got.json()["error"]["message"].is_string());
    }
}

#[tokio::test]
async fn a_partial_answer_in_the_prompt_is_gone_on_with() {
    let scenario = || {
        Scenario::openai_chat()
            .words(10)
            .continues_partial_answers()
    };
    for (messages, rest) in [
        (
            json!([{"role": "user", "content": "count"}]),
            "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10",
        ),
        (
            json!([{"role": "user", "content": "count"}, {"role": "assistant", "content": "w1 w2 w3 w4"}]),
            " w5 w6 w7 w8 w9 w10",
        ),
        (
            json!([{"role": "user", "content": "so far: <<w1 w2 w3>>, go on"}]),
            " w4 w5 w6 w7 w8 w9 w10",
        ),
    ] {
        let upstream = Upstream::start(scenario()).await.unwrap();
        let body = json!({"model": "m", "stream": true, "messages": messages}).to_string();
        let got = exchange(&upstream.url(), "POST", "/v1/chat/completions", &body).await;
        assert_eq!(text_of(&got.payloads()), rest);
    }
}

#[tokio::test]
async fn a_request_can_have_a_text_of_its_own() {
    let upstream = Upstream::start(Scenario::openai_chat().words(2).text_on(2, "another"))
        .await
        .unwrap();
    let mut texts = Vec::new();
    for _ in 0..3 {
        texts.push(text_of(
            &ask(&upstream.url(), Dialect::OpenAiChat).await.payloads(),
        ));
    }
    assert_eq!(texts, ["w1 w2", "another", "w1 w2"]);
}
