//! The store in Redis, against servers that the tests start: the contract, and
//! everything that servers and connections do to it.
//!
//! The servers are `redis-server` of `STREAMKEEP_REDIS_SERVER`, or of the path.

#![cfg(all(unix, feature = "redis", feature = "conformance", feature = "testkit"))]
#![cfg(test)] // else the lints take the helpers for production code

#[path = "redis_store/breaking.rs"]
mod breaking;
#[path = "redis_store/cluster.rs"]
mod cluster;
#[path = "redis_store/contract.rs"]
mod contract;
#[path = "redis_store/entering.rs"]
mod entering;
#[path = "redis_store/failover.rs"]
mod failover;
#[path = "redis_store/losing.rs"]
mod losing;
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "support/redis.rs"]
mod server;
#[path = "redis_store/support.rs"]
mod support;
#[path = "redis_store/tailing.rs"]
mod tailing;
