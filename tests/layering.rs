//! The import table of the house, as a test.
//!
//! Imports go down only. Below the waterline (`src/proto` and the error) there
//! is no runtime, no clock, no randomness, no file, socket or environment. A new
//! module gets a line in [`FLOORS`] before anything may import it.

#![cfg(test)] // else the lints take the helpers for production code

#[path = "layering/paths.rs"]
mod paths;
#[path = "layering/planted.rs"]
mod planted;
mod rules;

use paths::{Reference, paths};
use rules::{Token, rust_files, tokens};
use std::collections::BTreeMap;
use std::fs;

/// Every module that has a floor, and its floor. Whatever lies deeper belongs to
/// the module above it.
const FLOORS: &[(&str, u8)] = &[
    // The stairwell: every floor may use it, it uses none.
    ("error", 0),
    // Below the waterline.
    ("proto::endpoints", 1),
    ("proto::model", 1),
    ("proto::seeded", 1),
    ("proto::sliding", 1),
    ("proto::sse", 1),
    ("proto::breaker", 2),
    ("proto::budget", 2),
    ("proto::classify", 2),
    ("proto::cost", 2),
    ("proto::dialect", 2),
    ("proto::hedge", 2),
    ("proto::journal", 2),
    ("proto::limits", 2),
    ("proto::retry", 2),
    ("proto::timeouts", 2),
    ("proto::guards", 3),
    ("proto::operation", 3),
    // Above it.
    ("store", 4),
    ("transport", 4),
    ("client", 5),
    ("gateway", 6),
    ("testkit", 6),
    ("cli", ROOF),
];

/// The binary: `src/main.rs`, `src/bin` and `src/cli`.
const ROOF: u8 = 7;

/// Steps to a neighbour on the same floor, each with its reason. Never both ways.
const SIDEWAYS: &[(&str, &str, &str)] = &[
    ("proto::sse", "proto::model", "an event's fields are texts"),
    (
        "proto::endpoints",
        "proto::model",
        "it is keyed by the endpoint's name, and remembers when it was used",
    ),
    ("proto::sliding", "proto::model", "it moves with the time"),
    (
        "proto::classify",
        "proto::journal",
        "a verdict can be noted as the end of an attempt",
    ),
    (
        "proto::cost",
        "proto::journal",
        "what an answer cost is told from the records of its attempts",
    ),
    (
        "proto::classify",
        "proto::retry",
        "a failure carries the provider's hints on waiting",
    ),
    (
        "proto::dialect",
        "proto::retry",
        "a wait in a body is written as one in a header is",
    ),
];

/// Crates with one home: a second place would be a second way to do the thing.
const HOMES: &[(&str, &[&str])] = &[
    ("clap", &["cli"]),
    ("metrics", &["client"]),
    ("metrics_exporter_prometheus", &["client"]),
    ("rand", &["client", "testkit"]),
    ("redis", &["store"]),
    ("reqwest", &["transport"]),
    ("sled", &["store"]),
    ("toml", &["cli"]),
];

/// Parts of the standard library that reach outside the process, or read a
/// clock. A `SystemTime` and an address are plain values; only reading the clock
/// and opening a socket are not.
const OUTSIDE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
];

