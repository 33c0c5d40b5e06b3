//! How fast event streams are decoded, beside what no decoder can do without and
//! beside two other decoders. Run it with `cargo bench --no-default-features --bench decode`;
//! it takes less than a minute. Add `-- WORD` for the tables with that word in
//! their title.
//!
//! Absolute figures belong to the machine. What holds is the ratio within one
//! run: the contenders take turns, and each figure is the median of its turns.
//! On a busy machine the best turn is the one that was least disturbed.
//!
//! The first three rows are floors, each with the work of the one above in it:
//! finding the line ends; checking the text as UTF-8; sharing the lines with
//! their reader, so that nothing is copied. None of them knows a field, keeps a
//! state, hands out an event, or joins the two halves of a line that a chunk cut.
//!
//! What a ratio to the scan can be depends on how fast that is. Where memchr does
//! 14 to 17 GB/s (AMD EPYC, AVX2), the third row alone takes 2.1 times as long as
//! the scan on chat deltas in 1.4 KB chunks, and 1.9 times in 16 KB chunks, which
//! leaves 2 ns an event to stay within twice the scan. No decoder that checks its
//! text and hands out slices can do that there. streamkeep takes 3.1 and 2.3 times
//! as long as the scan (4.7 and 7.4 GB/s), or 1.5 and 1.2 times as long as the
//! third row. The smaller chunks cut one event in five, and that is copied.
//!
//! simdutf8 would check faster, by 1 to 3 ns of the 58 and 36 that an event of
//! ASCII takes and by 20 of 83 for Chinese text, but only `unsafe` code can make
//! the text type trust it.

#![expect(
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints figures, and stops at anything unexpected"
)]

use std::alloc::System;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eventsource_stream::EventStream;
use futures_core::Stream;
use memchr::memchr2;
use sse_core::{SseDecoder, SseEvent};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use streamkeep::proto::sse::{Decoder, DecoderConfig, EndOfInput, Item};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Decodes all chunks and returns the number of events and of data bytes.
type Contender = fn(&[Bytes]) -> (usize, usize);

const SCAN: (&str, Contender) = ("memchr2 line scan", scan);
const CHECK: (&str, Contender) = ("+ UTF-8 check", scan_and_check);
const SLICE: (&str, Contender) = ("+ slice", scan_check_and_slice);
const OURS: (&str, Contender) = ("streamkeep", ours);
const SSE_CORE: (&str, Contender) = ("sse-core", sse_core);
const EVENTSOURCE: (&str, Contender) = ("eventsource-stream", eventsource_stream);

fn main() {
    let all = [SCAN, CHECK, SLICE, OURS, SSE_CORE, EVENTSOURCE];
    // eventsource-stream is quadratic in the length of a line: seconds a turn.
    let linear = [SCAN, CHECK, SLICE, OURS, SSE_CORE];
    let quadratic = [SCAN, CHECK, SLICE, EVENTSOURCE];

    let stream = deltas(8_000);
    for size in [1_400, 16_384] {
        let title = format!("chat deltas, 272 B per event, {size} B chunks");
        table(&title, &chunks(&stream, size), &all, 31);
    }
    let stream = chunks(&typed_deltas(8_000, ""), 1_400);
    table("deltas with a type, 1400 B chunks", &stream, &all, 15);
    let stream = chunks(&typed_deltas(8_000, "id: 1-1234\n"), 1_400);
    table(
        "deltas with a type and an id, 1400 B chunks",
        &stream,
        &all,
        15,
    );
    let stream = chunks(&chinese_deltas(8_000), 1_400);
    table("deltas of Chinese text, 1400 B chunks", &stream, &all, 15);

    let stream = chunks(&one_event(8 << 20), 16_384);
    table("one event of 8 MiB, 16 KiB chunks", &stream, &linear, 31);
    table("the same once: 8 MiB", &stream, &quadratic, 1);
    let stream = chunks(&one_event(100_000), 1);
    table("one event of 100 KB, 1 B chunks", &stream, &linear, 31);
    table("the same once: 100 KB", &stream, &quadratic, 1);
}

fn table(title: &str, chunks: &[Bytes], contenders: &[(&str, Contender)], turns: usize) {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    if !title.contains(&filter.unwrap_or_default()) {
        return;
    }
    let bytes: usize = chunks.iter().map(Bytes::len).sum();
    let mut times = vec![Vec::with_capacity(turns); contenders.len()];
    for _ in 0..turns {
        for ((_, run), times) in contenders.iter().zip(&mut times) {
            if turns > 1 {
                // Else one pays the page faults for the memory of the next.
                black_box(run(black_box(chunks)));
            }
            let start = Instant::now();
            black_box(run(black_box(chunks)));
            times.push(start.elapsed());
        }
    }
    for times in &mut times {
        times.sort_unstable();
    }
    println!("\n{title}");
    println!("                        median of {turns:<3}                             best");
    println!(
        "  decoder                   ms   MB/s  x scan x check x slice       ms  x scan  allocs/event"
    );
    let floors = [0, 1, 2].map(|floor| times[floor][turns / 2]);
    let best_scan = times[0][0];
    for ((name, run), times) in contenders.iter().zip(&times) {
        let region = Region::new(ALLOCATOR);
        let (events, _) = run(chunks);
        let change = region.change();
        let allocations = change.allocations + change.reallocations;
        let [median, best] = [times[turns / 2], times[0]];
        let [scan, check, slice] = floors.map(|floor| median.as_secs_f64() / floor.as_secs_f64());
        println!(
            "  {name:<19}{:>9.3}{:>7.0}{scan:>8.2}{check:>8.2}{slice:>8.2}{:>9.3}{:>8.2}{:>14.3}",
            millis(median),
            bytes as f64 / median.as_secs_f64() / 1e6,
            millis(best),
            best.as_secs_f64() / best_scan.as_secs_f64(),
            allocations as f64 / events.max(1) as f64,
        );
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Finds every line end, and does nothing else.
fn scan(chunks: &[Bytes]) -> (usize, usize) {
    let (mut lines, mut bytes) = (0, 0);
    for chunk in chunks {
        let chunk = chunk.clone();
        let mut rest = &chunk[..];
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            lines += 1;
            bytes += end;
            rest = &rest[end + 1..];
        }
    }
    (lines, bytes)
}

/// Also checks all bytes, in lines, as the text type of streamkeep does.
fn scan_and_check(chunks: &[Bytes]) -> (usize, usize) {
    let (mut lines, mut valid) = (0, 0);
    for chunk in chunks {
        let chunk = chunk.clone();
        let mut rest = &chunk[..];
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            lines += 1;
            valid += usize::from(is_utf8(&rest[..end]));
            rest = &rest[end + 1..];
        }
        valid += usize::from(is_utf8(rest));
    }
    (lines, valid)
}

