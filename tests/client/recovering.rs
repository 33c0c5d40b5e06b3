//! Answers that are recovered by key: resumed, continued, regenerated.

use crate::events::{CREATED, HEL, ITEM, LO, MESSAGE_END, completed, message_begin};
use crate::{
    SECOND, background, chat, client, cut, key, messages, sse, text_of, whole, with_store,
};
use std::sync::Arc;
use streamkeep::proto::dialect::ContinuationForm;
use streamkeep::proto::journal::{Body, Control, RecoveryOption};
use streamkeep::proto::model::Generation;
use streamkeep::store::{MemoryStore, Store};
use streamkeep::transport::memory::{Exchange, MemoryTransport};
use streamkeep::{Client, ErrorKind};

#[tokio::test(start_paused = true)]
async fn regenerate_makes_a_new_generation_and_tells_readers_of_the_old_one() {
    let transport = MemoryTransport::new();
    transport.push(cut("old "));
    transport.push(whole("new"));
    let client = client(&transport);
    let old = client.call(chat()).key(key("k")).start().await.unwrap();
    old.outcome().await.unwrap();
    let new = client.regenerate(&key("k")).await.unwrap();
    assert_eq!(new.generation(), Generation::FIRST.next());
    assert_eq!(text_of(&new).await, "new");
    let mut reader = old.subscribe();
    let mut text = String::new();
    let error = loop {
        match reader.next_text().await {
            Ok(Some(piece)) => text.push_str(&piece),
            Ok(None) => panic!("the reader of the old answer was not told"),
            Err(error) => break error,
        }
    };
    assert_eq!(text, "old ");
    assert_eq!(error.kind(), ErrorKind::OldGeneration);
}

#[tokio::test(start_paused = true)]
async fn a_partial_answer_is_continued_by_key_from_another_client_as_one_message() {
    for (model, form, last_role) in [
        ("claude-sonnet-4-5", ContinuationForm::Prefill, "assistant"),
        ("claude-opus-4-6", ContinuationForm::UserMessage, "user"),
    ] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let transport = MemoryTransport::new();
        transport.push(
            sse()
                .chunk(message_begin("We need tests. "))
                .breaks(ErrorKind::Reset),
        );
        let first = with_store(&transport, Arc::clone(&store));
        let handle = first
            .call(messages(model))
            .key(key("k"))
            .start()
            .await
            .unwrap();
        let error = handle.complete().await.unwrap_err();
        assert!(error.options.contains(&RecoveryOption::Continue));

        let rest = format!(
            "{}{MESSAGE_END}",
            message_begin("We need tests for the parser, too.").replace("msg_1", "msg_2")
        );
        transport.push(sse().chunk(rest));
        let second = with_store(&transport, store);
        let handle = second.continue_answer(&key("k"), Some(form)).await.unwrap();
        let answer = handle.complete().await.unwrap();
        assert_eq!(
            answer.text(),
            "We need tests. We need tests for the parser, too."
        );
        assert_eq!(
            answer.usage.output,
            Some(1 + 12),
            "both parts are counted: {:?}",
            answer.usage
        );
        // Each attempt says what it cost itself.
        let mut costs = Vec::new();
        let mut records = handle.subscribe();
        while let Some(record) = records.next().await.unwrap() {
            if let Body::Control(control) = record.body
                && let Control::AttemptEnded(ended) = *control
            {
                costs.push((ended.usage.input, ended.usage.output));
            }
        }
        // What `message_start` says of the output is a placeholder.
        assert_eq!(costs, [(Some(31), None), (Some(31), Some(12))]);
        assert_eq!(answer.usage.input, Some(62));
        let body = &transport.calls()[1].outgoing.request.body;
        let body: serde_json::Value = serde_json::from_slice(body).unwrap();
        assert_eq!(
            body["messages"].as_array().unwrap().last().unwrap()["role"],
            last_role
        );
        let mut starts = 0;
        let mut reader = handle.subscribe();
        while let Some((_, event)) = reader.next_event().await.unwrap() {
            starts += usize::from(event.name == "message_start");
        }
        assert_eq!(starts, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_prefill_is_tried_once_in_the_other_form() {
    let transport = MemoryTransport::new();
    let refusal = r#"{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support assistant message prefill. The conversation must end with a user message."}}"#;
    transport.push(sse().chunk(message_begin("One. ")).breaks(ErrorKind::Reset));
    transport.push(
        Exchange::new()
            .head(streamkeep::proto::model::ResponseHead {
                status: 400,
                headers: vec![("content-type".into(), "application/json".into())],
            })
            .chunk(refusal),
    );
    transport.push(sse().chunk(message_begin("Two.")).chunk(MESSAGE_END));
    let client = client(&transport);
    let handle = client
        .call(messages("claude-sonnet-4-5"))
        .key(key("k"))
        .start()
        .await
        .unwrap();
    handle.outcome().await.unwrap();
    let handle = client.continue_answer(&key("k"), None).await.unwrap();
    assert_eq!(handle.complete().await.unwrap().text(), "One. Two.");
    assert_eq!(transport.calls().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_background_response_is_resumed_by_key_from_another_client() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let transport = MemoryTransport::new();
    transport.push(
        sse()
            .chunk(CREATED)
            .chunk(ITEM)
            .chunk(HEL)
            .breaks(ErrorKind::Reset),
    );
    for _ in 0..4 {
        transport.push(Exchange::new().breaks_unsent(ErrorKind::Connect));
    }
    let first = with_store(&transport, Arc::clone(&store));
    let handle = first
        .call(background())
        .key(key("k"))
        .start()
        .await
        .unwrap();
    let error = handle.complete().await.unwrap_err();
    assert_eq!(error.options.first(), Some(&RecoveryOption::Resume));

    transport.push(sse().chunk(LO).chunk(completed(4)));
    let handle = with_store(&transport, store)
        .resume(&key("k"))
        .await
        .unwrap();
    assert_eq!(handle.complete().await.unwrap().text(), "Hello");
    assert!(
        transport
            .calls()
            .last()
            .unwrap()
            .outgoing
            .request
            .url
            .ends_with("starting_after=2")
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_writer_left_is_told_with_its_partial_answer_and_options() {
    // A writer whose runtime is gone: nobody renews its lease.
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let transport = MemoryTransport::new();
    transport.push(sse().chunk(message_begin("Kept. ")).hang());
    let writer = std::thread::spawn({
        let (store, transport) = (Arc::clone(&store), transport.clone());
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            runtime.block_on(async {
                let client = Client::builder()
                    .transport(transport)
                    .shared_store(store)
                    .lease(SECOND)
                    .build()
                    .unwrap();
                let call = client.call(messages("claude-opus-4-6")).key(key("k"));
                let mut reader = call.start().await.unwrap().subscribe();
                assert_eq!(reader.next_text().await.unwrap().as_deref(), Some("Kept. "));
            });
        }
    });
    writer.join().unwrap();
    let handle = with_store(&transport, store)
        .attach(&key("k"))
        .await
        .unwrap();
    let unfinished = handle.complete().await.unwrap_err();
    assert_eq!(unfinished.error.kind(), ErrorKind::Truncated);
    assert_eq!(unfinished.partial.text(), "Kept. ");
    assert_eq!(
        unfinished.options,
        [RecoveryOption::Continue, RecoveryOption::Regenerate]
    );
}
