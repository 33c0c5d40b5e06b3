//! Compares what was seen with what a case expects, field by field.

use crate::fixtures::{Alternative, Case, Class, Expect, Retry, Texts};
use crate::play::{Played, attempt_end, stretch};
use crate::view::View;
use crate::words::{code_of, count_of, finish_of};
use std::fmt::Debug;
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::journal::End;
use streamkeep::proto::model::ToolCall;
use streamkeep::testkit::Step;

/// Everything that is not as the case says; empty when all of it is.
pub(crate) fn check(case: &Case, played: &Played) -> Vec<String> {
    let mut found = Vec::new();
    let whole_call = View::of_call(played, Some(case.config.max_attempts.unwrap_or(3)));
    let first = if case.expect.class == Some(Class::Cancelled) {
        View::of_call(played, None)
    } else {
        View::of_first_exchange(played)
    };
    found.extend(met(case, &case.expect, &first, played));
    if let Some(expected) = &case.expect_final {
        let of_call = met(case, expected, &whole_call, played);
        found.extend(of_call.into_iter().map(|line| format!("in all: {line}")));
    }
    found.extend(promises(case, &first, &whole_call, played));
    found
}

/// What is not as expected, unless another outcome is fine as well.
fn met(case: &Case, expected: &Expect, view: &View, played: &Played) -> Vec<String> {
    let found = compare(case, expected, view, played);
    let others = expected.accept_also.iter().flatten();
    let fine =
        found.is_empty() || { others }.any(|other| meets(case, expected, other, view, played));
    if fine { Vec::new() } else { found }
}

/// With another class nothing but the class and the error can be asked for.
fn meets(
    case: &Case,
    expected: &Expect,
    other: &Alternative,
    view: &View,
    played: &Played,
) -> bool {
    let error_type = other.error_type.clone().map(Some);
    let instead = match other.class {
        Some(class) => Expect {
            class: Some(class),
            error_type,
            ..Expect::default()
        },
        None => Expect {
            error_type,
            ..expected.clone()
        },
    };
    compare(case, &instead, view, played).is_empty()
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn same<T: PartialEq + Debug>(&mut self, field: &str, expected: Option<T>, found: T) {
        if let Some(expected) = expected
            && expected != found
        {
            self.0.push(format!(
                "{field}: expected {expected:?}, but found {found:?}"
            ));
        }
    }

    fn holds(&mut self, field: &str, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(format!("{field}: {}", what()));
        }
    }
}

