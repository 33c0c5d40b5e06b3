//! What the tests of the binary share.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use streamkeep::testkit::Words;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

/// A test that hangs fails, long after every limit of the program itself.
const PATIENCE: Duration = Duration::from_secs(90);

/// What every prompt says: it must appear nowhere but in the store and upstream.
pub(crate) const PROMPT: &str = "a-private-prompt-7f3a";

/// A folder with a store and request bodies.
pub(crate) struct Desk {
    folder: TempDir,
    pub(crate) store: PathBuf,
    variables: Vec<(String, String)>,
}

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: BufReader<ChildStderr>,
    read: String,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("sk").tempdir().unwrap();
        let store = folder.path().join("store");
        Self {
            folder,
            store,
            variables: Vec::new(),
        }
    }

    /// Sets an environment variable for every command.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file; returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A request body of the dialect that a path speaks of.
    pub(crate) fn body(&self, path: &str) -> String {
        let body = match path {
            "/v1/chat/completions" => {
                format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{PROMPT}"}}]}}"#)
            }
            "/v1/messages" => format!(
                r#"{{"model":"claude-sonnet-4-5","max_tokens":100,"messages":[{{"role":"user","content":"{PROMPT}"}}]}}"#
            ),
            "/v1/responses" => format!(r#"{{"model":"m","background":true,"input":"{PROMPT}"}}"#),
            other => panic!("no body for {other}"),
        };
        self.file(&format!("body{}.json", path.replace('/', "-")), &body)
    }

    /// A command in this folder, over its store, with a clean environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_streamkeep"));
        for name in [
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "STREAMKEEP_PRICES",
            "STREAMKEEP_STORE",
            "STREAMKEEP_REDIS_URL",
            "STREAMKEEP_REDIS_URL_FILE",
            "STREAMKEEP_REDIS_CA",
            "STREAMKEEP_LOG",
            "RUST_LOG",
        ] {
            command.env_remove(name);
        }
        command
            .current_dir(self.folder())
            .env("STREAMKEEP_STORE", &self.store)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args)).await
    }

    /// The arguments of `send` to this path of a provider, under key `k`.
    pub(crate) fn send_args(&self, base: &str, path: &str, more: &[&str]) -> Vec<String> {
        let body = self.body(path);
        let url = format!("{base}{path}");
        let key: &[&str] = if more.contains(&"--key") {
            &[]
        } else {
            &["--key", "k"]
        };
        ["send", &body, "--url", &url]
            .iter()
            .chain(key)
            .chain(more)
            .map(|arg| (*arg).to_owned())
            .collect()
    }

    /// Sends to this path of a provider, under key `k`, and waits for the end.
    pub(crate) async fn send(&self, base: &str, path: &str, more: &[&str]) -> Ran {
        let args = self.send_args(base, path, more);
        self.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
            .await
    }

    /// Begins to send to this path of a provider, under key `k`.
    pub(crate) fn start_send(&self, base: &str, path: &str, more: &[&str]) -> Running {
        let args = self.send_args(base, path, more);
        self.start(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Starts a command.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut child = self.command(args).spawn().unwrap();
        Running {
            stdout: child.stdout.take().map(BufReader::new),
            stderr: BufReader::new(child.stderr.take().unwrap()),
            child,
            read: String::new(),
        }
    }
}

/// Runs a command to its end.
pub(crate) async fn finish(mut command: Command) -> Ran {
    // Not `output`, which would take stdout for itself.
    let child = command.spawn().unwrap();
    let output = timeout(PATIENCE, child.wait_with_output())
        .await
        .expect("the command ends")
        .unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("the command runs")
    }

    /// Waits until stdout has said this.
    pub(crate) async fn until_stdout(&mut self, wanted: &str) {
        let stdout = self.stdout.as_mut().expect("stdout is read");
        let mut piece = [0_u8; 4096];
        while !self.read.contains(wanted) {
            let read = timeout(PATIENCE, stdout.read(&mut piece))
                .await
                .expect("stdout goes on")
                .unwrap();
            assert!(read > 0, "stdout ended without {wanted:?}: {:?}", self.read);
            self.read
                .push_str(std::str::from_utf8(&piece[..read]).unwrap());
        }
    }

    /// Waits until stderr has a line with this.
    pub(crate) async fn until_stderr(&mut self, wanted: &str) -> String {
        let mut said = String::new();
        loop {
            let before = said.len();
            let read = timeout(PATIENCE, self.stderr.read_line(&mut said))
                .await
                .expect("stderr goes on")
                .unwrap();
            assert!(read > 0, "stderr ended without {wanted:?}: {said}");
            if said[before..].contains(wanted) {
                return said;
            }
        }
    }

    /// What stdout has said.
    pub(crate) fn read(&self) -> &str {
        &self.read
    }

    /// Closes stdout, as `head` does.
    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Sends a signal.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let status = std::process::Command::new("kill")
            .args([&format!("-{name}"), &self.pid().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits for the end.
    pub(crate) async fn finish(mut self) -> Ran {
        let ended = async {
            let mut stderr = String::new();
            let stdout = async {
                if let Some(stdout) = &mut self.stdout {
                    stdout.read_to_string(&mut self.read).await.unwrap();
                }
            };
            let (said, ()) = tokio::join!(self.stderr.read_to_string(&mut stderr), stdout);
            said.unwrap();
            (self.child.wait().await.unwrap(), stderr)
        };
        let (status, stderr) = timeout(PATIENCE, ended).await.expect("the command ends");
        Ran {
            code: status.code(),
            stdout: self.read,
            stderr,
        }
    }
}

impl Ran {
    /// Checks the exit code; shows everything when it is another.
    #[track_caller]
    pub(crate) fn ends_with(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Checks that stderr says all of this.
    #[track_caller]
    pub(crate) fn says(&self, wanted: &[&str]) -> &Self {
        for wanted in wanted {
            assert!(
                self.stderr.contains(wanted),
                "stderr lacks {wanted:?}: {self:#?}"
            );
        }
        self
    }

    /// Checks that stdout shows all of this.
    #[track_caller]
    pub(crate) fn shows(&self, wanted: &[&str]) -> &Self {
        for wanted in wanted {
            assert!(
                self.stdout.contains(wanted),
                "stdout lacks {wanted:?}: {self:#?}"
            );
        }
        self
    }

    /// stdout as lines of JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
            })
            .collect()
    }

    /// How many of the numbered words stdout has, from the first, without a gap
    /// or a duplicate.
    #[track_caller]
    pub(crate) fn words(&self, all: usize) -> usize {
        Words::numbered(all)
            .count_in(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// The whole answer of `n` numbered words.
pub(crate) fn whole(n: usize) -> String {
    Words::numbered(n).text()
}
