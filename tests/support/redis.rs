//! A Redis server of a test's own, on a port of this machine, in a folder that goes
//! with it.
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use tempfile::TempDir;

/// A running server, or the place of one that was killed. Ends with the value, also
/// when a test panics.
pub(crate) struct RedisServer {
    program: PathBuf,
    pub(crate) port: u16,
    pub(crate) folder: TempDir,
    arguments: Vec<String>,
    child: Mutex<Option<Child>>,
}

/// What is told of a server that is there.
const READY: &[&str] = &[
    "Ready to accept connections",
    "+monitor",
    "Running mode=sentinel",
];

/// Redis's program, or why there is none: then the caller returns. With `CI=true` a
/// missing one is a failure.
pub(crate) fn program() -> Option<PathBuf> {
    let named = std::env::var_os("STREAMKEEP_REDIS_SERVER").map(PathBuf::from);
    let found = named.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|folder| folder.join("redis-server"))
            .find(|program| program.is_file())
    });
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "no redis-server; scripts/test installs it"
        );
        eprintln!("SKIPPED: no redis-server; scripts/test installs it");
    }
    found
}

/// A port that nobody has at this moment.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl RedisServer {
    /// Starts one that keeps every acknowledged write across `kill -9`, or says why
    /// there is none.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        let program = program()?;
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let all = durable.iter().chain(arguments).map(|s| (*s).to_owned());
        Some(Self::of(program, all.collect()))
    }

    /// Starts one with a file of settings, as a sentinel needs.
    pub(crate) fn start_sentinel(settings: &str) -> Option<Self> {
        let program = program()?;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sentinel.conf");
        std::fs::write(&file, settings).unwrap();
        let arguments = vec![file.to_str().unwrap().to_owned(), "--sentinel".to_owned()];
        Some(Self::launch(program, folder, arguments))
    }

    fn of(program: PathBuf, arguments: Vec<String>) -> Self {
        Self::launch(program, tempfile::tempdir().unwrap(), arguments)
    }

    fn launch(program: PathBuf, folder: TempDir, arguments: Vec<String>) -> Self {
        let mut server = Self {
            program,
            port: 0,
            folder,
            arguments,
            child: Mutex::new(None),
        };
        // Between looking for a port and taking it, somebody else may have it.
        for _ in 0..20 {
            server.port = free_port();
            if let Some(child) = server.spawn() {
                *server.child.lock().unwrap() = Some(child);
                return server;
            }
        }
        panic!("redis-server does not start: {:?}", server.arguments);
    }

    fn spawn(&self) -> Option<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        let port = self.port.to_string();
        let is_tls = self.arguments.iter().any(|a| a == "--tls-cert-file");
        if is_tls {
            command.args(["--port", "0", "--tls-port", &port]);
        } else {
            command.args(["--port", &port]);
        }
        let mut child = command
            .args(["--bind", "127.0.0.1", "--save", ""])
            .arg("--dir")
            .arg(self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        loop {
            match lines.next() {
                Some(Ok(line)) if READY.iter().any(|ready| line.contains(ready)) => break,
                Some(Ok(_)) => {}
                _ => {
                    child.wait().unwrap();
                    return None;
                }
            }
        }
        // Somebody has to read on, or the server stands still when the pipe is full.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Some(child)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.lock().unwrap().is_some()
    }

    fn pid(&self) -> u32 {
        self.child.lock().unwrap().as_ref().unwrap().id()
    }

    /// Waits until this replica has what its primary had when it came.
    pub(crate) fn until_in_sync(&self) {
        while !self.replication().contains("master_link_status:up") {
            std::thread::yield_now();
        }
    }

    /// What it says of replication; nothing, if it is just closing its connections.
    pub(crate) fn replication(&self) -> String {
        redis::Client::open(self.url())
            .and_then(|client| client.get_connection())
            .and_then(|mut connection| redis::cmd("INFO").arg("replication").query(&mut connection))
            .unwrap_or_default()
    }

    /// `kill -9`.
    pub(crate) fn kill(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts it again on the same port, with what it had written.
    pub(crate) fn revive(&self) {
        let child = self.spawn().expect("the server's port is taken");
        *self.child.lock().unwrap() = Some(child);
    }

    /// Stops it where it is: connections stay, nothing is answered.
    pub(crate) fn freeze(&self) {
        signal("-STOP", self.pid());
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        signal("-CONT", self.pid());
    }

    /// A connection to do with the server what the store does not.
    pub(crate) fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url())
            .unwrap()
            .get_connection()
            .unwrap()
    }

    /// One command.
    pub(crate) fn ask<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        command.query(&mut self.connection()).unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let child = self.child.lock().ok().and_then(|mut child| child.take());
        if let Some(mut child) = child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(signal: &str, pid: u32) {
    let status = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}
