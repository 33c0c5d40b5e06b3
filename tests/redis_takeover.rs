//! A machine dies in the middle of an answer, stands still beyond its lease, or is
//! cut off: another one fences it and finishes the answer through the provider's
//! cursor. Readers on every machine see one gapless answer, and what the zombie
//! appends when it comes back is refused.
//!
//! A machine is a client with a store of its own in one Redis; the one that is killed
//! or frozen is a process: with `TAKEOVER_CHILD` set this test is it.

#![cfg(all(unix, feature = "redis", feature = "reqwest", feature = "testkit"))]
#![cfg(test)] // else the lints take the helpers for production code

#[path = "support/background.rs"]
mod background;
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "support/redis.rs"]
mod server;

use background::{WORDS, key, request};
use server::{RedisServer, signal};
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use streamkeep::client::{Attached, Handle};
use streamkeep::proto::model::{Cursor, Generation, Seq};
use streamkeep::proto::operation::Outcome;
use streamkeep::store::RedisStore;
use streamkeep::testkit::{Gate, Scenario, Upstream, Words};
use streamkeep::{Client, ErrorKind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Events that are shown before something happens to the writer.
const BEFORE: usize = 20;

/// A machine.
async fn client(redis: &str) -> Client {
    let store = RedisStore::builder(redis)
        .response_timeout(Duration::from_millis(500))
        .open()
        .await
        .unwrap();
    Client::builder()
        .store(store)
        .lease(Duration::from_secs(1))
        .build()
        .unwrap()
}

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .expect("expected an end, but found that it waits for ever")
}

async fn start(client: &Client, base: &str) -> Handle {
    client.call(request(base)).key(key()).start().await.unwrap()
}

type Shown = Vec<(Cursor, String)>;

/// Everything after a cursor, and the error that it ends with, if it does.
async fn read_on(handle: &Handle, after: Cursor) -> (Shown, Option<ErrorKind>) {
    let mut reader = handle.subscribe_after(after);
    let mut shown = Shown::new();
    loop {
        match soon(reader.next_event()).await {
            Ok(Some((cursor, event))) => shown.push((cursor, event.data.as_str().to_owned())),
            Ok(None) => return (shown, None),
            Err(error) => return (shown, Some(error.kind())),
        }
    }
}

fn beginning() -> Cursor {
    Cursor::new(Generation::FIRST, Seq::ZERO)
}

/// The child: shows a reader the answer, one line per event, and then how it ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(redis) = std::env::var("TAKEOVER_CHILD") else {
        return;
    };
    let base = std::env::var("TAKEOVER_UPSTREAM").unwrap();
    let client = client(&redis).await;
    let handle = start(&client, &base).await;
    let mut reader = handle.subscribe();
    while let Ok(Some((cursor, event))) = reader.next_event().await {
        println!("shown {cursor} {}", event.data);
    }
    match handle.outcome().await.unwrap() {
        Outcome::StoreFailed(failure) => println!("outcome {}", failure.kind),
        other => println!("outcome {other:?}"),
    }
}

/// A writer in a process of its own.
struct Machine {
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Machine {
    /// Runs one until it has shown so many events. The upstream lets one event through
    /// for each that was shown, so whatever follows falls into the middle.
    async fn writes(redis: &str, base: &str, gate: &Gate, events: usize) -> (Self, Shown) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env("TAKEOVER_CHILD", redis)
            .env("TAKEOVER_UPSTREAM", base)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        // The preamble is shown with the first output: a few events at once.
        gate.permit(8);
        let gate = gate.clone();
        tokio::task::spawn_blocking(move || {
            let mut lines = BufReader::new(stdout).lines();
            let mut shown = Shown::new();
            while shown.len() < events {
                let line = lines.next().unwrap().unwrap();
                let Some(rest) = line.split("shown ").nth(1) else {
                    continue;
                };
                let (cursor, data) = rest.split_once(' ').unwrap();
                shown.push((cursor.parse().unwrap(), data.to_owned()));
                gate.permit(1);
            }
            let machine = Self {
                child,
                lines: Some(lines),
            };
            (machine, shown)
        })
        .await
        .unwrap()
    }

    fn signal(&self, name: &str) {
        signal(name, self.child.id());
    }

    /// What it says of its end.
    async fn outcome(&mut self) -> String {
        let mut lines = self.lines.take().unwrap();
        let saying = tokio::task::spawn_blocking(move || {
            let found =
                lines.find_map(|line| line.unwrap().split("outcome ").nth(1).map(str::to_owned));
            // To its end, so that it can say all that it wants to.
            lines.for_each(drop);
            found.unwrap()
        });
        soon(saying).await.unwrap()
    }
}

/// What every story has: a provider, a Redis, and two machines that only read at
/// first.
struct Scene {
    redis: RedisServer,
    upstream: Upstream,
    gate: Gate,
}

impl Scene {
    async fn open() -> Option<Self> {
        let redis = RedisServer::start(&[])?;
        let gate = Gate::new();
        let scenario = Scenario::openai_responses().words(WORDS).gate(&gate);
        let upstream = Upstream::start(scenario).await.unwrap();
        Some(Self {
            redis,
            upstream,
            gate,
        })
    }

