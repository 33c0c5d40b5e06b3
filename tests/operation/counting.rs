//! What each attempt says of itself when it is over.

use crate::events::{DONE, HEL, ROLE, STOP, completed, delta, message_begin};
use crate::machine::{World, background, chat, messages};
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::journal::{AttemptEnded, Control};
use streamkeep::proto::model::{Phase, ResponseHead, UsageBasis};
use streamkeep::proto::operation::{Fact, Gaps, Hold, Input, Note};

const USAGE: &str = "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n";

fn over(world: &World) -> Vec<AttemptEnded> {
    world
        .controls()
        .filter_map(|control| match control {
            Control::AttemptEnded(ended) => Some(ended.clone()),
            _ => None,
        })
        .collect()
}

/// Output tokens, what they are known from, and the characters that came.
fn counted(ended: &AttemptEnded) -> (Option<u64>, Option<&'static str>, u64) {
    (
        ended.usage.output,
        ended.usage_basis.map(UsageBasis::as_str),
        ended.output_chars,
    )
}

#[test]
fn an_attempt_says_what_its_tokens_are_known_from() {
    let mut plan = chat();
    plan.hold = Hold::UntilComplete;
    let mut world = World::new(plan);
    world.stream();
    world.chunk(format!("{ROLE}{}", delta("Hello")));
    world.fail(ErrorKind::Reset, true);
    world.until_next_request();
    world.stream();
    world.chunk(format!("{}{}", delta("Hel"), USAGE));
    world.chunk(delta("lo"));
    world.fail(ErrorKind::Reset, true);
    world.until_next_request();
    world.stream();
    world.chunk(format!("{}{STOP}{USAGE}{DONE}", delta("Hello")));
    let over: Vec<_> = over(&world);
    let told: Vec<_> = over.iter().map(counted).collect();
    assert_eq!(
        told,
        [
            (None, Some("estimated"), 5),
            (Some(3), Some("last_seen"), 5),
            (Some(3), Some("reported"), 5),
        ]
    );
    let decisions: Vec<_> = over.iter().map(|ended| &*ended.decision).collect();
    assert_eq!(decisions, ["rerun", "rerun", "finish"]);
    assert_eq!(over[0].class.as_deref(), Some("network"));
    assert_eq!(over[2].class, None);
}

#[test]
fn the_placeholder_of_a_message_is_not_what_was_output() {
    let mut world = World::new(messages("claude-sonnet-4-5"));
    world.stream();
    world.chunk(message_begin("We need tests. "));
    world.fail(ErrorKind::Reset, true);
    let over = over(&world);
    assert_eq!(counted(&over[0]), (None, Some("estimated"), 15));
    assert_eq!(over[0].usage.input, Some(31));
    assert_eq!(over[0].model.as_deref(), Some("m"));
}

#[test]
fn what_a_broken_answer_says_it_cost_is_kept() {
    let mut world = World::new(chat());
    world.stream();
    world.chunk(delta("Hel"));
    world.chunk("data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\"},\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":40}}\n\n");
    assert_eq!(counted(&over(&world)[0]), (Some(40), Some("last_seen"), 3));
}

#[test]
fn a_resume_counts_what_it_brought_and_tells_what_the_provider_says_of_all() {
    let mut world = World::new(background());
    world.stream();
    world.chunk(crate::events::CREATED);
    world.chunk(HEL);
    world.fail(ErrorKind::Reset, true);
    world.until_next_request();
    world.stream();
    world.chunk(crate::events::LO);
    world.chunk(completed(4));
    let told: Vec<_> = over(&world).iter().map(counted).collect();
    assert_eq!(
        told,
        [(None, Some("estimated"), 3), (Some(3), Some("reported"), 2)]
    );
}

#[test]
fn the_gaps_between_arrivals_of_output_are_counted() {
    let mut world = World::new(chat());
    world.stream();
    let beat = |world: &mut World, millis| {
        world.pass(Duration::from_millis(millis));
        // Two in one piece have no gap between them, and a comment is no output.
        world.chunk(format!("{}{}", delta("a"), delta("b")));
        world.chunk(": keep-alive\n\n");
    };
    for millis in [400, 20, 20, 3_000] {
        beat(&mut world, millis);
    }
    world.chunk(format!("{STOP}{DONE}"));
    let gaps: Gaps = world
        .notes
        .iter()
        .find_map(|note| match note {
            Note::Ended(attempt) => Some(attempt.gaps),
            _ => None,
        })
        .unwrap();
    let counted: Vec<_> = gaps.counted().collect();
    let millis = Duration::from_millis;
    assert_eq!(counted, [(2, millis(20)), (1, millis(3_000))]);
    let over = over(&world);
    assert_eq!(over[0].longest_gap_ms, Some(3_000));
    assert_eq!(over[0].first_output_ms, Some(400));
}

#[test]
fn the_loser_of_a_race_has_no_count_but_of_its_prompt() {
    let mut plan = messages("claude-sonnet-4-5");
    plan.hedge_after = Some(Duration::from_secs(5));
    let mut world = World::new(plan);
    world.stream();
    let (start, _) = MESSAGE.split_once("event: content_block_start").unwrap();
    world.chunk(start);
    world.pass(Duration::from_secs(6));
    assert_eq!(world.attempts(), ["first", "hedge"]);
    let second = |fact| Input::Upstream { attempt: 2, fact };
    world.input(second(Fact::Head(ResponseHead {
        status: 200,
        headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
    })));
    world.input(second(Fact::Chunk(MESSAGE.into())));
    let over = over(&world);
    assert_eq!(over[0].decision, "lost");
    assert_eq!(counted(&over[0]), (None, Some("last_seen"), 0));
    assert_eq!(over[0].usage.input, Some(31));
}

const MESSAGE: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":31,\"output_tokens\":1}}}\n\n\
event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n";

#[test]
fn what_waited_for_its_turn_was_not_sent() {
    for sent in [false, true] {
        let mut world = World::new(chat());
        world.fact(Fact::Queued);
        if sent {
            world.fact(Fact::Admitted);
        }
        world.input(Input::Cancel);
        let expected = if sent {
            Phase::PreStream
        } else {
            Phase::PreSend
        };
        assert_eq!(over(&world)[0].phase, expected);
    }
}
