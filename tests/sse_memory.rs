//! What the decoder holds in memory, and how often it allocates. This is a
//! program of its own because it counts every allocation of the process.

#![cfg(test)]

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use streamkeep::proto::model::Text;
use streamkeep::proto::sse::{Decoder, DecoderConfig, Event, Item};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations that may be the test harness's: it starts and ends tests on
/// another thread.
const NOISE: usize = 100;

/// One test at a time: the counters belong to the process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes held now that were not when the region began.
fn held(region: &Region<'_, System>) -> isize {
    let Stats {
        bytes_allocated,
        bytes_deallocated,
        ..
    } = region.change();
    // Of a reallocation the counters take the difference as one or the other.
    isize::try_from(bytes_allocated).unwrap() - isize::try_from(bytes_deallocated).unwrap()
}

fn allocations(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.allocations + change.reallocations
}

fn drain(decoder: &mut Decoder) -> usize {
    let mut events = 0;
    while let Ok(Some(item)) = decoder.next() {
        events += usize::from(matches!(item, Item::Event(_)));
    }
    events
}

/// The events of the chunks, all kept.
fn keep(decoder: &mut Decoder, chunk: Bytes, kept: &mut Vec<Event>) {
    decoder.push(chunk);
    while let Some(item) = decoder.next().unwrap() {
        if let Item::Event(event) = item {
            kept.push(event);
        }
    }
}

#[test]
fn memory_stays_under_four_times_the_limit_whatever_arrives() {
    const LIMIT: usize = 1 << 20;
    let _alone = alone();
    let cases: &[(&str, &[u8], &[u8])] = &[
        ("endless line", b"data: ", b"x"),
        ("endless comment", b":", b"x"),
        ("endless name", b"event: ", b"x"),
        ("endless unknown line", b"", b"x"),
        ("endless invalid line", b"data: ", b"\xFF"),
        ("endless lines", b"", b"data: xxxxxxxxxxxxxxxx\n"),
        ("endless empty lines", b"", b"data\n"),
        ("endless names", b"data: x\n", b"event: xxxxxx\n"),
        ("endless ids", b"data: x\n", b"id: xxxxxx\n"),
        (
            "endless invalid lines",
            b"",
            b"data: \xFF\xFF\xFF\xFF\xFF\xFF\n",
        ),
        ("endless comments in an event", b"data: x\n", b": xxxxxx\n"),
    ];
    for size in [1_000, 16_384, 100_000] {
        for (name, first, rest) in cases {
            let mut stream = first.to_vec();
            while stream.len() < 2 * LIMIT {
                stream.extend_from_slice(rest);
            }
            let stream = Bytes::from(stream);
            let region = Region::new(ALLOCATOR);
            let mut decoder = Decoder::new(DecoderConfig::new().max_event_bytes(LIMIT));
            let mut failed = false;
            for at in (0..stream.len()).step_by(size) {
                let piece = &stream[at..stream.len().min(at + size)];
                decoder.push(Bytes::copy_from_slice(piece));
                while let Some(next) = decoder.next().transpose() {
                    failed |= next.is_err();
                }
                let held = held(&region);
                let limit = isize::try_from(4 * LIMIT).unwrap();
                assert!(held < limit, "{name}: holds {held} bytes at {at}");
            }
            assert!(failed, "{name}");
            let held = held(&region);
            assert!(
                held < 16 * 1024,
                "{name}: holds {held} bytes after its error"
            );
        }
    }
}