#[expect(
    clippy::too_many_lines,
    reason = "one line or two for each field, and no field may be forgotten"
)]
fn compare(case: &Case, expected: &Expect, view: &View, played: &Played) -> Vec<String> {
    let mut d = Differences::default();
    let Expect {
        class,
        phase,
        text,
        terminal,
        complete,
        finish,
        error_type,
        retry,
        reasoning,
        text_repeat,
        choices,
        tool_calls,
        structured,
        usage,
        noise_events,
        response_id,
        start_events,
        message_contains,
        http_status,
        http_equiv,
        retry_after_ms,
        errors_emitted,
        within_ms,
        first_event_within_ms,
        delay_min_ms,
        delay_max_ms,
        total_min_ms,
        connections,
        connections_max,
        requests,
        request2_line,
        request2_contains,
        request2_last_role,
        same_key_on_retry,
        // Alternatives are tried by the caller; a note is for people.
        accept_also: _,
        note: _,
        ..
    } = expected.clone();
    let failure = view.failure.as_ref();
    let first = view.choice(0);

    d.same("class", class, view.class);
    d.same("phase", phase, view.phase);
    let text = match (text, text_repeat) {
        (_, Some(repeated)) => Some(repeated.text.repeat(repeated.times)),
        (Some(Texts::One(text)), None) => Some(text),
        (Some(Texts::PerReader(_)), None) => panic!("{} has several readers", case.id),
        (None, None) => None,
    };
    d.same("text", text, first.text.clone());
    d.same("reasoning", reasoning, first.reasoning.clone());
    d.same("terminal", terminal, view.class == Class::Ok);
    let is_complete = matches!(view.end, Some(End::Complete | End::Claimed));
    d.same("complete", complete, is_complete);
    d.same("finish", finish, view.stop.as_ref().map(finish_of));
    let kind = failure.map(|failure| failure.kind.as_str());
    d.same(
        "error_type",
        error_type.map(|word| word.as_deref().map(code_of)),
        kind,
    );
    d.same("retry", retry, view.retry);
    for (index, text) in choices.into_iter().flatten() {
        let found = view.choice(index.parse().unwrap()).text;
        d.same(&format!("choices.{index}"), Some(text), found);
    }
    if let Some(expected) = tool_calls {
        let claimed = view.end == Some(End::Claimed);
        let trusted = !first.ambiguous_tool_calls;
        let found = { first.tool_calls.values() }
            .map(|call| as_expected(call, trusted, claimed))
            .collect();
        d.same("tool_calls", Some(expected), found);
    }
    if let Some(structured) = structured {
        d.same("structured.ok", Some(structured.ok), played.json.is_ok());
        let kind = structured.reason.map(|reason| match reason.as_str() {
            "incomplete" => ErrorKind::Incomplete,
            "malformed" => ErrorKind::NotJson,
            other => panic!("no kind is known for the reason {other}"),
        });
        d.same("structured.reason", Some(kind), played.json.err());
    }
    for (name, count) in usage.into_iter().flatten() {
        let found = count_of(&view.usage, &name);
        d.same(&format!("usage.{name}"), Some(Some(count)), found);
    }
    d.same("noise_events", noise_events.map(Some), played.noise);
    d.same(
        "response_id",
        response_id.map(Some),
        view.answer.response_id.clone(),
    );
    d.same("start_events", start_events, count(view.starts));
    if let Some(part) = message_contains {
        let message = failure.map_or("", |failure| failure.message.as_str());
        d.holds("message_contains", message.contains(&part), || {
            format!("expected {part:?} in {message:?}")
        });
    }
    d.same(
        "http_status",
        http_status.map(Some),
        failure.and_then(|failure| failure.status),
    );
    d.same(
        "http_equiv",
        http_equiv.map(Some),
        failure.and_then(|failure| failure.http_equivalent),
    );
    d.same(
        "retry_after_ms",
        retry_after_ms,
        failure.and_then(|failure| failure.retry_after_ms),
    );
    d.same("errors_emitted", errors_emitted, count(view.errors));
    if let Some(limit) = within_ms
        && case.expect.class != Some(Class::Cancelled)
    {
        // Told by order: the script goes on for longer than the limit, and the
        // client was gone by then.
        let limit = Duration::from_millis(limit);
        d.holds("within_ms", pauses(case) > limit, || {
            "the script is over before the limit is".to_owned()
        });
        d.holds("within_ms", played.left_first, || {
            "the client stayed to the script's end".to_owned()
        });
    }
    if let Some(limit) = first_event_within_ms {
        // Told by order, too: the first output came before most of the pauses.
        let pauses = pauses(case) * stretch(case);
        let ended = played.records.iter().find_map(attempt_end);
        let (first, last) = ended.map_or((None, 0), |e| (e.first_output_ms, e.took_ms));
        let after = Duration::from_millis(last.saturating_sub(first.unwrap_or(last)));
        d.holds("first_event_within_ms", after >= pauses / 2, || {
            format!("expected it in {limit} ms, but it came {after:?} before the end")
        });
    }
    let delay = { played.records.iter() }
        .find_map(attempt_end)
        .map_or(0, |ended| ended.delay_ms);
    let apart = |from: usize, to: usize| {
        let at = |n: usize| played.requests.get(n).map(|request| request.arrived);
        let time = at(to).zip(at(from)).map(|(to, from)| to - from);
        time.unwrap_or_default()
    };
    if let Some(min) = delay_min_ms {
        let apart = apart(0, 1);
        d.holds("delay_min_ms", delay >= min, || {
            format!("expected at least {min}, but a delay of {delay} was decided")
        });
        d.holds("delay_min_ms", apart >= Duration::from_millis(min), || {
            format!("expected at least {min}, but the requests came {apart:?} apart")
        });
    }
    if let Some(max) = delay_max_ms {
        d.holds("delay_max_ms", delay <= max, || {
            format!("expected at most {max}, but a delay of {delay} was decided")
        });
    }
    if let Some(min) = total_min_ms {
        let apart = apart(0, played.requests.len().saturating_sub(1));
        d.holds("total_min_ms", apart >= Duration::from_millis(min), || {
            format!("expected at least {min}, but the requests came {apart:?} apart")
        });
    }
    d.same("connections", connections, count(played.connections));
    d.holds(
        "connections_max",
        connections_max.is_none_or(|max| count(played.connections) <= max),
        || format!("{} connections were made", played.connections),
    );
    d.same("requests", requests, count(played.requests.len()));
    let second = played.requests.get(1);
    let line = second.map(|request| format!("{} {}", request.method, request.target));
    d.same("request2_line", request2_line.map(Some), line);
    let body = second.map_or_else(String::new, |request| {
        String::from_utf8_lossy(&request.body).into_owned()
    });
    if let Some(part) = request2_contains {
        d.holds("request2_contains", body.contains(&part), || {
            format!("expected {part:?} in {body:?}")
        });
    }
    if let Some(role) = request2_last_role {
        let last = second.and_then(|request| {
            let body = request.json()?;
            let last = body["messages"].as_array()?.last()?;
            last["role"].as_str().map(str::to_owned)
        });
        d.same("request2_last_role", Some(Some(role)), last);
    }
    if let Some(expected) = same_key_on_retry {
        let mut keys = { played.requests.iter() }.map(|r| r.header("idempotency-key"));
        let first = keys.next().flatten();
        let same = first.is_some() && played.requests.len() > 1 && keys.all(|key| key == first);
        d.same("same_key_on_retry", Some(expected), same);
    }
    d.0
}

