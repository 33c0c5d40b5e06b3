//! What the guards are for: ten thousand clients and a provider that goes down.
//!
//! `cargo run --example storm` plays each storm twice, with the guards and
//! without, prints what was seen, and draws `docs/images/storm.svg`. Nothing is
//! sent and nothing sleeps: machine, guards and retries are the real ones, the
//! provider and the clock are invented. `tests/storm.rs` asserts what is drawn.

mod provider;
mod seen;
mod sim;
mod storms;
mod svg;

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seen = storms::All::play()?;
    let mut out = std::io::stdout();
    for (name, seen) in seen.by_name() {
        writeln!(out, "{name}: {}", storms::in_short(seen))?;
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/images/storm.svg");
    std::fs::write(path, svg::draw(&seen))?;
    writeln!(out, "drawn to docs/images/storm.svg")?;
    Ok(())
}
