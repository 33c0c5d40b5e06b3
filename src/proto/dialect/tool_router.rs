//! Which tool call a fragment of a chat stream belongs to.
//!
//! The documented rule is one line: key by `index` and concatenate
//! (docs/providers.md#openai-chat/chunks). The rest is what servers do
//! instead, and where the line is drawn between reading and guessing.

use crate::proto::model::{Delta, ToolCall};
use std::collections::BTreeMap;

/// The calls of one candidate.
///
/// 1. A known index names its call, unless the fragment brings another id *and*
///    a name: then a new call began under an index that was used before.
/// 2. An unknown index with an id or a name opens a call.
/// 3. Without an index: an id that is known names its call; any other id, or a
///    name, opens a call.
/// 4. A fragment with neither a known index, nor an id, nor a name goes to the
///    only open call. With several open the calls are ambiguous; with none, it
///    opens one.
#[derive(Debug, Default)]
pub(super) struct ToolRouter {
    /// The calls by the index they have in the answer.
    calls: BTreeMap<u32, Call>,
    /// The same by id, so that a hostile stream of ids costs no search.
    by_id: BTreeMap<String, u32>,
    /// Where an index of the wire leads, when not to the call of that number.
    moved: BTreeMap<u32, u32>,
    ambiguous: bool,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
}

impl ToolRouter {
    /// The router as it is after these calls.
    pub(super) fn after(calls: &BTreeMap<u32, ToolCall>) -> Self {
        Self {
            calls: calls
                .iter()
                .map(|(index, call)| {
                    let known = Call {
                        id: call.id.clone(),
                        name: call.name.clone(),
                    };
                    (*index, known)
                })
                .collect(),
            by_id: calls
                .iter()
                .filter(|(_, call)| !call.id.is_empty())
                .map(|(index, call)| (call.id.clone(), *index))
                .collect(),
            ..Self::default()
        }
    }

    /// Takes one fragment.
    pub(super) fn route(
        &mut self,
        choice: u32,
        wire_index: Option<u32>,
        id: Option<String>,
        name: Option<String>,
        fragment: String,
        deltas: &mut Vec<Delta>,
    ) {
        let Some(index) = self.find(wire_index, id.as_deref(), name.as_deref()) else {
            if !self.ambiguous {
                self.ambiguous = true;
                deltas.push(Delta::ToolCallsAmbiguous { choice });
            }
            return;
        };
        let opens = !self.calls.contains_key(&index);
        let call = self.calls.entry(index).or_default();
        // A server may repeat the id and the name on every fragment, or make up
        // an id for each: the first one is the call's.
        let id = id.filter(|_| call.id.is_empty());
        let name = name.filter(|name| *name != call.name);
        if opens || id.is_some() || name.is_some() {
            if let Some(id) = &id {
                call.id.clone_from(id);
                self.by_id.insert(id.clone(), index);
            }
            if let Some(name) = &name {
                call.name.clone_from(name);
            }
            deltas.push(Delta::ToolCall {
                choice,
                index,
                id,
                name,
            });
        }
        if !fragment.is_empty() {
            deltas.push(Delta::ToolArguments {
                choice,
                index,
                fragment,
            });
        }
    }

    /// The provider finished the candidate: its calls are done, unless nobody
    /// can say which fragment belongs to which.
    pub(super) fn close(&self, choice: u32, deltas: &mut Vec<Delta>) {
        if !self.ambiguous {
            deltas.extend(self.calls.keys().map(|index| Delta::ToolCallDone {
                choice,
                index: *index,
            }));
        }
    }

    fn find(
        &mut self,
        wire_index: Option<u32>,
        id: Option<&str>,
        name: Option<&str>,
    ) -> Option<u32> {
        let known = wire_index
            .map(|index| self.moved.get(&index).copied().unwrap_or(index))
            .filter(|index| self.calls.contains_key(index));
        if let Some(index) = known {
            let of_another = name.is_some()
                && id.is_some_and(|id| {
                    let known = self.calls.get(&index).map_or("", |call| call.id.as_str());
                    !known.is_empty() && known != id
                });
            return Some(if of_another {
                self.open(wire_index)
            } else {
                index
            });
        }
        if wire_index.is_none()
            && let Some(id) = id
            && let Some(index) = self.by_id.get(id)
        {
            return Some(*index);
        }
        if id.is_some() || name.is_some() || self.calls.is_empty() {
            return Some(self.open(wire_index));
        }
        match self.calls.len() {
            1 => self.calls.keys().next().copied(),
            _ => None,
        }
    }