/// What has to hold whatever the case says.
fn promises(case: &Case, first: &View, call: &View, played: &Played) -> Vec<String> {
    let mut d = Differences::default();
    let text = call.choice(0).text;
    d.same("a reader's text", Some(text), played.read.clone());
    if first.class == Class::PreStream {
        d.same(
            "answer before any output",
            Some(0),
            first.answer.choices.len(),
        );
    }
    let may_go_on = case.config.resume.is_some() || case.config.continuation.is_some();
    if first.class != Class::PreStream && !may_go_on {
        d.same("requests after output", Some(1), played.requests.len());
    }
    if first.retry == Retry::None {
        d.same("requests without a retry", Some(1), played.requests.len());
    }
    let whole = match (call.end, &call.failure) {
        (Some(End::Complete | End::Claimed), None) => Ok(()),
        (Some(End::Truncated), None) => Err(ErrorKind::Incomplete),
        (Some(End::Refused | End::Filtered), None) => Err(ErrorKind::ContentPolicy),
        (_, Some(failure)) => Err(ErrorKind::from_code(&failure.kind).unwrap()),
        (end, None) => panic!("{end:?} without a failure"),
    };
    d.same(
        "what a caller of complete() gets",
        Some(whole),
        played.whole,
    );
    if call.stop.is_none() && call.end == Some(End::Claimed) {
        let warnings = vec!["missing_stop_reason".to_owned()];
        d.same("warnings of a claim", Some(warnings), call.warnings.clone());
    }
    d.0
}

/// A call as the fixtures describe one. Done means that the provider said so, or
/// that only its end marker did and the arguments are whole.
fn as_expected(call: &ToolCall, trusted: bool, claimed: bool) -> crate::fixtures::ToolCall {
    let complete = trusted && (call.done || claimed) && call.arguments_are_json();
    let arguments = if complete {
        call.arguments_or_empty_object()
    } else {
        &call.arguments
    };
    crate::fixtures::ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: arguments.to_owned(),
        complete,
    }
}