    /// The second machine follows until it is told that the writer is gone, takes
    /// over, and finishes; every reader's log is one answer.
    async fn taken_over_by_another(&self, shown: &Shown) -> Handle {
        let (second, third) = (
            client(&self.redis.url()).await,
            client(&self.redis.url()).await,
        );
        let watching = second.attach(&key()).await.unwrap();
        let (mut log, told) = read_on(&watching, beginning()).await;
        assert_eq!(told, Some(ErrorKind::Truncated), "told, not left to wait");
        assert_eq!(
            &log[..shown.len()],
            shown,
            "an event that was shown is not in the journal"
        );
        // A reader on the third machine waits from here on, through the takeover.
        let stood = log.last().map_or_else(beginning, |(cursor, _)| *cursor);

        self.gate.open();
        let handle = start(&second, &self.upstream.url()).await;
        assert_eq!(handle.attached(), Attached::TookOver);
        let elsewhere = third.attach(&key()).await.unwrap();
        let following = tokio::spawn({
            let elsewhere = elsewhere.clone();
            async move { read_on(&elsewhere, stood).await }
        });
        assert!(matches!(
            soon(handle.outcome()).await.unwrap(),
            Outcome::Ended(_)
        ));
        let answer = handle.complete().await.unwrap();
        assert_eq!(
            Words::numbered(WORDS).count_in(answer.text()),
            Ok(WORDS),
            "a gap or a duplicate"
        );
        let posts = self.upstream.requests();
        let posts = posts.iter().filter(|request| request.method == "POST");
        assert_eq!(posts.count(), 1, "nothing was generated twice");

        let (rest, told) = soon(following).await.unwrap();
        assert_eq!(told, None);
        log.extend(rest);
        for reader in [&handle, &elsewhere] {
            let (whole, told) = read_on(reader, beginning()).await;
            assert_eq!(told, None);
            assert_eq!(whole, log, "two readers saw two answers");
        }
        handle
    }

    /// What stands in the journal is not changed by what a zombie does.
    async fn is_as_it_was(&self, before: &Handle) {
        let fresh = client(&self.redis.url()).await;
        let after = fresh.attach(&key()).await.unwrap();
        assert_eq!(
            read_on(&after, beginning()).await,
            read_on(before, beginning()).await
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_is_killed_is_taken_over() {
    let Some(scene) = Scene::open().await else {
        return;
    };
    let (redis, base) = (scene.redis.url(), scene.upstream.url());
    let (machine, shown) = Machine::writes(&redis, &base, &scene.gate, BEFORE).await;
    machine.signal("-KILL");
    scene.taken_over_by_another(&shown).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_stands_still_beyond_its_lease_is_fenced() {
    let Some(scene) = Scene::open().await else {
        return;
    };
    let (redis, base) = (scene.redis.url(), scene.upstream.url());
    let (mut machine, shown) = Machine::writes(&redis, &base, &scene.gate, BEFORE).await;
    machine.signal("-STOP");
    let handle = scene.taken_over_by_another(&shown).await;
    // It wakes, with events of the provider in its hands, and believes to hold it.
    machine.signal("-CONT");
    assert_eq!(machine.outcome().await, "stale_lease");
    scene.is_as_it_was(&handle).await;
}

/// A network between a machine and Redis that can be cut: what is sent meanwhile
/// arrives when it is mended.
struct Network {
    url: String,
    whole: watch::Sender<bool>,
    relaying: JoinHandle<()>,
}

impl Drop for Network {
    fn drop(&mut self) {
        self.relaying.abort();
    }
}

impl Network {
    async fn to(server: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let (whole, is_whole) = watch::channel(true);
        let address = server.address();
        let relaying = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (address, is_whole) = (address.clone(), is_whole.clone());
                tokio::spawn(async move {
                    let server = TcpStream::connect(address).await.unwrap();
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    tokio::join!(
                        relay(from_client, to_server, is_whole.clone()),
                        relay(from_server, to_client, is_whole),
                    );
                });
            }
        });
        Self {
            url,
            whole,
            relaying,
        }
    }

    fn cut(&self) {
        self.whole.send_replace(false);
    }

    fn mend(&self) {
        self.whole.send_replace(true);
    }
}

async fn relay(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut is_whole: watch::Receiver<bool>,
) {
    let mut block = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut block).await {
        if is_whole.wait_for(|whole| *whole).await.is_err()
            || to.write_all(&block[..count]).await.is_err()
        {
            return;
        }
    }
    // The end travels as the bytes do.
    let _ = is_whole.wait_for(|whole| *whole).await;
    let _ = to.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_is_cut_off_is_fenced_and_its_late_packets_change_nothing() {
    let Some(scene) = Scene::open().await else {
        return;
    };
    let network = Network::to(&scene.redis).await;
    let first = client(&network.url).await;
    scene.gate.permit(8);
    let zombie = start(&first, &scene.upstream.url()).await;
    let mut reader = zombie.subscribe();
    let mut shown = Shown::new();
    while shown.len() < BEFORE {
        let (cursor, event) = soon(reader.next_event()).await.unwrap().unwrap();
        shown.push((cursor, event.data.as_str().to_owned()));
        scene.gate.permit(1);
    }
    network.cut();
    // More of the answer arrives there, and goes nowhere.
    scene.gate.permit(3);
    let handle = scene.taken_over_by_another(&shown).await;
    network.mend();
    let Outcome::StoreFailed(failure) = soon(zombie.outcome()).await.unwrap() else {
        panic!("the zombie believes to have ended its answer");
    };
    assert_eq!(failure.kind, ErrorKind::StaleLease.code());
    scene.is_as_it_was(&handle).await;
    // Its readers, cut off for a while, see the same answer as all others.
    let (whole, told) = read_on(&zombie, beginning()).await;
    assert_eq!(told, None);
    assert_eq!(whole, read_on(&handle, beginning()).await.0);
}
