//! The same streams through two other decoders.
//!
//! The number of streams is proptest's, 256 unless `PROPTEST_CASES` says
//! otherwise. With 100,000, in release, the run takes half a minute.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use eventsource_stream::EventStream;
use futures_core::Stream;
use proptest::prelude::*;
use sse_core::{SseDecoder, SseEvent};
use streamkeep::proto::model::Text;
use streamkeep::proto::sse::{DecoderConfig, EndOfInput, Event, Item};

use crate::support::{decode, hostile_stream, random_pieces};

/// An event's type, data and id, and the reconnection time as of the event.
type Seen = (String, String, String, Option<Duration>);

fn ours(chunks: &[Bytes], id: &str) -> (Vec<Seen>, String, Option<Duration>) {
    let config = DecoderConfig::new().last_event_id(Text::from(id));
    let outcome = decode(config, chunks.iter().cloned(), EndOfInput::Discard);
    assert_eq!(outcome.error, None);
    let seen = outcome
        .items
        .into_iter()
        .filter_map(|(item, time)| match item {
            Item::Event(Event { name, data, id, .. }) => {
                Some((name.to_string(), data.to_string(), id.to_string(), time))
            }
            Item::Comment(_) | Item::Line(_) => None,
        })
        .collect();
    (seen, outcome.last_event_id, outcome.reconnection_time)
}

fn sse_core(chunks: &[Bytes], id: &str) -> (Vec<Seen>, String, Option<Duration>) {
    let mut decoder = SseDecoder::with_limit((1 << 20).try_into().unwrap());
    decoder.reconnect_with_id((!id.is_empty()).then(|| id.into()));
    let (mut seen, mut time) = (Vec::new(), None);
    for chunk in chunks {
        let mut chunk = chunk.clone();
        while let Some(event) = decoder.next(&mut chunk) {
            match event.unwrap() {
                SseEvent::Retry(millis) => time = Some(Duration::from_millis(millis.into())),
                SseEvent::Message(event) => seen.push((
                    event.event.to_string(),
                    event.data,
                    event.last_event_id.as_deref().unwrap_or("").to_owned(),
                    time,
                )),
            }
        }
    }
    let id = decoder.last_event_id().map(ToString::to_string);
    (seen, id.unwrap_or_default(), time)
}

struct Chunks<'a>(std::slice::Iter<'a, Bytes>);

impl Stream for Chunks<'_> {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next().cloned().map(Ok))
    }
}

fn eventsource_stream(chunks: &[Bytes]) -> Vec<(String, String, String)> {
    let mut stream = std::pin::pin!(EventStream::new(Chunks(chunks.iter())));
    let mut context = Context::from_waker(Waker::noop());
    let mut seen = Vec::new();
    while let Poll::Ready(Some(event)) = stream.as_mut().poll_next(&mut context) {
        let event = event.unwrap();
        seen.push((event.event, event.data, event.id));
    }
    seen
}

/// Streams that eventsource-stream 0.2.3 handles. It panics on a byte order
/// mark, ends for good at invalid UTF-8, withholds an event that CR CR ends,
/// drops one whose blank line is cut after its CR, and takes `retry: +1`; so
/// the text is UTF-8 without a mark, line ends are LF or CR LF, the stream ends
/// in LF, and reconnection times are digits.
fn tame_stream() -> impl Strategy<Value = Bytes> {
    let text = "[ a-z{}\":,\\[\\]é你😀\u{2028}]{0,40}";
    let line = prop_oneof![
        6 => text.prop_map(|text| format!("data: {text}")),
        2 => text.prop_map(|text| format!("data:{text}")),
        1 => Just("data".to_owned()),
        1 => "[a-z_.]{1,12}".prop_map(|name| format!("event: {name}")),
        1 => "[a-z0-9-]{1,12}".prop_map(|id| format!("id: {id}")),
        1 => "[0-9]{1,5}".prop_map(|millis| format!("retry: {millis}")),
        1 => text.prop_map(|text| format!(":{text}")),
        1 => "[a-z]{1,4}x: [a-z]{0,9}".prop_map(|line| format!("x{line}")),
        4 => Just(String::new()),
    ];
    (prop::collection::vec(line, 0..40), any::<bool>()).prop_map(|(lines, crlf)| {
        let end = if crlf { "\r\n" } else { "\n" };
        Bytes::from(lines.join(end) + end)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_streams_are_what_sse_core_says(
        bytes in hostile_stream(),
        id in prop_oneof![Just(""), Just("seed")],
        seed in any::<u64>(),
    ) {
        let chunks = random_pieces(&bytes, seed);
        let (mut ours, our_id, mut our_time) = ours(&chunks, id);
        let (theirs, their_id, mut their_time) = sse_core(&chunks, id);
        // It takes 32 bits and ignores what is larger, we take 64 and saturate.
        if bytes.windows(10).any(|window| window.iter().all(u8::is_ascii_digit)) {
            (our_time, their_time) = (None, None);
            for (event, theirs) in ours.iter_mut().zip(&theirs) {
                event.3 = theirs.3;
            }
        }
        prop_assert_eq!(ours, theirs);
        prop_assert_eq!(our_id, their_id);
        prop_assert_eq!(our_time, their_time);
    }

    #[test]
    fn tame_streams_are_what_eventsource_stream_says(
        bytes in tame_stream(),
        seed in any::<u64>(),
    ) {
        let chunks = random_pieces(&bytes, seed);
        let ours: Vec<_> = ours(&chunks, "").0.into_iter().map(|(n, d, i, _)| (n, d, i)).collect();
        prop_assert_eq!(ours, eventsource_stream(&chunks));
    }
}
