//! What changes something: one script each, told apart from its own repetition by
//! the number of the call.

use super::Shared;
use super::fault::Fault;
use super::layout::{Found, head_of};
use super::link::{Replicas, Trying};
use super::list::together;
use super::read::{evicted, odd};
use super::route::text;
use super::scripts::{APPEND, CLAIM, COLLECT, COMMIT, DELETE, RELEASE, RENEW, Request, Script};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::journal::{Status, encode};
use crate::proto::model::{Key, Seq, WallTime};
use crate::store::entry::{
    conflict, deleted, expired, first_of, given_back, never_existed, removed, spent, stale,
    wrong_sequence,
};
use crate::store::memory::too_large;
use crate::store::{Batch, Claim, Claimed, Collected, Intent, Lease};
use bytes::BytesMut;
use redis::{Value, cmd};
use std::sync::LazyLock;
use std::time::Duration;

/// Journals that one step of a collection looks at.
const COLLECTED_AT_ONCE: usize = 64;

impl Shared {
    /// A script about a journal and the lists it is in.
    fn script(&self, script: &'static LazyLock<Script>, key: &Key) -> Request {
        let bucket = self.names.bucket_of(key);
        Request::script(bucket.slot, script, &self.names.all(bucket, key))
    }

    /// A script about a journal that stays in its lists.
    fn own_script(&self, script: &'static LazyLock<Script>, key: &Key) -> Request {
        let bucket = self.names.bucket_of(key);
        Request::script(bucket.slot, script, &self.names.own(bucket, key))
    }

