//! Random histories of a store, beside a model of it that is simple enough to be
//! believed.

#![cfg(feature = "conformance")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a test's helpers fail as the test does"
)]

use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::journal::{Body, Delivered, End, Record, Status};
use streamkeep::proto::model::{Cursor, Fingerprint, Generation, Key, Seq, WallTime};
use streamkeep::store::{Batch, Claim, Claimed, Intent, Lease, MemoryStore, Store, StoreExt};

const KEYS: u8 = 3;
const LEASE_MS: u64 = 30;

#[derive(Clone, Debug)]
enum Op {
    Wait(u64),
    Claim {
        key: u8,
        request: u8,
        intent: Intent,
        keep: u64,
    },
    Append {
        key: u8,
        lease: Option<Index>,
        count: u64,
        skip: u64,
        status: Status,
    },
    Renew {
        key: u8,
        lease: Option<Index>,
    },
    Release {
        key: u8,
        lease: Option<Index>,
    },
    Delete {
        key: u8,
    },
    Collect,
    Reopen,
}

fn any_op() -> impl Strategy<Value = Op> {
    let key = 0..KEYS;
    let intent = prop_oneof![
        3 => Just(Intent::Create),
        2 => Just(Intent::TakeOver),
        1 => Just(Intent::Regenerate)
    ];
    let status = prop_oneof![
        8 => Just(Status::Running),
        2 => Just(Status::Interrupted),
        1 => Just(Status::Ended(End::Complete)),
    ];
    // The newest lease far more often than one that is fenced.
    let lease = prop_oneof![4 => Just(None), 1 => any::<Index>().prop_map(Some)];
    prop_oneof![
        4 => (0..40_u64).prop_map(Op::Wait),
        1 => (100..400_u64).prop_map(Op::Wait),
        6 => (key.clone(), 0..8_u8, intent, prop_oneof![Just(60_u64), Just(150)]).prop_map(
            |(key, request, intent, keep)| Op::Claim { key, request: u8::from(request == 0), intent, keep }
        ),
        12 => (key.clone(), lease.clone(), 1..4_u64, 0..8_u64, status).prop_map(
            |(key, lease, count, skip, status)| Op::Append {
                key, lease, count, skip: skip.saturating_sub(6), status
            }
        ),
        2 => (key.clone(), lease.clone()).prop_map(|(key, lease)| Op::Renew { key, lease }),
        2 => (key.clone(), lease).prop_map(|(key, lease)| Op::Release { key, lease }),
        1 => key.prop_map(|key| Op::Delete { key }),
        2 => Just(Op::Collect),
        1 => Just(Op::Reopen),
    ]
}

#[derive(Clone, Debug)]
struct Live {
    request: u8,
    /// What was appended, by generation.
    answers: BTreeMap<u32, Vec<u64>>,
    generation: u32,
    token: u64,
    leased_until: Option<u64>,
    keep: u64,
    created: u64,
    updated: u64,
    status: Status,
}

#[derive(Clone, Debug)]
struct Gone {
    generation: u32,
    token: u64,
    until: u64,
    kind: ErrorKind,
}

#[derive(Clone, Debug, Default)]
struct Model {
    live: BTreeMap<u8, Live>,
    gone: BTreeMap<u8, Gone>,
    /// Every lease that was ever given out: generation and token.
    leases: BTreeMap<u8, Vec<(u32, u64)>>,
    now: u64,
    payload: u64,
}

impl Live {
    fn is_held(&self, now: u64) -> bool {
        self.leased_until.is_some_and(|until| now < until)
    }

    fn is_over(&self, now: u64) -> bool {
        self.updated + self.keep <= now && !self.is_held(now)
    }
}

