//! streamkeep keeps LLM answers unbroken.
//!
//! Every token of a model's answer reaches its reader once, in order, or the
//! reader is told the truth about what is missing and what can be done about it.
//!
//! The crate is built in floors; imports go down only. [`proto`] is the sans-IO
//! core: it compiles alone with no features and knows no clock, no socket, no
//! randomness and no runtime. Above it stand the stores, the transports and the
//! client that drives one operation machine per request.

#[cfg(feature = "client")]
pub mod client;
pub mod error;
pub mod proto;
#[cfg(feature = "client")]
pub mod store;
#[cfg(feature = "testkit")]
pub mod testkit;
#[cfg(feature = "client")]
pub mod transport;

#[cfg(feature = "client")]
pub use client::{Client, Credential};
pub use error::{Error, ErrorClass, ErrorKind, Result};
pub use proto::dialect::Request;
pub use proto::model::{Cursor, Dialect, Key};

/// The programs in the pages for readers compile, like those in the code.
#[cfg(all(doctest, feature = "reqwest", feature = "sled"))]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/guide.md")]
    struct Guide;
    #[cfg(feature = "prometheus")]
    #[doc = include_str!("../docs/metrics.md")]
    struct Metrics;
}
