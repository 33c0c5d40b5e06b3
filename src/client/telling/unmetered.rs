//! Metrics where the feature `metrics` is off: none.

use crate::proto::cost::{Bill, PriceTable};
use crate::proto::operation::{Attempt, Counts, Route};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Labels;

impl Labels {
    pub(super) fn of(_: &Route) -> Self {
        Self
    }
}

#[derive(Debug)]
pub(super) struct Running;

impl Running {
    pub(super) fn new() -> Self {
        Self
    }
}

pub(super) fn called(_: &'static str) {}

pub(super) fn first_token(_: &Labels, _: Duration) {}

pub(super) fn attempt_ended(_: &Labels, _: &Attempt) {}

pub(super) fn operation_ended(_: &Labels, _: &'static str, _: Option<&str>, _: Duration) {}

pub(super) fn counts(_: &Counts) {}

pub(super) fn bill(_: &Bill, _: impl Fn(u32) -> Labels, _: Option<&PriceTable>) {}
