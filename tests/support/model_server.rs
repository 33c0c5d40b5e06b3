//! A real model behind `scripts/model-server`, for as long as a test runs.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// A running model server. Ends with the value, also when a test panics.
pub(crate) struct ModelServer {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl ModelServer {
    /// Starts it, or says why there is none: then the caller returns. With
    /// `CI=true` a missing one is a failure.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("STREAMKEEP_MODEL_SERVER") else {
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "STREAMKEEP_MODEL_SERVER is not set; scripts/test sets it"
            );
            eprintln!("SKIPPED: no STREAMKEEP_MODEL_SERVER; scripts/test sets it");
            return None;
        };
        let mut child = Command::new(program)
            .args(["--ctx", "512"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ");
        let address = address.unwrap_or_else(|| panic!("expected an address, but found {line:?}"));
        let address = address.parse().unwrap();
        Some(Self { child, address })
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