impl Model {
    /// `Ok(true)` when it is granted.
    fn claim(
        &mut self,
        key: u8,
        request: u8,
        intent: Intent,
        keep: u64,
    ) -> Result<bool, ErrorKind> {
        let now = self.now;
        if intent == Intent::Create
            && let Some(live) = self.live.get(&key)
            && live.is_over(now)
        {
            self.bury(key, ErrorKind::Expired, 0);
        }
        match (self.live.get_mut(&key), intent) {
            (None, Intent::Create) => {
                let (generation, token) = self
                    .gone
                    .remove(&key)
                    .map_or((1, 1), |gone| (gone.generation + 1, gone.token + 1));
                let live = Live {
                    request,
                    answers: BTreeMap::from([(generation, Vec::new())]),
                    generation,
                    token,
                    leased_until: Some(now + LEASE_MS),
                    keep,
                    created: now,
                    updated: now,
                    status: Status::Running,
                };
                self.live.insert(key, live);
            }
            (None, _) => return Err(self.absent(key)),
            (Some(live), _) if live.request != request => return Err(ErrorKind::KeyConflict),
            (Some(live), _) if intent == Intent::Create || live.is_held(now) => return Ok(false),
            (Some(live), Intent::TakeOver) if live.status.is_final() => return Ok(false),
            (Some(live), _) => {
                live.token += 1;
                live.leased_until = Some(now + LEASE_MS);
                live.keep = keep;
                if intent == Intent::Regenerate {
                    live.generation += 1;
                    live.answers.insert(live.generation, Vec::new());
                    live.status = Status::Running;
                    live.updated = now;
                }
            }
        }
        let live = &self.live[&key];
        self.leases
            .entry(key)
            .or_default()
            .push((live.generation, live.token));
        Ok(true)
    }

    fn absent(&self, key: u8) -> ErrorKind {
        self.gone
            .get(&key)
            .map_or(ErrorKind::NotFound, |gone| gone.kind)
    }

    fn holder(&mut self, key: u8, lease: (u32, u64)) -> Result<&mut Live, ErrorKind> {
        self.live
            .get_mut(&key)
            .filter(|live| (live.generation, live.token) == lease)
            .ok_or(ErrorKind::StaleLease)
    }

    fn bury(&mut self, key: u8, kind: ErrorKind, until: u64) {
        if let Some(live) = self.live.remove(&key) {
            let gone = Gone {
                generation: live.generation,
                token: live.token,
                until,
                kind,
            };
            self.gone.insert(key, gone);
        }
    }
}

fn key(number: u8) -> Key {
    Key::new(format!("k{number}")).unwrap()
}

fn wall(millis: u64) -> WallTime {
    WallTime::from_millis(millis)
}

fn record(seq: u64, payload: u64) -> Record {
    Record {
        seq: Seq::new(seq),
        at: wall(payload),
        body: Body::Event(Delivered {
            name: "".into(),
            data: payload.to_string().into(),
            provider_seq: Some(payload),
        }),
    }
}

/// Does to the store and to the model what the history says, and compares what
/// they answer and all there is to see of them.
struct Run {
    store: Arc<dyn Store>,
    model: Model,
    /// The store's token for each of the model's, by key. That they rise is all that
    /// is promised of them.
    tokens: BTreeMap<(u8, u64), u64>,
}