#[test]
fn imports_go_down_only_and_the_core_stays_dry() {
    let files = rust_files("src");
    assert!(files.iter().any(|(path, _)| path == "src/lib.rs"));
    let house = House::read(&files);
    let broken: Vec<_> = files
        .iter()
        .flat_map(|(path, text)| house.check(path, text))
        .collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

/// What a check needs to know beyond the file itself.
struct House {
    /// Names that `src/lib.rs` re-exports, and the module each comes from.
    front_door: BTreeMap<String, String>,
    /// Dependencies that only a feature brings.
    by_feature: Vec<String>,
}

impl House {
    fn read(files: &[(String, String)]) -> Self {
        let lib = files.iter().find(|(path, _)| path == "src/lib.rs");
        let manifest = fs::read_to_string(rules::root().join("Cargo.toml")).unwrap();
        Self::new(lib.map_or("", |(_, text)| text), &manifest)
    }

    fn new(lib: &str, manifest: &str) -> Self {
        let front_door = paths(&tokens(lib), &[])
            .into_iter()
            .filter(|path| path.used)
            .filter_map(|path| {
                let (name, module) = path.parts.split_last()?;
                Some((name.clone(), module.join("::")))
            })
            .collect();
        let by_feature = manifest
            .split("\n[")
            .filter_map(|section| section.strip_prefix("dependencies]"))
            .flat_map(str::lines)
            .filter(|line| line.contains("optional = true"))
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name.trim().replace('-', "_"))
            .collect();
        Self {
            front_door,
            by_feature,
        }
    }

    /// Every broken rule of one file, as lines that name file, line and rule.
    fn check(&self, path: &str, text: &str) -> Vec<String> {
        let Some(module) = module_of(path) else {
            return Vec::new();
        };
        let here = module.join("::");
        let tokens = tokens(text);
        let mut broken = Vec::new();
        let mut say = |line: usize, what: String| broken.push(format!("{path}:{line}: {what}"));

        if floor(&here).is_none() && !is_hall(&here) {
            say(1, format!("`{here}` has no floor: {ADD_A_LINE}"));
        }
        let dry = here == "error" || is_within(&here, "proto");
        for reference in paths(&tokens, &module) {
            let name = reference.parts.join("::");
            let line = reference.line;
            if reference.inside {
                if let Some(what) = self.wrong_step(&here, &reference) {
                    say(line, what);
                }
                continue;
            }
            let root = reference.parts.first().map_or("", String::as_str);
            if let Some((_, homes)) = HOMES.iter().find(|(name, _)| *name == root)
                && !homes.contains(&module.first().map_or("", String::as_str))
            {
                let homes = homes.join(" and ");
                say(line, format!("`{root}` is at home in {homes} only"));
            }
            if !dry {
                continue;
            }
            if self.by_feature.iter().any(|name| name == root) {
                say(line, format!("`{root}` {ABOVE}: a feature brings it"));
            }
            let outside = OUTSIDE.iter().find(|part| is_within(&name, part));
            if let Some(part) = outside.filter(|_| !is_address(&name)) {
                say(line, format!("`{part}` {ABOVE}: {PLAIN}"));
            }
            if reference.parts.last().is_some_and(|last| last == "now") {
                say(line, format!("`{name}` {ABOVE}: `now` is an argument"));
            }
        }
        if dry {
            for (line, what) in wet_words(&tokens) {
                say(line, format!("{what} {ABOVE}: {PLAIN}"));
            }
        }
        broken
    }

    /// Why the module `here` may not refer to this path of the crate.
    fn wrong_step(&self, here: &str, reference: &Reference) -> Option<String> {
        let mut name = reference.parts.join("::");
        if let Some(module) = reference.parts.first().and_then(|n| self.front_door.get(n)) {
            name = format!("{module}::{name}");
        }
        if is_hall(here) {
            return None;
        }
        if is_hall(&name) {
            let name = if name.is_empty() { "crate" } else { &name };
            return Some(format!(
                "`{name}` as a whole may not be imported: it hides which floor is meant"
            ));
        }
        let (from, from_floor) = floor(here)?;
        let Some((to, to_floor)) = floor(&name) else {
            return Some(format!("`{name}` has no floor: {ADD_A_LINE}"));
        };
        let known = |(a, b, _): &(&str, &str, &str)| *a == from && *b == to;
        if from == to || to_floor < from_floor || SIDEWAYS.iter().any(known) {
            return None;
        }
        let way = if to_floor == from_floor {
            "beside it; imports go down only, and SIDEWAYS in tests/layering.rs has no such step"
        } else {
            "above it; imports go down only"
        };
        Some(format!("`{from}` may not import `{to}`, which lies {way}"))
    }
}

const ADD_A_LINE: &str = "add a line to FLOORS in tests/layering.rs";
const ABOVE: &str = "belongs above the waterline";
const PLAIN: &str = "the core takes plain values and gives plain values";

/// The module of a file in `src`; `None` for the binary, which is the roof and
/// may use everything.
fn module_of(path: &str) -> Option<Vec<String>> {
    let inner = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    if inner == "main" || inner.starts_with("bin/") {
        return None;
    }
    let inner = inner.strip_suffix("/mod").unwrap_or(inner);
    Some(match inner {
        "lib" => Vec::new(),
        _ => inner.split('/').map(str::to_owned).collect(),
    })
}

/// The entry of the table that `module` belongs to.
fn floor(module: &str) -> Option<(&'static str, u8)> {
    FLOORS
        .iter()
        .copied()
        .find(|(name, _)| is_within(module, name))
}

/// The two modules that only hold others.
fn is_hall(module: &str) -> bool {
    module.is_empty() || module == "proto"
}

fn is_within(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// `IpAddr` and its kin, which only happen to live beside the sockets.
fn is_address(path: &str) -> bool {
    ["std::net::Ip", "std::net::SocketAddr"]
        .iter()
        .any(|start| path.starts_with(start))
}

/// Words that need no path to reach outside.
fn wet_words(tokens: &[Token]) -> Vec<(usize, String)> {
    let text = |at: usize| tokens.get(at).map_or("", |t| t.text.as_str());
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", text);
        let what = match token.text.as_str() {
            "async" => "`async`",
            "await" if before == "." => "`.await`",
            "elapsed" if before == "." => "`.elapsed()`, which reads a clock,",
            "dbg" | "eprint" | "eprintln" | "print" | "println" if text(at + 1) == "!" => {
                "printing"
            }
            _ => continue,
        };
        found.push((token.line, what.to_owned()));
    }
    found
}
