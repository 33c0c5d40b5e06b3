//! The sans-IO core.
//!
//! Plain values in, plain values out; `now` is an argument and jitter is seeded.
//! What must not appear below this line: `async`, a clock, a random number
//! generator's seed, a file, a socket, the environment. `tests/layering.rs`
//! keeps that true, and the crate compiles with no features as a second proof.

pub mod breaker;
pub mod budget;
pub mod classify;
pub mod cost;
pub mod dialect;
pub mod endpoints;
pub mod guards;
pub mod hedge;
pub mod journal;
pub mod limits;
pub mod model;
pub mod operation;
pub mod retry;
pub mod seeded;
pub mod sliding;
pub mod sse;
pub mod timeouts;