impl Run {
    fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            model: Model::default(),
            tokens: BTreeMap::new(),
        }
    }

    async fn step(&mut self, op: &Op) {
        let now = self.model.now;
        match *op {
            Op::Wait(millis) => self.model.now += millis,
            Op::Reopen => {}
            Op::Claim {
                key: k,
                request,
                intent,
                keep,
            } => {
                let claim = Claim {
                    key: key(k),
                    fingerprint: Fingerprint::from_bytes([request; 32]),
                    intent,
                    now: wall(now),
                    lease_for: Duration::from_millis(LEASE_MS),
                    keep_for: Duration::from_millis(keep),
                };
                let expected = self.model.claim(k, request, intent, keep);
                match (self.store.claim(claim).await, expected) {
                    (Ok(Claimed::Granted(lease, _)), Ok(true)) => {
                        let live = &self.model.live[&k];
                        assert_eq!(lease.generation.get(), live.generation);
                        let before = self.tokens.range((k, 0)..(k, live.token)).next_back();
                        assert!(before.is_none_or(|(_, token)| *token < lease.token));
                        self.tokens.insert((k, live.token), lease.token);
                    }
                    (Ok(Claimed::Existing(_)), Ok(false)) => {}
                    (Err(error), Err(kind)) if error.kind() == kind => {}
                    (found, expected) => panic!("expected {expected:?}, but found {found:?}"),
                }
            }
            Op::Append {
                key: k,
                ref lease,
                count,
                skip,
                status,
            } => {
                let Some((lease, known)) = self.lease(k, lease.as_ref()) else {
                    return;
                };
                let head = self
                    .model
                    .live
                    .get(&k)
                    .map_or(0, |live| live.answers[&live.generation].len() as u64);
                let first = head + 1 + skip;
                let payloads: Vec<u64> = (0..count).map(|n| self.model.payload + n).collect();
                self.model.payload += count;
                let batch = Batch {
                    records: (first..)
                        .zip(&payloads)
                        .map(|(seq, p)| record(seq, *p))
                        .collect(),
                    status,
                    now: wall(now),
                };
                let expected = self.model.holder(k, known).and_then(|live| {
                    if live.leased_until.is_none() {
                        return Err(ErrorKind::StaleLease);
                    }
                    if skip > 0 {
                        return Err(ErrorKind::WrongSequence);
                    }
                    let answer = live.answers.get_mut(&live.generation).unwrap();
                    answer.extend(payloads);
                    live.updated = now;
                    live.status = status;
                    if status != Status::Running {
                        live.leased_until = None;
                    }
                    Ok(Seq::new(head + count))
                });
                let found = self.store.append(&lease, batch).await;
                assert_eq!(found.map_err(|error| error.kind()), expected);
            }
            Op::Renew { key: k, ref lease } => {
                let Some((lease, known)) = self.lease(k, lease.as_ref()) else {
                    return;
                };
                let until = now + 2 * LEASE_MS;
                let expected = self.model.holder(k, known).and_then(|live| {
                    if live.leased_until.is_none() {
                        return Err(ErrorKind::StaleLease);
                    }
                    live.leased_until = Some(until);
                    Ok(())
                });
                let found = self.store.renew(&lease, wall(until)).await;
                assert_eq!(found.map_err(|error| error.kind()), expected);
            }
            Op::Release { key: k, ref lease } => {
                let Some((lease, known)) = self.lease(k, lease.as_ref()) else {
                    return;
                };
                let expected = self
                    .model
                    .holder(k, known)
                    .map(|live| live.leased_until = None);
                let found = self.store.release(&lease).await;
                assert_eq!(found.map_err(|error| error.kind()), expected);
            }
            Op::Delete { key: k } => {
                let expected = self.model.live.get(&k).map(|live| {
                    let expires = live.updated + live.keep;
                    expires + (expires - live.created)
                });
                if let Some(until) = expected {
                    self.model.bury(k, ErrorKind::NotFound, until);
                }
                let found = self.store.delete(&key(k)).await.unwrap();
                assert_eq!(found, expected.is_some());
            }
            Op::Collect => {
                let mut expected = (0, 0);
                for k in 0..KEYS {
                    let Some(live) = self.model.live.get(&k) else {
                        continue;
                    };
                    if live.is_over(now) {
                        expected.0 += 1;
                        let until = now + live.keep.max(now - live.created);
                        self.model.bury(k, ErrorKind::Expired, until);
                    } else if live.updated + live.keep <= now {
                        expected.1 += 1;
                    }
                }
                self.model.gone.retain(|_, gone| now < gone.until);
                let found = self.store.collect(wall(now)).await.unwrap();
                assert_eq!((found.journals, found.held), expected);
            }
        }
    }

    /// A lease that was once given out for this key: this one, or the newest.
    fn lease(&self, k: u8, index: Option<&Index>) -> Option<(Lease, (u32, u64))> {
        let leases = self.model.leases.get(&k)?;
        let (generation, token) = match index {
            Some(index) => *index.get(leases),
            None => *leases.last()?,
        };
        let lease = Lease {
            key: key(k),
            generation: Generation::new(generation).unwrap(),
            token: self.tokens[&(k, token)],
        };
        Some((lease, (generation, token)))
    }

    /// Compares everything that can be seen.
    async fn look(&self) {
        let listed = self.store.list(None, usize::from(KEYS) + 1).await.unwrap();
        let expected: Vec<Key> = self.model.live.keys().map(|k| key(*k)).collect();
        let keys: Vec<Key> = listed.iter().map(|state| state.key.clone()).collect();
        assert_eq!(keys, expected);
        for k in 0..KEYS {
            let state = self.store.state(&key(k)).await;
            let Some(live) = self.model.live.get(&k) else {
                assert_eq!(
                    state.map_err(|error| error.kind()),
                    Err(self.model.absent(k))
                );
                continue;
            };
            let state = state.unwrap();
            assert!(listed.contains(&state));
            assert_eq!(
                state.fingerprint,
                Fingerprint::from_bytes([live.request; 32])
            );
            assert_eq!(state.generation.get(), live.generation);
            assert_eq!(
                state.head.get(),
                live.answers[&live.generation].len() as u64
            );
            assert_eq!(state.status, live.status);
            assert_eq!(state.leased_until, live.leased_until.map(wall));
            assert_eq!(state.created_at, wall(live.created));
            assert_eq!(state.updated_at, wall(live.updated));
            assert_eq!(state.expires_at, wall(live.updated + live.keep));
            for generation in 1..=live.generation + 1 {
                let cursor = Cursor::new(Generation::new(generation).unwrap(), Seq::ZERO);
                let found = self.store.read_all(&key(k), cursor).await;
                let expected = match live.answers.get(&generation) {
                    Some(answer) => Ok((1..).zip(answer).map(|(s, p)| record(s, *p)).collect()),
                    None if generation > live.generation => Err(ErrorKind::CursorAhead),
                    None => Err(ErrorKind::Expired),
                };
                assert_eq!(found.map_err(|error| error.kind()), expected);
            }
        }
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_memory_store_does_what_the_model_does(history in prop::collection::vec(any_op(), 1..60)) {
        block_on(async {
            let mut run = Run::new(Arc::new(MemoryStore::new()));
            for op in &history {
                run.step(op).await;
                run.look().await;
            }
        });
    }
}