    pub(super) async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        let call = self.next_call();
        let intent = match claim.intent {
            Intent::Create => "create",
            Intent::TakeOver => "takeover",
            Intent::Regenerate => "regenerate",
        };
        let request = self
            .script(&CLAIM, &claim.key)
            .with(claim.key.as_str())
            .with(claim.fingerprint.to_string())
            .with(intent)
            .with(claim.now.as_millis())
            .with(claim.now.after(claim.lease_for).as_millis())
            .with(millis(claim.keep_for))
            .with(call.as_str())
            .with(millis(self.grace))
            .with(self.names.channel(&claim.key));
        let mut trying = self.link.trying();
        loop {
            let tried = self.try_claim(&mut trying, &request, claim, &call).await;
            match tried {
                Ok(answer) => return answer,
                Err(fault) => trying.again(fault).await?,
            }
        }
    }

    async fn try_claim(
        &self,
        trying: &mut Trying,
        request: &Request,
        claim: &Claim,
        call: &str,
    ) -> Result<Result<Claimed>, Fault> {
        let (answers, line) = self.link.once(trying, request).await?;
        let Some(Value::Array(parts)) = answers.into_iter().next() else {
            return Ok(Err(odd()));
        };
        let word = parts.first().and_then(text).unwrap_or_default();
        let head = || match head_of(&claim.key, parts.get(1).unwrap_or(&Value::Nil)) {
            Ok(Found::Live(head)) => Ok(head),
            Ok(_) => Err(odd()),
            Err(error) => Err(error),
        };
        Ok(match word {
            "granted" => {
                let head = match head() {
                    Ok(head) => head,
                    Err(error) => return Ok(Err(error)),
                };
                self.until_replicated(&line).await?;
                self.heads.wake(&claim.key);
                Ok(Claimed::Granted(head.lease(), head.into_state()))
            }
            "existing" => head().map(|head| Claimed::Existing(head.into_state())),
            "pending" => {
                // Whoever began it did not live to see it acknowledged.
                self.until_replicated(&line).await?;
                let pending = parts.get(1).and_then(text).unwrap_or_default();
                self.commit_pending(trying, claim, pending, call).await?;
                return Err(Fault::NotNow("a pending append".to_owned()));
            }
            "never" => Err(never_existed()),
            "expired" => Err(expired()),
            "deleted" => Err(deleted()),
            "conflict" => Err(conflict()),
            "spent" => Err(spent()),
            "lost" => Err(evicted()),
            _ => Err(odd()),
        })
    }

    /// Has what replicas have by now acknowledged in the place of its writer.
    async fn commit_pending(
        &self,
        trying: &mut Trying,
        claim: &Claim,
        pending: &str,
        call: &str,
    ) -> Result<(), Fault> {
        let last = pending.split(' ').next().unwrap_or_default();
        let bucket = self.names.bucket_of(&claim.key);
        let hash = {
            let mut generation = cmd("HGET");
            generation
                .arg(self.names.head(bucket, &claim.key))
                .arg("gen");
            Request::commands(bucket.slot, vec![generation])
        };
        let (answers, _) = self.link.once(trying, &hash).await?;
        let generation = answers
            .first()
            .and_then(text)
            .unwrap_or_default()
            .to_owned();
        let request = self.commit_request(&claim.key, &generation, last, call);
        self.link.once(trying, &request).await.map(|_| ())
    }

    pub(super) async fn renew(&self, lease: &Lease, until: WallTime) -> Result<()> {
        let request = self
            .own_script(&RENEW, &lease.key)
            .with(lease.key.as_str())
            .with(lease.generation.get())
            .with(lease.token)
            .with(until.as_millis())
            .with(millis(self.grace));
        let answer = self.link.run_one(&request).await?;
        done(lease, &answer)
    }

    pub(super) async fn release(&self, lease: &Lease) -> Result<()> {
        let request = self
            .own_script(&RELEASE, &lease.key)
            .with(lease.generation.get())
            .with(lease.token);
        let answer = self.link.run_one(&request).await?;
        self.acknowledged.forget(lease);
        done(lease, &answer)
    }

    pub(super) async fn append(&self, lease: &Lease, batch: &Batch) -> Result<Seq> {
        let first = first_of(batch)?;
        let count = u64::try_from(batch.records.len()).unwrap_or(u64::MAX);
        let last = Seq::new(first.get().saturating_add(count.saturating_sub(1)));
        let mut frames = BytesMut::new();
        encode(&batch.records, &mut frames).map_err(too_large)?;
        let call = self.next_call();
        let mut request = self
            .own_script(&APPEND, &lease.key)
            .with(lease.key.as_str())
            .with(format!("{} {}", lease.generation, lease.token))
            .with(format!("{}-{last}", lease.generation))
            .with(first.get())
            .with(last.get())
            .with(batch.status.as_str())
            .with(batch.now.as_millis())
            .with(call.as_str())
            .with(millis(self.grace))
            .with(self.names.channel(&lease.key))
            .with(&frames[..]);
        if self.replicas.is_some() {
            request = request.with("wait");
        }
        drop(frames);

        // Whoever drops this future does not wake the readers beside it: then the
        // script's own wake-up does.
        let mut leaving = self.leaving(&lease.key, &call);
        let mut trying = self.link.trying();
        let answer = loop {
            let tried = self
                .try_append(&mut trying, &request, lease, last, batch.status, &call)
                .await;
            match tried {
                Ok(answer) => break answer,
                Err(fault) => trying.again(fault).await?,
            }
        };
        leaving.stay();
        match &answer {
            Value::Int(0) => {
                self.acknowledged.note(lease, last, batch.status);
                self.heads.wake(&lease.key);
                Ok(last)
            }
            Value::Array(parts) if parts.first().and_then(text) == Some("seq") => {
                let head = parts
                    .get(1)
                    .and_then(text)
                    .and_then(|head| head.parse().ok());
                let head = Seq::new(head.ok_or_else(odd)?);
                match self.acknowledged.of(lease) {
                    Some(known) if known > head => Err(lost_in_redis(known, head)),
                    _ => Err(wrong_sequence(head.next(), first)),
                }
            }
            other => {
                let error = refusal(lease, other);
                if error.kind() == ErrorKind::StaleLease {
                    self.acknowledged.forget(lease);
                }
                Err(error)
            }
        }
    }

    /// Once to Redis and, where replicas are waited for, once to them and back.
    async fn try_append(
        &self,
        trying: &mut Trying,
        request: &Request,
        lease: &Lease,
        last: Seq,
        status: Status,
        call: &str,
    ) -> Result<Value, Fault> {
        let (answers, line) = self.link.once(trying, request).await?;
        let answer = answers.into_iter().next().unwrap_or(Value::Nil);
        if answer != Value::Int(1) {
            return Ok(answer);
        }
        self.until_replicated(&line).await?;
        let commit = self.commit_request(
            &lease.key,
            &lease.generation.to_string(),
            &last.to_string(),
            call,
        );
        let (answers, line) = self.link.once(trying, &commit).await?;
        match answers.first() {
            Some(Value::Int(head)) if u64::try_from(*head).is_ok_and(|head| head >= last.get()) => {
            }
            // Another server answers now, and does not have it: it is sent again.
            _ => return Err(Fault::NotNow("an append that is not there".to_owned())),
        }
        if status != Status::Running {
            // Nobody writes after it, so nothing else would carry the end along.
            self.until_replicated(&line).await?;
        }
        Ok(Value::Int(0))
    }

    fn commit_request(&self, key: &Key, generation: &str, last: &str, call: &str) -> Request {
        self.own_script(&COMMIT, key)
            .with(generation)
            .with(last)
            .with(self.names.channel(key))
            .with(call)
    }

    async fn until_replicated(&self, line: &super::line::Line) -> Result<(), Fault> {
        let Some(Replicas { count, limit }) = self.replicas else {
            return Ok(());
        };
        let replicated = line.replicated(count, limit).await;
        if replicated.is_err() {
            self.link.doubt(line);
        }
        replicated
    }

    pub(super) async fn delete(&self, key: &Key) -> Result<bool> {
        let call = self.next_call();
        let request = self
            .script(&DELETE, key)
            .with(key.as_str())
            .with(call.as_str())
            .with(millis(self.grace))
            .with(self.names.channel(key));
        let mut leaving = self.leaving(key, &call);
        let answer = self.link.run_one(&request).await?;
        leaving.stay();
        self.heads.wake(key);
        match answer {
            Value::Int(was) => Ok(was == 1),
            _ => Err(odd()),
        }
    }

    pub(super) async fn collect(&self, now: WallTime) -> Result<Collected> {
        let mut collected = Collected::default();
        for bucket in self.names.buckets() {
            // Those that are held stay where they are, in front of the rest.
            let mut passed = 0_usize;
            let mut before = Vec::new();
            loop {
                let mut range = cmd("ZRANGEBYSCORE");
                range
                    .arg(self.names.due(bucket))
                    .arg("-inf")
                    .arg(now.as_millis())
                    .arg("LIMIT")
                    .arg(passed)
                    .arg(COLLECTED_AT_ONCE);
                let request = Request::commands(bucket.slot, vec![range]);
                let Value::Array(names) = self.link.run_one(&request).await? else {
                    return Err(odd());
                };
                let keys = names
                    .iter()
                    .filter_map(text)
                    .filter_map(|name| Key::new(name).ok());
                let collecting: Vec<_> = keys.map(|key| self.collect_one(key, now)).collect();
                for found in together(collecting).await {
                    match found? {
                        1 => collected.journals += 1,
                        2 => {
                            collected.held += 1;
                            passed += 1;
                        }
                        _ => {}
                    }
                }
                if names.len() < COLLECTED_AT_ONCE || names == before {
                    break;
                }
                before = names;
            }
        }
        Ok(collected)
    }

    async fn collect_one(&self, key: Key, now: WallTime) -> Result<i64> {
        let call = self.next_call();
        let request = self
            .script(&COLLECT, &key)
            .with(key.as_str())
            .with(now.as_millis())
            .with(millis(self.grace))
            .with(self.names.channel(&key))
            .with(call.as_str());
        let mut leaving = self.leaving(&key, &call);
        let answer = self.link.run_one(&request).await?;
        leaving.stay();
        match answer {
            Value::Int(found) => {
                if found == 1 {
                    self.heads.wake(&key);
                }
                Ok(found)
            }
            _ => Err(odd()),
        }
    }
}

/// The answer of a script that only says whether it was let.
fn done(lease: &Lease, answer: &Value) -> Result<()> {
    match answer {
        Value::Int(0) => Ok(()),
        other => Err(refusal(lease, other)),
    }
}

fn refusal(lease: &Lease, answer: &Value) -> Error {
    let Value::Array(parts) = answer else {
        return odd();
    };
    let part = |at: usize| parts.get(at).and_then(text).unwrap_or_default();
    match part(0) {
        "removed" => removed(),
        "stale" => stale(part(1), part(2), lease),
        "back" => given_back(),
        "lost" => evicted(),
        _ => odd(),
    }
}

/// The answer to a writer whose acknowledged records are not there any more.
fn lost_in_redis(known: Seq, found: Seq) -> Error {
    Error::new(
        ErrorKind::StoreCorrupt,
        format!(
            "expected record {known}, which was acknowledged, but found that Redis has them up to {found} only: a restart or a failover lost the rest"
        ),
    )
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
