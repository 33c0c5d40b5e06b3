//! A provider that misbehaves on purpose, for your tests and ours.
//!
//! | | |
//! |---|---|
//! | [`Upstream`] | a provider that speaks OpenAI Chat, OpenAI Responses (with background responses) and Anthropic Messages, and fails where a [`Scenario`] says |
//! | [`RawServer`] | plays scripts of bytes, for failures as they were recorded |
//! | [`ByteProxy`] | cuts and stalls in front of a real server, at an exact byte |
//!
//! They listen on a free port of `127.0.0.1`, record every request, and end all
//! their tasks when dropped. Waiting is done by gates ([`Gate`],
//! [`Upstream::wait_for_requests`], [`Upstream::wait_until_closed`]), so a test
//! needs no sleep. Run them on real time: a paused clock and a real socket do not
//! go together, because timers then fire before the kernel has answered.
//!
//! The HTTP in here is written by hand on purpose. A library server would refuse
//! to send a wrong `Content-Length`, a chunk size that is no number, or half a
//! character, and those are what this module is for. For the same reason it is
//! no server for anything but tests: it speaks no TLS and no HTTP/2 of its own.
//!
//! ```
//! use streamkeep::testkit::{Fault, Gate, Scenario, Upstream, Words};
//!
//! # async fn your_application(base_url: &str) -> std::io::Result<String> {
//! #     use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! #     let address = base_url.trim_start_matches("http://");
//! #     let mut text = String::new();
//! #     while !text.contains("[DONE]") {
//! #         let mut socket = tokio::net::TcpStream::connect(address).await?;
//! #         let body = r#"{"model":"m","stream":true,"messages":[]}"#;
//! #         let request = format!(
//! #             "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
//! #             body.len()
//! #         );
//! #         socket.write_all(request.as_bytes()).await?;
//! #         text.clear();
//! #         let _ = socket.read_to_string(&mut text).await;
//! #     }
//! #     Ok(text)
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! // The first answer is reset after its 20th event, the second is whole.
//! let upstream = Upstream::start(
//!     Scenario::openai_chat()
//!         .words(60)
//!         .on(1, Fault::reset().after_event(20))
//!         .on(2, Fault::none()),
//! )
//! .await?;
//!
//! let answer = your_application(&upstream.url()).await?;
//!
//! let requests = upstream.requests();
//! assert_eq!(requests.len(), 2);
//! assert_eq!(requests[0].events_sent, 20);
//! assert!(answer.contains("w60"));
//!
//! // With only the text of an answer, no gap and no duplicate can be proven:
//! assert_eq!(Words::numbered(60).count_in("w1 w2 w3"), Ok(3));
//! assert!(Words::numbered(60).count_in("w1 w3").is_err());
//! # Ok(())
//! # }
//! ```

mod answer;
mod background;
mod closed_port;
mod fault;
mod frame;
mod gate;
mod http;
mod listen;
mod place;
mod play;
mod program;
mod proxy;
mod raw;
mod record;
mod routes;
mod scenario;
mod server;
mod speak;
mod step;
mod words;

pub use answer::Ending;
pub use closed_port::ClosedPort;
pub use fault::Fault;
pub use gate::Gate;
pub use proxy::{ByteProxy, Cut, ProxyConnection, ProxyEnd, ProxyPlan};
pub use raw::{RawPlan, RawServer};
pub use record::{EndedBy, ExchangeEnd, RecordedRequest};
pub use scenario::{Replay, Scenario};
pub use server::Upstream;
pub use speak::failure::Failure;
pub use step::{Close, Step, StepError, Template};
pub use words::{Mismatch, Words};
