//! No secret in an error, a Debug output or a log, whatever happens.

use crate::peer::{Peer, drain, listen, now, post, transport, within};
use std::fmt::{self, Write};
use std::sync::{Mutex, Once};
use streamkeep::transport::{Outgoing, Transport};
use tracing::field::{Field, Visit};
use tracing::span;

/// Part of every secret planted here, and of nothing else.
const HUSH: &str = "hush-7f3a";

/// What any crate has logged in this process, at every level.
static LOGGED: Mutex<String> = Mutex::new(String::new());

struct Everything;

struct Into<'a>(&'a mut String);

impl Visit for Into<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        writeln!(self.0, "{field}={value:?}").unwrap();
    }
}

impl tracing::Subscriber for Everything {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        attributes.record(&mut Into(&mut LOGGED.lock().unwrap()));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Into(&mut LOGGED.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut logged = LOGGED.lock().unwrap();
        writeln!(logged, "{}", event.metadata().target()).unwrap();
        event.record(&mut Into(&mut logged));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl log::Log for Everything {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let mut logged = LOGGED.lock().unwrap();
        writeln!(logged, "{} {}", record.target(), record.args()).unwrap();
    }

    fn flush(&self) {}
}

fn listen_to_logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Everything).unwrap();
        log::set_logger(&Everything).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    });
}

/// A request with a secret in its header, and one in its query for good measure.
fn planted(url: &str) -> Outgoing {
    let mut outgoing = post(&format!("{url}?key={HUSH}-query"));
    for name in ["authorization", "x-api-key"] {
        outgoing
            .secret_headers
            .push((name.to_owned(), format!("Bearer {HUSH}-header").into()));
    }
    outgoing
}

/// What the server says after it has read the request, and whether it resets.
const ENDINGS: [(&str, bool); 9] = [
    ("", false),
    ("", true),
    ("hush-7f3a is not http\r\n\r\n", false),
    ("HTTP/1.1 200 OK\r\nx-echo: hush-7f3a", false),
    (
        "HTTP/1.1 200 OK\r\ncontent-encoding: hush-7f3a\r\n\r\n",
        false,
    ),
    (
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nhush-7f3a",
        false,
    ),
    (
        "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhush-7f3a",
        false,
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nhush-7f3a\r\n",
        false,
    ),
    (
        "HTTP/1.1 307 Away\r\nlocation: http://hush-7f3a/\r\ncontent-length: 0\r\n\r\n",
        false,
    ),
];

async fn play(http2: bool, ending: Vec<u8>, reset: bool, out: &mut String) {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        let asked = if http2 {
            peer.send(crate::http2::SETTINGS).await;
            peer.request2().await;
            String::new()
        } else {
            peer.request().await
        };
        peer.try_send(ending).await;
        if reset {
            peer.rst();
        } else {
            peer.fin().await;
        }
        asked
    });
    let transport = transport(http2);
    match within(transport.open(planted(&url))).await {
        Ok(mut response) => {
            // The head itself is the provider's words, and the caller's to read.
            write!(out, "{:?} {transport:?}", response.body).unwrap();
            let (_, failure) = drain(&mut *response.body).await;
            writeln!(out, "{failure:?}").unwrap();
        }
        Err(failure) => writeln!(out, "{failure:?}").unwrap(),
    }
    drop(transport);
    let asked = within(server).await.unwrap();
    if !http2 {
        let sent = asked.matches(&format!("{HUSH}-header")).count();
        assert_eq!(sent, 2, "the secrets did not go out");
    }
}

#[tokio::test]
async fn a_secret_is_sent_and_shown_nowhere() {
    listen_to_logs();
    let mut shown = String::new();
    for (ending, reset) in ENDINGS {
        play(false, ending.as_bytes().to_vec(), reset, &mut shown).await;
    }
    play(
        true,
        crate::http2::frame(3, 0, 1, &[0, 0, 0, 2]),
        false,
        &mut shown,
    )
    .await;
    let go_away = crate::http2::frame(7, 0, 0, b"\0\0\0\0\0\0\0\x0bhush-7f3a");
    play(true, go_away, false, &mut shown).await;

    // Before anything is sent.
    let (listener, url) = listen().await;
    drop(listener);
    let userinfo = url.replace("http://", &format!("http://{HUSH}:{HUSH}@"));
    for url in [
        &url,
        &userinfo,
        "http://nowhere.invalid",
        HUSH,
        "ftp://hush-7f3a",
    ] {
        let failure = within(transport(false).open(planted(url)))
            .await
            .unwrap_err();
        writeln!(shown, "{failure:?}").unwrap();
    }
    let mut bad = planted(&url);
    let value = format!("{HUSH}\n");
    bad.secret_headers.push(("x-bad".to_owned(), value.into()));
    writeln!(shown, "{bad:?}").unwrap();
    let failure = now(transport(false).open(bad)).unwrap().unwrap_err();
    writeln!(shown, "{failure:?}").unwrap();

    // The request's own Debug output shows its URL, which is the caller's.
    let shown = shown.replace(&format!("?key={HUSH}-query"), "");
    assert!(!shown.contains(HUSH), "{shown}");
    assert!(shown.lines().count() > 15, "{shown}");

    let logged = LOGGED.lock().unwrap().clone();
    for target in ["hyper_util", "h2", "reqwest"] {
        assert!(logged.contains(target), "nothing of {target} was logged");
    }
    // What a peer says may be logged by the crates below; what we keep may not.
    for secret in ["hush-7f3a-header", "hush-7f3a-query"] {
        let line = logged.lines().find(|line| line.contains(secret));
        assert_eq!(line, None);
    }
}
