//! Violations planted in small strings: the checker catches each, and nothing else.

use super::*;

const LIB: &str = "pub mod error; pub use error::{Error, Result};";
const MANIFEST: &str = "[package]\nname = \"x\"\n\n[dependencies]\nbytes = \"1\"\n\
    futures-core = { version = \"0.3\", optional = true }\n\
    rand = { version = \"0.10\", optional = true }\n\
    tokio = { version = \"1\", optional = true }\n\n[dev-dependencies]\nproptest = \"1\"\n";

/// What the checker says about a file, without the path in front.
fn check(path: &str, text: &str) -> Vec<String> {
    let prefix = format!("{path}:");
    House::new(LIB, MANIFEST)
        .check(path, text)
        .iter()
        .map(|line| line.strip_prefix(&prefix).unwrap().to_owned())
        .collect()
}

#[track_caller]
fn passes(path: &str, text: &str) {
    assert_eq!(check(path, text), Vec::<String>::new(), "{text}");
}

#[track_caller]
fn fails(path: &str, text: &str, line: usize, words: &str) {
    let said = check(path, text);
    let [one] = said.as_slice() else {
        panic!("expected one violation, but found {said:?} in {text}");
    };
    assert!(one.starts_with(&format!("{line}: ")), "{one}");
    assert!(one.contains(words), "expected `{words}`, but found `{one}`");
}

#[test]
fn an_import_from_above_is_caught_in_every_spelling() {
    let words = "`proto::journal` may not import `store`, which lies above it";
    for text in [
        "use crate::store::Store;",
        "use crate::{store};",
        "use crate::{error::Error, store::{Claim, Store}};",
        "pub(crate) use crate::store as s;",
        "use super::super::store::Store;",
        "fn f() -> crate::store::Store { todo() }",
        "impl crate::store::Store for X {}",
        "macro_rules! m { () => { $crate::store::f() } }",
        "#[cfg(test)] mod tests { use super::super::super::store::X; }",
        "mod a { mod b { fn f() { super::super::super::super::store::f() } } }",
    ] {
        let said = check("src/proto/journal/mod.rs", text);
        assert!(!said.is_empty(), "{text}");
        assert!(said.iter().all(|line| line.contains(words)), "{said:?}");
    }
}

#[test]
fn the_line_is_that_of_the_name() {
    let text = "//! Doc.\n\nuse crate::{\n    error::Error,\n    client::Client,\n};\n";
    fails(
        "src/store/mod.rs",
        text,
        5,
        "`store` may not import `client`",
    );
}

#[test]
fn a_step_down_passes() {
    passes(
        "src/client/mod.rs",
        "use crate::store::Store; use crate::proto::model::Key;",
    );
    passes(
        "src/proto/operation/run.rs",
        "use super::super::journal::Record; use super::x::Y;",
    );
    passes(
        "src/proto/model/key.rs",
        "use crate::error::Error; use super::Usage;",
    );
    passes(
        "src/store/memory.rs",
        "use super::{Claim, Store}; use crate::{Error, Result};",
    );
    passes(
        "src/proto/journal/mod.rs",
        "mod tests { use super::*; use super::super::model::X; }",
    );
    passes("src/proto/journal/mod.rs", "pub(in crate::proto) fn f() {}");
}

#[test]
fn a_step_sideways_needs_an_entry() {
    passes("src/proto/sse/mod.rs", "use super::model::Text;");
    fails(
        "src/proto/model/mod.rs",
        "use super::sse::Event;",
        1,
        "which lies beside it",
    );
    fails(
        "src/store/sled.rs",
        "use crate::transport::Body;",
        1,
        "which lies beside it",
    );
}

#[test]
fn sideways_steps_make_no_circle() {
    for (from, to, reason) in SIDEWAYS {
        assert!(!reason.is_empty());
        assert_eq!(floor(from).unwrap().1, floor(to).unwrap().1, "{from}, {to}");
        let mut reached = vec![*to];
        let mut at = 0;
        while let Some(module) = reached.get(at).copied() {
            assert_ne!(module, *from, "a circle through {from}");
            let next = SIDEWAYS.iter().filter(|(a, ..)| *a == module);
            reached.extend(next.map(|(_, b, _)| b));
            at += 1;
        }
    }
}

#[test]
fn the_stairwell_uses_no_floor() {
    fails(
        "src/error.rs",
        "use crate::proto::model::Key;",
        1,
        "`error` may not import",
    );
    passes("src/error.rs", "use std::fmt; mod tests { use super::*; }");
}

