//! Cases whose actions a client can do without a gateway: readers that come, go
//! and come back, and calls that are cancelled.
//!
//! A reader stands for a browser's connection, a cursor for its event id.

use crate::check;
use crate::fixtures::{Case, Texts};
use crate::play::{Played, Stage, attempt_end, read_text, records_of};
use bytes::BytesMut;
use streamkeep::client::{Handle, Subscription};
use streamkeep::proto::journal::{Body, Delivered, Record, Status};
use streamkeep::proto::model::Cursor;
use streamkeep::proto::sse::{Decoder, DecoderConfig, Item, Outgoing};

/// Cases with actions that are played here, or that a plain play serves.
pub(crate) const PLAYED: &[&str] = &[
    "AB-06", "ID-03", "RP-16", "RS-01", "RS-04", "RS-12", "RS-18", "RS-19", "RS-21", "RS-22",
];

/// Plays a case with actions; what is not as it should be.
pub(crate) async fn act(case: &Case) -> Vec<String> {
    match case.id.as_str() {
        "AB-06" => cancelled_in_the_stream(case).await,
        "RP-16" => cancelled_in_the_pause(case).await,
        "RS-01" => several_readers(case).await,
        "RS-04" => back_after_the_end(case).await,
        "RS-12" => reload(case).await,
        "RS-18" => ids_and_starts(case).await,
        "RS-19" => slow_reader(case).await,
        "RS-21" => first_reader_leaves(case).await,
        "RS-22" => newlines(case),
        other => panic!("nothing is known about the actions of {other}"),
    }
}

/// Cancel behind three events: the upstream is closed, nothing is appended any
/// more, and the answer is kept as a cancelled one.
async fn cancelled_in_the_stream(case: &Case) -> Vec<String> {
    let stage = Stage::set(case, &case.id).await;
    let handle = stage.start(case).await;
    let mut reader = handle.subscribe();
    let seen = events(&mut reader, 3).await;
    handle.cancel().await.unwrap();
    let kept = stage.client.state(handle.key()).await.unwrap();
    let before = records_of(&handle).await;
    let left = stage.server.wait_until_closed(1).await;
    let after = records_of(&handle).await;
    let mut wrong = Vec::new();
    let status = match kept.status {
        Status::Ended(end) => end.as_str(),
        other => other.as_str(),
    };
    expect(
        &mut wrong,
        "stored_status",
        case.expect.stored_status.as_deref(),
        Some(status),
    );
    expect(
        &mut wrong,
        "no_append_after_cancel",
        case.expect.no_append_after_cancel,
        Some(before == after),
    );
    expect(&mut wrong, "upstream closed", Some(true), Some(left));
    let stored: Vec<_> = delivered(&before).cloned().collect();
    expect(
        &mut wrong,
        "what was read is kept",
        Some(true),
        Some(stored.starts_with(&seen)),
    );
    wrong
}

/// Cancel while the client waits to try again: no second request, ever.
async fn cancelled_in_the_pause(case: &Case) -> Vec<String> {
    let stage = Stage::set(case, &case.id).await;
    let handle = stage.start(case).await;
    let mut reader = handle.subscribe();
    while let Some(record) = reader.next().await.unwrap() {
        if attempt_end(&record).is_some() {
            break;
        }
    }
    let outcome = handle.cancel().await.unwrap();
    let records = records_of(&handle).await;
    let played: Played = stage.end(&handle, records, outcome, String::new()).await;
    check::check(case, &played)
}

/// Three readers of one answer, one of them late: each has all of it.
async fn several_readers(case: &Case) -> Vec<String> {
    let stage = Stage::set(case, &case.id).await;
    let a = stage.start(case).await;
    let b = stage.client.attach(a.key()).await.unwrap();
    let first = tokio::spawn(read_text(a.clone()));
    let second = tokio::spawn(read_text(b));
    events(&mut a.subscribe(), 1).await;
    let c = stage.client.attach(a.key()).await.unwrap();
    let third = read_text(c).await;
    let found = [first.await.unwrap(), second.await.unwrap(), third];
    let mut wrong = Vec::new();
    let Some(Texts::PerReader(expected)) = &case.expect.text else {
        panic!("{} has one reader", case.id);
    };
    for (name, text) in ["A", "B", "C"].iter().zip(&found) {
        expect(&mut wrong, name, expected.get(*name), Some(text));
    }
    let connections = u64::try_from(stage.server.connections()).unwrap();
    expect(
        &mut wrong,
        "upstream_connections",
        case.expect.upstream_connections,
        Some(connections),
    );
    wrong
}

/// A reader drops behind its first event, and comes back when all is over.
async fn back_after_the_end(case: &Case) -> Vec<String> {
    let stage = Stage::set(case, &case.id).await;
    let handle = stage.start(case).await;
    let mut reader = handle.subscribe();
    let mut seen = events(&mut reader, 1).await;
    let cursor = reader.cursor();
    drop(reader);
    handle.outcome().await.unwrap();
    let mut back = handle.subscribe_after(cursor);
    seen.extend(events(&mut back, usize::MAX).await);
    let mut wrong = Vec::new();
    let whole: Vec<_> = delivered(&records_of(&handle).await).cloned().collect();
    expect(&mut wrong, "events", Some(&whole), Some(&seen));
    let text = read_text(handle.clone()).await;
    expect(
        &mut wrong,
        "text",
        Some(Texts::One(text)),
        case.expect.text.clone(),
    );
    let status = stage.client.state(handle.key()).await.unwrap().status;
    let word = (status.as_str() == "complete").then_some("completed");
    expect(
        &mut wrong,
        "terminal_event",
        case.expect.terminal_event.as_deref(),
        word,
    );
    wrong
}

