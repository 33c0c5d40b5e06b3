//! The transport over sockets against servers on the loopback that play bytes.
//!
//! Nothing here waits for time to pass: a server goes on when the test has told
//! it to, and a test goes on when the server has told what it saw. The only clock
//! is the guard in [`within`], which turns a hang into a failure.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its helpers stand outside test functions"
)]

mod cases;
mod connecting;
mod dropping;
mod encodings;
mod http2;
mod once;
mod peer;
mod secrets;
mod tls;