#[test]
fn a_module_without_a_floor_is_told_to_get_one() {
    fails(
        "src/cellar/mod.rs",
        "",
        1,
        "`cellar` has no floor: add a line to FLOORS",
    );
    fails("src/proto/cellar.rs", "", 1, "`proto::cellar` has no floor");
    fails(
        "src/client/mod.rs",
        "use crate::cellar::Wine;",
        1,
        "`cellar::Wine` has no floor",
    );
}

#[test]
fn a_whole_hall_hides_the_floor() {
    fails(
        "src/proto/journal/mod.rs",
        "use crate::proto;",
        1,
        "`proto` as a whole",
    );
    fails(
        "src/proto/journal/mod.rs",
        "use super::*;",
        1,
        "`proto` as a whole",
    );
    fails("src/store/mod.rs", "use crate::*;", 1, "`crate` as a whole");
}

#[test]
fn the_core_reaches_nothing_outside() {
    for (text, words) in [
        (
            "use std::time::Instant;",
            "`std::time::Instant` belongs above",
        ),
        (
            "use std::time::{Duration, Instant};",
            "`std::time::Instant` belongs above",
        ),
        (
            "fn f() { let t = SystemTime::now(); }",
            "`SystemTime::now` belongs above",
        ),
        ("fn f() { let t = UNIX_EPOCH.elapsed(); }", "`.elapsed()`"),
        ("use std::{fmt, fs};", "`std::fs` belongs above"),
        ("fn f() { std::env::var(x) }", "`std::env` belongs above"),
        (
            "fn f() { ::std::thread::spawn(f) }",
            "`std::thread` belongs above",
        ),
        (
            "use std::net::{IpAddr, TcpStream};",
            "`std::net` belongs above",
        ),
        (
            "fn f() { std::process::exit(1) }",
            "`std::process` belongs above",
        ),
        ("use tokio::sync::Notify;", "`tokio` belongs above"),
        ("extern crate tokio;", "`tokio` belongs above"),
        ("use futures_core::Stream;", "`futures_core` belongs above"),
        ("#[tokio::test] fn f() {}", "`tokio` belongs above"),
        ("async fn f() {}", "`async` belongs above"),
        ("fn f() { g().await }", "`.await` belongs above"),
        ("fn f() { println!(\"x\") }", "printing belongs above"),
    ] {
        fails("src/proto/retry/mod.rs", text, 1, words);
        passes("src/client/mod.rs", text);
    }
}

#[test]
fn a_plain_time_and_a_word_that_only_looks_wet_pass() {
    let text = "use std::time::{Duration, SystemTime, UNIX_EPOCH}; use std::net::Ipv6Addr;
        fn now(now: Moment) { let asynchronous = now.print; elapsed(await_all, tokio) }";
    passes("src/proto/retry/mod.rs", text);
}

#[test]
fn a_crate_has_one_home() {
    fails(
        "src/store/sled.rs",
        "use rand::random;",
        1,
        "`rand` is at home in client",
    );
    fails(
        "src/client/mod.rs",
        "sled::open(p)",
        1,
        "`sled` is at home in store only",
    );
    passes("src/client/mod.rs", "use rand::random;");
}

#[test]
fn the_roof_may_use_everything() {
    passes(
        "src/main.rs",
        "use streamkeep::store; fn main() { std::env::args(); }",
    );
    passes(
        "src/bin/streamkeep/main.rs",
        "use crate::anything; use clap::Parser;",
    );
    passes(
        "src/cli/mod.rs",
        "use clap::Parser; use crate::{testkit::X, gateway::Y};",
    );
}

#[test]
fn comments_and_literals_trip_nothing() {
    let text = r###"
        //! [`tokio`](crate::store::Store) and `std::fs::read`.
        /* crate::store /* nested: tokio::spawn */ std::env::var */
        fn f<'a>(x: &'a str) -> char {
            let s = "crate::store::Store \" tokio::x"; // use crate::store;
            let r = r#"async " std::fs::read"#;
            let b = b"crate::store"; let br = br##"crate::"# store::x"##;
            let c = ['"', '\'', b'"', '{'];
            'a'
        }
    "###;
    passes("src/proto/journal/mod.rs", text);
}

#[test]
fn code_after_a_literal_is_seen() {
    let text = "fn f<'a>() { g('\\'', '\"', b'\\\\', \"\\\"\", r#\"\"\"#) }\nuse crate::store::X;";
    fails(
        "src/proto/journal/mod.rs",
        text,
        2,
        "may not import `store`",
    );
    fails(
        "src/proto/journal/mod.rs",
        "/* a\n*/ use crate::store::X;",
        2,
        "`store`",
    );
    fails(
        "src/proto/journal/mod.rs",
        "let s = \"\n\n\";use crate::store::X;",
        3,
        "`store`",
    );
}
