//! The binary, run as a person runs it: against a provider that misbehaves, with
//! a store in a folder of its own.

#![cfg(test)]

#[cfg(unix)]
#[path = "cli/control.rs"]
mod control;
#[path = "cli/errors.rs"]
mod errors;
#[cfg(unix)]
#[path = "cli/in_redis.rs"]
mod in_redis;
#[path = "cli/reading.rs"]
mod reading;
#[path = "cli/recovering.rs"]
mod recovering;
#[path = "cli/secrets.rs"]
mod secrets;
#[path = "cli/sending.rs"]
mod sending;
#[cfg(unix)]
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "support/redis.rs"]
mod server;
#[cfg(unix)]
#[path = "cli/stopping.rs"]
mod stopping;
#[path = "cli/support.rs"]
mod support;