/// Also takes and drops a slice of the chunk for each line that is not blank.
fn scan_check_and_slice(chunks: &[Bytes]) -> (usize, usize) {
    let (mut lines, mut valid) = (0, 0);
    for chunk in chunks {
        let chunk = chunk.clone();
        let mut at = 0;
        while let Some(length) = memchr2(b'\n', b'\r', &chunk[at..]) {
            if length > 0 {
                lines += 1;
                let line = chunk.slice(at..at + length);
                valid += usize::from(is_utf8(&line));
                black_box(&line);
            }
            at += length + 1;
        }
        valid += usize::from(is_utf8(&chunk[at..]));
    }
    (lines, valid)
}

fn is_utf8(bytes: &[u8]) -> bool {
    // The first finds ASCII sooner than the second alone.
    bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()
}

fn ours(chunks: &[Bytes]) -> (usize, usize) {
    let mut decoder = Decoder::new(DecoderConfig::new());
    let (mut events, mut bytes) = (0, 0);
    for chunk in chunks {
        decoder.push(chunk.clone());
        loop {
            // As the operation machine asks. To unwrap first would move each
            // event once more, which takes 5 ns or more of 36.
            match decoder.next() {
                Ok(Some(Item::Event(event))) => {
                    events += 1;
                    bytes += event.data.len();
                    black_box(&event);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(decoder.finish(EndOfInput::Discard), Ok(None));
    (events, bytes)
}

fn sse_core(chunks: &[Bytes]) -> (usize, usize) {
    let mut decoder = SseDecoder::with_limit((16 << 20).try_into().unwrap());
    let (mut events, mut bytes) = (0, 0);
    for chunk in chunks {
        let mut chunk = chunk.clone();
        loop {
            match decoder.next(&mut chunk) {
                Some(Ok(SseEvent::Message(event))) => {
                    events += 1;
                    bytes += event.data.len();
                    black_box(&event);
                }
                Some(Ok(_)) => {}
                None => break,
                Some(Err(error)) => panic!("{error}"),
            }
        }
    }
    (events, bytes)
}

struct Chunks<'a>(std::slice::Iter<'a, Bytes>);

impl Stream for Chunks<'_> {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next().cloned().map(Ok))
    }
}

fn eventsource_stream(chunks: &[Bytes]) -> (usize, usize) {
    let mut stream = std::pin::pin!(EventStream::new(Chunks(chunks.iter())));
    let mut context = Context::from_waker(Waker::noop());
    let (mut events, mut bytes) = (0, 0);
    while let Poll::Ready(Some(event)) = stream.as_mut().poll_next(&mut context) {
        let event = event.unwrap();
        events += 1;
        bytes += event.data.len();
        black_box(&event);
    }
    (events, bytes)
}

/// One shared buffer, cut as a HTTP client's read buffer is.
fn chunks(bytes: &Bytes, size: usize) -> Vec<Bytes> {
    (0..bytes.len())
        .step_by(size)
        .map(|at| bytes.slice(at..bytes.len().min(at + size)))
        .collect()
}

fn delta(content: &str, length: usize) -> String {
    let head = format!(
        r#"{{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1760000000,"model":"model-x","system_fingerprint":"fp_0","choices":[{{"index":0,"delta":{{"content":"{content}"}},"logprobs":null,"finish_reason":null}}],"obfuscation":""#
    );
    let padding = length.saturating_sub(head.len() + 2);
    format!("{head}{}\"}}", "x".repeat(padding))
}

fn deltas(count: usize) -> Bytes {
    let event = format!("data: {}\n\n", delta(" token", 264));
    assert_eq!(event.len(), 272);
    event.repeat(count).into()
}

fn typed_deltas(count: usize, id: &str) -> Bytes {
    let data = delta(" token", 264);
    format!("event: content_block_delta\n{id}data: {data}\n\n")
        .repeat(count)
        .into()
}

fn chinese_deltas(count: usize) -> Bytes {
    format!("data: {}\n\n", delta("你好，世界", 264))
        .repeat(count)
        .into()
}

fn one_event(length: usize) -> Bytes {
    format!("data: {}\n\n", "x".repeat(length)).into()
}