/// A decoder that gave each new buffer the capacity of the last held 16.8 GB
/// after one event of 8 MiB and 1,000 small events that were kept.
#[test]
fn small_events_after_a_large_one_are_small() {
    let _alone = alone();
    for size in [7, 100, 1_400, 16_384] {
        let mut decoder = Decoder::new(DecoderConfig::new());
        let large = Bytes::from(format!("data: {}\n\n", "x".repeat(8 << 20)));
        for at in (0..large.len()).step_by(16_384) {
            decoder.push(large.slice(at..large.len().min(at + 16_384)));
            drain(&mut decoder);
        }
        drop(large);

        let small = "event: delta\ndata: {\"text\":\"x\"}\ndata: {}\n\n".repeat(1_000);
        let mut kept = Vec::with_capacity(1_000);
        let region = Region::new(ALLOCATOR);
        for piece in small.as_bytes().chunks(size) {
            keep(&mut decoder, Bytes::copy_from_slice(piece), &mut kept);
        }
        assert_eq!(kept.len(), 1_000);
        let held = held(&region);
        let limit = isize::try_from(4 * small.len() + 32 * 1024).unwrap();
        assert!(
            held < limit,
            "{size}: holds {held} bytes for {}",
            small.len()
        );
    }
}

#[test]
fn a_large_event_that_is_kept_holds_no_capacity_to_spare() {
    let _alone = alone();
    let region = Region::new(ALLOCATOR);
    let mut decoder = Decoder::new(DecoderConfig::new());
    let mut kept = Vec::new();
    for lines in [1, 2] {
        let line = format!("data: {}\n", "x".repeat(5 << 20));
        for _ in 0..lines {
            for piece in line.as_bytes().chunks(16_384) {
                keep(&mut decoder, Bytes::copy_from_slice(piece), &mut kept);
            }
        }
        keep(&mut decoder, Bytes::from_static(b"\n"), &mut kept);
    }
    assert_eq!(kept.len(), 2);
    let held = held(&region);
    let limit = isize::try_from((15 << 20) + 256 * 1024).unwrap();
    assert!(held < limit, "holds {held} bytes for 15 MiB");
}

#[test]
fn a_pending_event_does_not_keep_its_chunks() {
    let _alone = alone();
    let config = DecoderConfig::new().last_event_id(Text::from("0"));
    let mut decoder = Decoder::new(config);
    let padding = "data: x\n\n".repeat(100_000);
    let region = Region::new(ALLOCATOR);
    for end in [
        "id: 1\ndata: an event with an id\n\n",
        "event: e\n",
        "id: 2\n",
        "data: a whole line\n",
        "data: another line\n",
        "data: half a li",
    ] {
        decoder.push(Bytes::from([padding.as_str(), end].concat()));
        drain(&mut decoder);
        let held = held(&region);
        assert!(held < 32 * 1024, "{end:?}: holds {held} bytes");
    }
}

#[test]
fn events_inside_their_chunks_cost_no_allocation() {
    let _alone = alone();
    let events = [
        "data: {\"text\":\"x\"}\n\n",
        "event: delta\r\ndata: {\"text\":\"é\"}\r\n\r\n",
        "id: 17\nretry: 5\n: comment\ndata:\n\n",
    ];
    let chunk = Bytes::from(events.concat().repeat(20));
    // The first reference to a buffer of its own allocates the counter.
    let _shared = chunk.clone();
    let mut decoder = Decoder::new(DecoderConfig::new());
    decoder.push(chunk.clone());
    assert_eq!(drain(&mut decoder), 60);

    let region = Region::new(ALLOCATOR);
    for _ in 0..1_000 {
        decoder.push(chunk.clone());
        assert_eq!(drain(&mut decoder), 60);
    }
    let found = allocations(&region);
    assert!(found < NOISE, "{found} allocations for 60,000 events");
}

#[test]
fn events_across_chunks_share_few_allocations_if_they_are_dropped() {
    let _alone = alone();
    let event = format!("event: delta\ndata: {}\n\n", "x".repeat(250));
    let stream = Bytes::from(event.repeat(10_000));
    let _shared = stream.clone();
    for size in [100, 1_400, 16_384] {
        let mut decoder = Decoder::new(DecoderConfig::new());
        let region = Region::new(ALLOCATOR);
        let mut events = 0;
        for at in (0..stream.len()).step_by(size) {
            decoder.push(stream.slice(at..stream.len().min(at + size)));
            events += drain(&mut decoder);
        }
        assert_eq!(events, 10_000);
        let found = allocations(&region);
        assert!(
            found < 10 + NOISE,
            "{size}: {found} allocations for 10,000 events"
        );
    }
}
