//! What a store holds, in the order of the keys.
//!
//! Each bucket has its names in order; a list is their lists merged.

use super::Shared;
use super::layout::Bucket;
use super::read::{odd, state_in};
use super::route::text;
use super::scripts::Request;
use crate::error::Result;
use crate::proto::model::{Cursor, Key};
use crate::store::JournalState;
use futures_core::future::BoxFuture;
use redis::{Value, cmd};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

/// States that are asked for at once from one bucket.
const STATES: usize = 256;

impl Shared {
    /// Journals in the order of their keys.
    pub(super) async fn list(
        &self,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<JournalState>> {
        let mut states = Vec::new();
        let mut from = after.cloned();
        while states.len() < limit {
            let wanted = limit.saturating_sub(states.len()).min(4096);
            let keys = self.keys(from.as_ref(), wanted).await?;
            let Some(last) = keys.last().cloned() else {
                break;
            };
            states.extend(self.states(&keys).await?);
            from = Some(last);
        }
        Ok(states)
    }

    /// The first `wanted` keys after this one, of all buckets together.
    async fn keys(&self, after: Option<&Key>, wanted: usize) -> Result<Vec<Key>> {
        let buckets: Vec<Bucket> = self.names.buckets().collect();
        // As many from each as would be in it, if keys spread evenly, and some more.
        let share = wanted.div_ceil(buckets.len().max(1));
        let chunk = share.saturating_mul(2).saturating_add(8).min(wanted.max(1));
        let asking = buckets
            .iter()
            .map(|bucket| self.names_after(*bucket, after, chunk));
        let mut queues: Vec<(Bucket, VecDeque<Key>, bool)> = Vec::new();
        for (bucket, names) in buckets.iter().zip(together(asking.collect()).await) {
            let names = names?;
            let more = names.len() == chunk;
            queues.push((*bucket, names, more));
        }
        let mut keys: Vec<Key> = Vec::new();
        while keys.len() < wanted {
            let next = queues
                .iter_mut()
                .filter_map(|(bucket, names, more)| {
                    let first = names.front()?.clone();
                    Some((first, *bucket, names, more))
                })
                .min_by(|(one, ..), (other, ..)| one.cmp(other));
            let Some((key, bucket, names, more)) = next else {
                break;
            };
            names.pop_front();
            // A bucket that has run dry may have the next one.
            if names.is_empty() && *more {
                *names = self.names_after(bucket, Some(&key), chunk).await?;
                *more = names.len() == chunk;
            }
            keys.push(key);
        }
        Ok(keys)
    }

    async fn names_after(
        &self,
        bucket: Bucket,
        after: Option<&Key>,
        count: usize,
    ) -> Result<VecDeque<Key>> {
        let mut range = cmd("ZRANGEBYLEX");
        range
            .arg(self.names.names(bucket))
            .arg(after.map_or_else(|| "-".to_owned(), |key| format!("({key}")))
            .arg("+")
            .arg("LIMIT")
            .arg(0)
            .arg(count);
        let request = Request::commands(bucket.slot, vec![range]);
        let Value::Array(names) = self.link.run_one(&request).await? else {
            return Err(odd());
        };
        let keys = names.iter().map(|name| {
            let key = text(name).and_then(|name| Key::new(name).ok());
            key.ok_or_else(odd)
        });
        keys.collect()
    }

    /// The states of these journals; those that went meanwhile are left out.
    async fn states(&self, keys: &[Key]) -> Result<Vec<JournalState>> {
        let mut by_bucket: Vec<(Bucket, Vec<Key>)> = Vec::new();
        for key in keys {
            let bucket = self.names.bucket_of(key);
            let full = by_bucket
                .iter_mut()
                .find(|(known, keys)| *known == bucket && keys.len() < STATES);
            match full {
                Some((_, keys)) => keys.push(key.clone()),
                None => by_bucket.push((bucket, vec![key.clone()])),
            }
        }
        let asking = by_bucket
            .iter()
            .map(|(bucket, keys)| self.states_in(*bucket, keys));
        let mut states = Vec::new();
        for found in together(asking.collect()).await {
            states.extend(found?);
        }
        states.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(states)
    }

    async fn states_in(&self, bucket: Bucket, keys: &[Key]) -> Result<Vec<JournalState>> {
        let looks = keys
            .iter()
            .map(|key| self.script_look(key, Cursor::START, 0, 1));
        let request = Request::all(bucket.slot, looks.collect());
        let mut states = Vec::new();
        for (key, answer) in keys.iter().zip(self.link.run(&request).await?) {
            match state_in(key, answer) {
                Ok(state) => states.extend(state),
                // One damaged journal must not hide the others; whoever asks for it
                // by its key is told.
                Err(error) => {
                    tracing::warn!(%error, "a journal of the store is damaged and not listed");
                }
            }
        }
        Ok(states)
    }
}

/// All of them at once; the answers in their order.
pub(super) async fn together<T>(asking: Vec<impl Future<Output = T> + Send>) -> Vec<T> {
    let mut asking: Vec<BoxFuture<'_, T>> = asking
        .into_iter()
        .map(|one| Box::pin(one) as BoxFuture<'_, T>)
        .collect();
    let mut answers: Vec<Option<T>> = asking.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (one, answer) in asking.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(ready) = one.as_mut().poll(context)
            {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}