/// A reader leaves in the middle; another one without a cursor gets everything.
async fn reload(case: &Case) -> Vec<String> {
    let stage = Stage::set(case, &case.id).await;
    let handle = stage.start(case).await;
    events(&mut handle.subscribe(), 3).await;
    let again = stage.client.attach(handle.key()).await.unwrap();
    let text = read_text(again).await;
    let mut wrong = Vec::new();
    expect(
        &mut wrong,
        "text",
        case.expect.text.clone(),
        Some(Texts::One(text)),
    );
    wrong
}

/// Behind a cursor no event comes again, a start least of all; and every reader
/// finds the same events under the same numbers.
async fn ids_and_starts(case: &Case) -> Vec<String> {
    let stage = Stage::set(case, &case.id).await;
    let handle = stage.start(case).await;
    let mut reader = handle.subscribe();
    let mut seen = numbered(&mut reader, 2).await;
    let cursor = reader.cursor();
    drop(reader);
    let rest = numbered(&mut handle.subscribe_after(cursor), usize::MAX).await;
    let starts = rest.iter().filter(|(at, _)| at.seq <= cursor.seq).count();
    seen.extend(rest);
    let replay = numbered(&mut handle.subscribe(), usize::MAX).await;
    let mut wrong = Vec::new();
    let starts = u64::try_from(starts).unwrap();
    let expected = case.expect.start_events_after_cursor_resume;
    expect(
        &mut wrong,
        "start_events_after_cursor_resume",
        expected,
        Some(starts),
    );
    expect(
        &mut wrong,
        "ids_stable",
        case.expect.ids_stable,
        Some(seen == replay),
    );
    wrong
}

/// One reader stands still while another reads all; then it has all, too.
async fn slow_reader(case: &Case) -> Vec<String> {
    let stage = Stage::set(case, &case.id).await;
    let handle = stage.start(case).await;
    let mut slow = handle.subscribe();
    let mut seen = events(&mut slow, 1).await;
    let quick = events(&mut handle.subscribe(), usize::MAX).await;
    seen.extend(events(&mut slow, usize::MAX).await);
    let missing = u64::try_from(quick.len().abs_diff(seen.len())).unwrap();
    let mut wrong = Vec::new();
    expect(&mut wrong, "missing", case.expect.missing, Some(missing));
    expect(&mut wrong, "same events", Some(true), Some(seen == quick));
    expect(
        &mut wrong,
        "many events",
        Some(true),
        Some(quick.len() >= 5_000),
    );
    wrong
}

/// The first reader reads to the end and closes; the paused one loses nothing.
async fn first_reader_leaves(case: &Case) -> Vec<String> {
    let stage = Stage::set(case, &case.id).await;
    let a = stage.start(case).await;
    let b: Handle = stage.client.attach(a.key()).await.unwrap();
    let mut paused = b.subscribe();
    let mut text = paused.next_text().await.unwrap().unwrap_or_default();
    read_text(a.clone()).await;
    drop(a);
    while let Some(piece) = paused.next_text().await.unwrap() {
        text.push_str(&piece);
    }
    let Some(Texts::PerReader(expected)) = &case.expect.text else {
        panic!("{} has one reader", case.id);
    };
    let mut wrong = Vec::new();
    expect(&mut wrong, "B", expected.get("B"), Some(&text));
    wrong
}

/// What we send is read back by the standard's rules as one event, with its line
/// ends as the standard has them.
fn newlines(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    for data in case.expect.roundtrip.as_deref().unwrap() {
        let mut wire = BytesMut::new();
        Outgoing::new().data(data).encode(&mut wire).unwrap();
        let mut decoder = Decoder::new(DecoderConfig::new());
        decoder.push(wire.freeze());
        let mut read = Vec::new();
        while let Some(item) = decoder.next().unwrap() {
            if let Item::Event(event) = item {
                read.push(event.data.to_string());
            }
        }
        let expected = data.replace("\r\n", "\n").replace('\r', "\n");
        expect(
            &mut wrong,
            &format!("{data:?}"),
            Some(vec![expected]),
            Some(read),
        );
    }
    wrong
}

/// The next `n` events, or all to the end.
async fn events(reader: &mut Subscription, n: usize) -> Vec<Delivered> {
    let numbered = numbered(reader, n).await;
    numbered.into_iter().map(|(_, event)| event).collect()
}

async fn numbered(reader: &mut Subscription, n: usize) -> Vec<(Cursor, Delivered)> {
    let mut found = Vec::new();
    while found.len() < n
        && let Some(event) = reader.next_event().await.unwrap()
    {
        found.push(event);
    }
    found
}

fn delivered(records: &[Record]) -> impl Iterator<Item = &Delivered> {
    records.iter().filter_map(|record| match &record.body {
        Body::Event(event) => Some(event),
        _ => None,
    })
}

fn expect<T: PartialEq + std::fmt::Debug>(
    wrong: &mut Vec<String>,
    field: &str,
    expected: Option<T>,
    found: Option<T>,
) {
    if expected != found {
        wrong.push(format!(
            "{field}: expected {expected:?}, but found {found:?}"
        ));
    }
}
