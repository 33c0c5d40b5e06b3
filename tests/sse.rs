//! The event-stream decoder and encoder, from outside.

#![cfg(test)]

#[path = "sse/cases.rs"]
mod cases;
#[path = "sse/limits.rs"]
mod limits;
#[path = "sse/oracles.rs"]
mod oracles;
#[path = "sse/properties.rs"]
mod properties;
#[path = "sse/state.rs"]
mod state;
#[path = "sse/support.rs"]
mod support;
