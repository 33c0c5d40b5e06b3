//! Records on their way to the store: one append in flight, the rest wait.

use crate::proto::journal::{Body, Control, Delivered, Record, Status};
use crate::proto::model::{Seq, WallTime};
use std::mem;

/// What the store is asked to append, all or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Append {
    /// The records, dense.
    pub records: Vec<Record>,
    /// The journal's status after them.
    pub status: Status,
}

/// Numbers records and lets one append out at a time. Whatever is queued while
/// it is in flight goes into the next, so batches size themselves.
#[derive(Debug)]
pub(super) struct Outbox {
    next: Seq,
    acknowledged: Seq,
    in_flight: Option<Seq>,
    waiting: Vec<Record>,
    waiting_bytes: usize,
    status: Status,
}

impl Outbox {
    /// An outbox that goes on after `head`.
    pub(super) fn new(head: Seq) -> Self {
        Self {
            next: head.next(),
            acknowledged: head,
            in_flight: None,
            waiting: Vec::new(),
            waiting_bytes: 0,
            status: Status::Running,
        }
    }

    pub(super) fn control(&mut self, at: WallTime, control: Control) {
        self.push(at, Body::Control(Box::new(control)));
    }

    pub(super) fn event(&mut self, at: WallTime, event: Delivered) {
        self.waiting_bytes = self.waiting_bytes.saturating_add(event.data.len());
        self.push(at, Body::Event(event));
    }

    /// The status from the next append on.
    pub(super) fn set_status(&mut self, status: Status) {
        self.status = status;
    }

    /// The next append, if none is in flight and something waits.
    pub(super) fn take(&mut self) -> Option<Append> {
        if self.in_flight.is_some() {
            return None;
        }
        let records = mem::take(&mut self.waiting);
        self.in_flight = Some(records.last()?.seq);
        self.waiting_bytes = 0;
        Some(Append {
            records,
            status: self.status,
        })
    }

    /// The store acknowledged everything up to `through`. Returns the new
    /// acknowledged head, or `None` if that was not what is in flight.
    pub(super) fn acknowledge(&mut self, through: Seq) -> Option<Seq> {
        if self.in_flight != Some(through) {
            return None;
        }
        self.in_flight = None;
        self.acknowledged = through;
        Some(through)
    }

    /// Whether everything queued has been acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_none() && self.waiting.is_empty()
    }

    /// Bytes of event data that wait for the append in flight.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    fn push(&mut self, at: WallTime, body: Body) {
        self.waiting.push(Record {
            seq: self.next,
            at,
            body,
        });
        self.next = self.next.next();
    }
}
