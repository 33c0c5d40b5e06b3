//! Ctrl-C and SIGTERM: stop the answer, keep what arrived.

use crate::exit::Exit;
use crate::talk::Talk;
use std::path::PathBuf;
use streamkeep::Result;
use streamkeep::client::Handle;
use tokio::task::JoinHandle;

#[cfg(unix)]
use streamkeep::{Error, ErrorKind};
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask the process to stop. From here on they do not end it by
/// themselves.
#[derive(Debug)]
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
}

impl Signals {
    pub(crate) fn install() -> Result<Self> {
        #[cfg(unix)]
        {
            let install = |kind| {
                signal(kind).map_err(|error| {
                    Error::new(
                        ErrorKind::Internal,
                        "expected to handle signals, but could not",
                    )
                    .with_source(error)
                })
            };
            Ok(Self {
                interrupt: install(SignalKind::interrupt())?,
                terminate: install(SignalKind::terminate())?,
            })
        }
        #[cfg(not(unix))]
        {
            Ok(Self {})
        }
    }

    /// Stops the answer at the first signal, and ends the process at the second.
    /// Without an answer that this process writes the first one ends it.
    ///
    /// `socket` is removed when the process ends at once.
    pub(crate) fn watch(
        mut self,
        running: Option<Handle>,
        talk: Talk,
        socket: Option<PathBuf>,
    ) -> JoinHandle<()> {
        tokio::spawn(async move {
            let name = self.next().await;
            if let Some(handle) = running {
                talk.say(format_args!(
                    "{name}: stopping; what arrived is kept (once more ends at once)"
                ));
                tokio::select! {
                    biased;
                    _ = self.next() => {}
                    // How it went is told by whoever reads the journal.
                    _ = handle.cancel() => { self.next().await; }
                }
            }
            if let Some(socket) = socket {
                let _ = std::fs::remove_file(socket);
            }
            std::process::exit(i32::from(Exit::Cancelled.code()));
        })
    }

    #[cfg(unix)]
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupted by SIGINT",
            _ = self.terminate.recv() => "interrupted by SIGTERM",
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "interrupted by Ctrl-C"
    }
}
