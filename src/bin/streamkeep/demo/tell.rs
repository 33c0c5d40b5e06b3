//! What a record says, for the person who watches.

use super::screen::{Screen, Tone};
use crate::format;
use streamkeep::proto::journal::{
    AttemptEnded, AttemptKind, AttemptStarted, Control, Ended, FailureNote, Interrupted, Opened,
};
use streamkeep::proto::model::Phase;

/// Tells one control record.
pub(super) fn tell(screen: &mut Screen, control: &Control) {
    match control {
        Control::Opened(opened) => screen.say(Tone::Quiet, "   . ", &opened_text(opened)),
        Control::AttemptStarted(started) => {
            screen.say(Tone::Plain, "   > ", &started_text(started));
        }
        Control::AttemptEnded(ended) => match &ended.failure {
            None => screen.say(Tone::Quiet, "   . ", &ended_well(ended)),
            Some(failure) => {
                screen.say(Tone::Bad, "   x ", &failed(ended, failure));
                screen.say(Tone::Decision, "     ", &decided(ended, failure));
            }
        },
        Control::Anchored(anchored) => {
            let text = if anchored.resumable {
                "and keeps it: it has a cursor"
            } else {
                "but has no cursor for it"
            };
            let text = format!(
                "the provider calls this answer {} {text}",
                anchored.response_id
            );
            screen.say(Tone::Quiet, "   . ", &text);
        }
        Control::Spliced(spliced) => {
            let behind = spliced
                .after
                .map(|after| format!(", behind the provider's event {after}"))
                .unwrap_or_default();
            let text = format!("joined on ({}){behind}", spliced.kind.as_str());
            screen.say(Tone::Quiet, "   . ", &text);
        }
        Control::Interrupted(interrupted) => {
            screen.say(Tone::Decision, "   ! ", &interrupted_text(interrupted));
        }
        Control::Ended(ended) => {
            let is_whole = ended.end == streamkeep::proto::journal::End::Complete;
            let tone = if is_whole { Tone::Good } else { Tone::Bad };
            screen.say(tone, "   = ", &end_text(ended));
        }
        _ => {}
    }
}

fn opened_text(opened: &Opened) -> String {
    let path = opened.url.splitn(4, '/').nth(3).unwrap_or_default();
    let size = format::bytes(u64::try_from(opened.body.len()).unwrap_or(u64::MAX));
    format!(
        "request to /{path}, {size}, kept under the key {}",
        opened.key
    )
}

fn started_text(started: &AttemptStarted) -> String {
    let what = match started.kind {
        AttemptKind::First => "the request goes out",
        AttemptKind::Retry => "retry: the whole request goes out again",
        AttemptKind::Rerun => "rerun: the whole request goes out again",
        AttemptKind::Resume => "resume: the provider is asked to go on",
        AttemptKind::Poll => "poll: the provider is asked for the answer it stored",
        AttemptKind::Continue => "continue: the model is asked to go on from the partial answer",
        _ => started.kind.as_str(),
    };
    let after = started
        .after
        .map(|after| format!(" after its event {after}"))
        .unwrap_or_default();
    format!("attempt {}, {what}{after}", started.attempt)
}

fn ended_well(ended: &AttemptEnded) -> String {
    let usage = format::usage(&ended.usage)
        .map(|usage| format!("; the provider counts {usage}"))
        .unwrap_or_default();
    if ended.decision == AttemptKind::Poll.as_str() {
        let wait = format::millis(ended.delay_ms);
        return format!(
            "attempt {}: the stored answer is not done; it is asked for again in {wait}",
            ended.attempt
        );
    }
    let took = format::millis(ended.took_ms);
    format!("attempt {} ended well after {took}{usage}", ended.attempt)
}

fn failed(ended: &AttemptEnded, failure: &FailureNote) -> String {
    let place = match ended.phase {
        Phase::PreSend => "before anything was sent",
        Phase::PreStream => "before a token was shown",
        Phase::MidStream => "in the middle of the answer",
    };
    let words: Vec<&str> = [&failure.provider_type, &failure.provider_code]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let words = if words.is_empty() {
        String::new()
    } else {
        format!(" [{}]", words.join(", "))
    };
    format!(
        "attempt {} failed after {}, {place}: {}: {}{words}",
        ended.attempt,
        format::millis(ended.took_ms),
        failure.kind,
        failure.message
    )
}

fn decided(ended: &AttemptEnded, failure: &FailureNote) -> String {
    let wait = match failure.retry_after_ms {
        Some(asked) if ended.delay_ms == asked => {
            format!(" in {}, as the provider asks", format::millis(asked))
        }
        _ if ended.delay_ms > 0 => format!(" in {}", format::millis(ended.delay_ms)),
        _ => String::new(),
    };
    let why = why(ended);
    format!("decided: {}{wait}{why}", ended.decision)
}

fn why(ended: &AttemptEnded) -> &'static str {
    match ended.decision.as_str() {
        "retry" if ended.phase == Phase::PreSend => ": nothing had been sent",
        "retry" => ": no token had come, so the whole request may go again",
        "rerun" => ": what had come was held back and shown to nobody",
        "resume" => ": the provider goes on with the same answer, so nothing is asked twice",
        "poll" => ": it streams this answer no more, but it has stored it",
        "continue" => ": the other form of the request is tried once",
        "interrupt" => ": tokens had been shown, so the request is never sent again by itself",
        "stop" => ": another attempt would not change it",
        _ => "",
    }
}

fn interrupted_text(interrupted: &Interrupted) -> String {
    let options: Vec<&str> = interrupted
        .options
        .iter()
        .map(|option| option.as_str())
        .collect();
    format!(
        "the answer rests here, interrupted ({}); what can be done: {}",
        interrupted.failure.kind,
        options.join(", ")
    )
}

fn end_text(ended: &Ended) -> String {
    let stop = ended
        .stop
        .as_ref()
        .map(|stop| format!(", stop reason {}", stop.as_str()))
        .unwrap_or_default();
    let attempts = format::count(u64::from(ended.attempts), "attempt");
    let usage = format::usage(&ended.usage)
        .map(|usage| format!("; tokens {usage}"))
        .unwrap_or_default();
    format!("{}{stop}, {attempts}{usage}", ended.end.as_str())
}