    /// The index for a new call: the wire's, or the next free one.
    fn open(&mut self, wire_index: Option<u32>) -> u32 {
        if let Some(index) = wire_index.filter(|index| !self.calls.contains_key(index)) {
            return index;
        }
        let next = self
            .calls
            .last_key_value()
            .map_or(0, |(last, _)| last.saturating_add(1));
        if let Some(index) = wire_index {
            self.moved.insert(index, next);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::model::Answer;

    type Fragment = (
        Option<u32>,
        Option<&'static str>,
        Option<&'static str>,
        &'static str,
    );

    #[track_caller]
    fn check(fragments: &[Fragment], expected: &[(&str, &str, &str)], ambiguous: bool) {
        let mut router = ToolRouter::default();
        let mut deltas = Vec::new();
        for (index, id, name, arguments) in fragments {
            router.route(
                0,
                *index,
                id.map(str::to_owned),
                name.map(str::to_owned),
                (*arguments).to_owned(),
                &mut deltas,
            );
        }
        router.close(0, &mut deltas);
        let mut answer = Answer::default();
        for delta in &deltas {
            answer.apply(delta);
        }
        let choice = &answer.choices[&0];
        let calls: Vec<_> = choice
            .tool_calls
            .values()
            .map(|call| {
                (
                    call.id.as_str(),
                    call.name.as_str(),
                    call.arguments.as_str(),
                )
            })
            .collect();
        assert_eq!(calls, expected);
        assert_eq!(choice.ambiguous_tool_calls, ambiguous);
        assert!(
            choice
                .tool_calls
                .values()
                .all(|call| call.done != ambiguous)
        );
    }

    #[test]
    fn by_index() {
        check(
            &[
                (Some(0), Some("a"), Some("f"), ""),
                (Some(1), Some("b"), Some("g"), ""),
                (Some(0), None, None, "1"),
                (Some(1), None, None, "2"),
                (Some(0), None, None, "3"),
            ],
            &[("a", "f", "13"), ("b", "g", "2")],
            false,
        );
    }

    #[test]
    fn one_call_takes_every_fragment_that_names_no_other() {
        check(
            &[
                (None, Some("a"), Some("f"), "1"),
                (None, None, None, "2"),
                (Some(7), None, None, "3"),
            ],
            &[("a", "f", "123")],
            false,
        );
    }

    #[test]
    fn with_several_open_calls_nothing_is_guessed() {
        check(
            &[
                (Some(0), Some("a"), Some("f"), "1"),
                (Some(1), Some("b"), Some("g"), "2"),
                (Some(2), None, None, "3"),
                (None, None, None, "4"),
            ],
            &[("a", "f", "1"), ("b", "g", "2")],
            true,
        );
    }

    #[test]
    fn whole_calls_without_index_or_under_one_index_are_separate() {
        check(
            &[
                (None, Some("a"), Some("f"), "1"),
                (None, Some("b"), Some("f"), "2"),
                (None, Some("a"), None, "3"),
            ],
            &[("a", "f", "13"), ("b", "f", "2")],
            false,
        );
        check(
            &[
                (Some(0), Some("a"), Some("f"), "1"),
                (Some(0), Some("b"), Some("g"), "2"),
                (Some(0), None, None, "3"),
            ],
            &[("a", "f", "1"), ("b", "g", "23")],
            false,
        );
    }

    #[test]
    fn a_repeated_or_fresh_id_without_a_name_stays_in_its_call() {
        check(
            &[
                (Some(0), Some("a"), Some("f"), "1"),
                (Some(0), Some("a"), Some("f"), "2"),
                (Some(0), Some("z"), None, "3"),
            ],
            &[("a", "f", "123")],
            false,
        );
    }

    #[test]
    fn arguments_before_any_call_open_one() {
        check(&[(None, None, None, "1")], &[("", "", "1")], false);
    }
}
