//! The operation machine and bodies that are no answer, or not the one that was
//! asked for: one story per test.

#[path = "support/events.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod events;
#[path = "support/machine.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod machine;

use events::{DONE, ROLE};
use machine::{World, chat};

/// What was decided about the first exchange: the kind of its failure, and what
/// follows.
fn decided(world: &World) -> (Option<String>, String) {
    use streamkeep::proto::journal::Control;
    let ended = world.controls().find_map(|control| match control {
        Control::AttemptEnded(ended) => Some(ended.clone()),
        _ => None,
    });
    let ended = ended.expect("the first exchange has ended");
    (ended.failure.map(|failure| failure.kind), ended.decision)
}

#[track_caller]
fn check(world: &World, kind: &str, decision: &str) {
    assert_eq!(decided(world), (Some(kind.to_owned()), decision.to_owned()));
}

// vLLM's engine broke before its first token, and the server sent the end marker
// alone: that passed as an empty, complete answer.
#[test]
fn an_end_marker_behind_nothing_claims_nothing() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(DONE);
    check(&world, "empty_response", "retry");

    let mut world = World::new(chat());
    world.stream();
    world.chunk(ROLE);
    world.chunk(DONE);
    check(&world, "truncated", "retry");
    assert_eq!(world.delivered(), [""; 0]);
}
