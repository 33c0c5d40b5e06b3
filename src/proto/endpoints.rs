//! Something per endpoint, for a bounded number of endpoints. Floor 0.

use super::model::{EndpointId, Moment};
use std::collections::BTreeMap;

/// A map by endpoint that never holds more than its limit: a new endpoint takes
/// the place of the one that is needed least. Ordered, so that equal histories
/// give equal reports.
#[derive(Clone, Debug)]
pub struct Endpoints<T> {
    max: usize,
    slots: BTreeMap<EndpointId, Slot<T>>,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    used: Moment,
    value: T,
}

impl<T> Endpoints<T> {
    /// For at most this many endpoints; at least one.
    pub fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            slots: BTreeMap::new(),
        }
    }

    /// What belongs to this endpoint, made if it is not there.
    ///
    /// When there is no room, the one that `worth` values least goes, and of
    /// equals the one that was used longest ago; what `worth` gives no value for
    /// is in use and stays. `None` when all are in use. Looking for it costs a
    /// walk over all, which happens only when a new name meets a full map.
    pub fn get_or_make(
        &mut self,
        now: Moment,
        id: &EndpointId,
        make: impl FnOnce() -> T,
        worth: impl Fn(&T) -> Option<u8>,
    ) -> Option<&mut T> {
        if !self.slots.contains_key(id) && self.slots.len() >= self.max {
            let least = self
                .slots
                .iter()
                .filter_map(|(id, slot)| Some((worth(&slot.value)?, slot.used, id)))
                .min()?
                .2
                .clone();
            self.slots.remove(&least);
        }
        let slot = self.slots.entry(id.clone()).or_insert_with(|| Slot {
            used: now,
            value: make(),
        });
        slot.used = slot.used.max(now);
        Some(&mut slot.value)
    }

    /// What belongs to this endpoint, if it is there.
    pub fn get_mut(&mut self, id: &EndpointId) -> Option<&mut T> {
        self.slots.get_mut(id).map(|slot| &mut slot.value)
    }

    /// All of them, by name.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&EndpointId, &mut T)> {
        self.slots
            .iter_mut()
            .map(|(id, slot)| (id, &mut slot.value))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn names(endpoints: &mut Endpoints<u8>) -> Vec<String> {
        endpoints.iter_mut().map(|(id, _)| id.to_string()).collect()
    }

    #[test]
    fn the_least_worth_goes_first_and_of_equals_the_one_not_used_for_longest() {
        let mut endpoints = Endpoints::new(3);
        let mut get = |second, name: &str, worth: u8| {
            let now = Moment::from_origin(Duration::from_secs(second));
            let id = EndpointId::new(name);
            let in_use = |worth: &u8| (*worth < 9).then_some(*worth);
            let room = endpoints.get_or_make(now, &id, || worth, in_use).is_some();
            (room, names(&mut endpoints))
        };
        let all = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        get(0, "a", 0);
        get(1, "b", 0);
        get(2, "c", 1);
        // Used again, it is the younger one.
        get(3, "a", 0);
        assert_eq!(get(4, "d", 9), (true, all(&["a", "c", "d"])));
        assert_eq!(get(5, "e", 9), (true, all(&["c", "d", "e"])));
        assert_eq!(get(6, "f", 9), (true, all(&["d", "e", "f"])));
        // All of them are in use.
        assert_eq!(get(7, "g", 0), (false, all(&["d", "e", "f"])));
        assert_eq!(get(8, "d", 9), (true, all(&["d", "e", "f"])));
    }
}
