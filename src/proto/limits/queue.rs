//! Who waits, in the order of arrival, each with a deadline.

use super::Ticket;
use crate::proto::model::Moment;
use std::collections::{BTreeMap, BTreeSet};

/// First come, first served. Taking somebody out of the middle costs no more
/// than taking the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    next: u64,
    order: BTreeMap<u64, Ticket>,
    places: BTreeMap<Ticket, (u64, Moment)>,
    deadlines: BTreeSet<(Moment, u64)>,
}

impl Queue {
    pub(super) fn push(&mut self, ticket: Ticket, deadline: Moment) {
        let place = self.next;
        self.next = self.next.wrapping_add(1);
        self.order.insert(place, ticket);
        self.places.insert(ticket, (place, deadline));
        self.deadlines.insert((deadline, place));
    }

    /// The first whose deadline has not come. Those before it stay, for
    /// [`expire`](Self::expire) to tell of them.
    pub(super) fn pop(&mut self, now: Moment) -> Option<Ticket> {
        let late: BTreeSet<u64> = self.late(now).collect();
        let mut order = self.order.iter();
        let ticket = *order.find(|(place, _)| !late.contains(place))?.1;
        self.remove(ticket);
        Some(ticket)
    }

    pub(super) fn remove(&mut self, ticket: Ticket) {
        if let Some((place, deadline)) = self.places.remove(&ticket) {
            self.order.remove(&place);
            self.deadlines.remove(&(deadline, place));
        }
    }

    pub(super) fn expire(&mut self, now: Moment) -> Vec<Ticket> {
        let late: Vec<_> = self.late(now).collect();
        let late: Vec<_> = late
            .into_iter()
            .filter_map(|place| self.order.get(&place).copied())
            .collect();
        for ticket in &late {
            self.remove(*ticket);
        }
        late
    }

    pub(super) fn drain(&mut self) -> Vec<Ticket> {
        let all = std::mem::take(&mut self.order);
        self.places.clear();
        self.deadlines.clear();
        all.into_values().collect()
    }

    pub(super) fn contains(&self, ticket: Ticket) -> bool {
        self.places.contains_key(&ticket)
    }

    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Whether somebody waits whose deadline has not come. Those whose it has are
    /// still here until they are told, but stand in nobody's way.
    pub(super) fn somebody_waits(&self, now: Moment) -> bool {
        self.late(now).count() < self.len()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn late(&self, now: Moment) -> impl Iterator<Item = u64> {
        let late = self.deadlines.iter().take_while(move |(at, _)| *at <= now);
        late.map(|(_, place)| *place)
    }
}