/// All pauses of the first script together, as the fixture has them.
fn pauses(case: &Case) -> Duration {
    let pause = |step: &Step| match step {
        Step::Sleep(time) => *time,
        _ => Duration::ZERO,
    };
    case.script.iter().map(pause).sum()
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap()
}

/// The fields of a case that this runner does not look at, and that are set.
///
/// They are of gateways, stores and later dialects; a case that has one of them
/// must not count as played.
pub(crate) fn unread(case: &Case) -> Vec<&'static str> {
    [Some(&case.expect), case.expect_final.as_ref()]
        .into_iter()
        .flatten()
        .flat_map(fields_unread)
        .collect()
}

fn fields_unread(expect: &Expect) -> Vec<&'static str> {
    let read = [
        (
            "reconnect_delay_min_ms",
            expect.reconnect_delay_min_ms.is_some(),
        ),
        (
            "upstream_closed_within_ms",
            expect.upstream_closed_within_ms.is_some(),
        ),
        ("check", expect.check.is_some()),
        ("cursor", expect.cursor.is_some()),
        ("reconnect_headers", expect.reconnect_headers.is_some()),
        ("roundtrip", expect.roundtrip.is_some()),
        ("routes", expect.routes.is_some()),
        ("response_headers", expect.response_headers.is_some()),
        ("status", expect.status.is_some()),
        ("statuses", expect.statuses.is_some()),
        ("malformed_status", expect.malformed_status.is_some()),
        ("body_len", expect.body_len.is_some()),
        ("heartbeat_has_id", expect.heartbeat_has_id.is_some()),
        (
            "heartbeats_in_first_1000ms_min",
            expect.heartbeats_in_first_1000ms_min.is_some(),
        ),
        (
            "upstream_connections",
            expect.upstream_connections.is_some(),
        ),
        ("stream_ids", expect.stream_ids.is_some()),
        ("reader_error", expect.reader_error.is_some()),
        (
            "reader_closed_within_ms",
            expect.reader_closed_within_ms.is_some(),
        ),
        (
            "subscriber_removed_within_ms",
            expect.subscriber_removed_within_ms.is_some(),
        ),
        (
            "other_reader_delay_ms_max",
            expect.other_reader_delay_ms_max.is_some(),
        ),
        ("terminal_event", expect.terminal_event.is_some()),
        (
            "terminal_event_before_end",
            expect.terminal_event_before_end.is_some(),
        ),
        (
            "events_after_restart_min",
            expect.events_after_restart_min.is_some(),
        ),
        (
            "start_events_after_cursor_resume",
            expect.start_events_after_cursor_resume.is_some(),
        ),
        ("ids_stable", expect.ids_stable.is_some()),
        ("duplicates", expect.duplicates.is_some()),
        ("missing", expect.missing.is_some()),
        ("wrong_events", expect.wrong_events.is_some()),
        ("foreign_events", expect.foreign_events.is_some()),
        ("invalid_events", expect.invalid_events.is_some()),
        ("gap_events", expect.gap_events.is_some()),
        ("stored_status", expect.stored_status.is_some()),
        (
            "no_append_after_cancel",
            expect.no_append_after_cancel.is_some(),
        ),
        ("start_ok", expect.start_ok.is_some()),
        ("metric", expect.metric.is_some()),
        ("disk_max_mib", expect.disk_max_mib.is_some()),
        ("live_text", expect.live_text.is_some()),
        ("resumable", expect.resumable.is_some()),
        ("process_alive", expect.process_alive.is_some()),
        (
            "calls_per_second_max",
            expect.calls_per_second_max.is_some(),
        ),
    ];
    let set = read.into_iter().filter(|(_, set)| *set);
    set.map(|(name, _)| name).collect()
}