#[cfg(feature = "sled")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_sled_store_does_what_the_model_does(
        history in prop::collection::vec(any_op(), 1..60),
        bucket_bytes in prop_oneof![Just(1_u64), Just(400), Just(1 << 20)],
    ) {
        use streamkeep::store::SledStore;

        block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let open = || async {
                let settings = SledStore::builder(folder.path())
                    .cache_bytes(1 << 20)
                    .bucket_span(Duration::from_millis(50))
                    .bucket_bytes(bucket_bytes);
                Arc::new(settings.open().await.unwrap())
            };
            let mut sled = open().await;
            let mut run = Run::new(sled.clone());
            for op in &history {
                if matches!(op, Op::Reopen) {
                    sled.close().await;
                    sled = open().await;
                    run.store = sled.clone();
                }
                run.step(op).await;
                run.look().await;
            }
        });
    }
}

#[cfg(all(unix, feature = "redis"))]
#[expect(
    dead_code,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "other tests use the rest; a test's helpers fail as the test does"
)]
#[path = "support/redis.rs"]
mod server;

#[cfg(all(unix, feature = "redis"))]
#[test]
fn the_store_in_redis_does_what_the_model_does() {
    use proptest::test_runner::TestRunner;
    use std::cell::Cell;
    use streamkeep::store::RedisStore;

    let Some(server) = server::RedisServer::start(&["--appendonly", "no"]) else {
        return;
    };
    let histories = Cell::new(0_u32);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 64,
        ..ProptestConfig::default()
    });
    let history = prop::collection::vec(any_op(), 1..60);
    let done = runner.run(&history, |history| {
        histories.set(histories.get() + 1);
        let prefix = format!("history-{}", histories.get());
        block_on(async {
            let open = || async {
                let settings = RedisStore::builder(server.url()).prefix(&prefix).buckets(2);
                Arc::new(settings.open().await.unwrap())
            };
            let mut run = Run::new(open().await);
            for op in &history {
                if matches!(op, Op::Reopen) {
                    run.store = open().await;
                }
                run.step(op).await;
                run.look().await;
            }
        });
        Ok(())
    });
    done.unwrap();
}
