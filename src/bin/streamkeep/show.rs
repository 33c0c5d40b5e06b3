//! `streamkeep show`.

use crate::args::ShowArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::format;
use crate::hints::{self, Hints};
use crate::out::Out;
use crate::prices;
use crate::progress::label;
use crate::report::{ABANDONED, Report, Wanted};
use crate::spent::Spent;
use crate::table::Table;
use serde::Serialize;
use std::fmt::Write;
use streamkeep::Result;
use streamkeep::proto::model::Phase;

pub(crate) async fn run(context: &Context, args: ShowArgs) -> Result<Exit> {
    let wanted = Wanted {
        key: args.key,
        generation: args.generation,
        prompt: args.prompt,
    };
    // Before anything else: a slip in the file is told at once.
    let prices = prices::find(args.prices)?;
    let report = context.place.open_to_read().await?.report(wanted).await?;
    let spent = Spent::new(&report.bill, prices.as_ref());
    let mut out = Out::new(&context.talk);
    if context.json {
        out.json(&Shown {
            report: &report,
            spent: &spent,
        })
        .await;
    } else {
        out.text(&text(&report, &spent, &context.place.hints()))
            .await;
    }
    out.finish().map(|()| Exit::Complete)
}

/// What `show --json` prints.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    report: &'a Report,
    spent: &'a Spent,
}

fn text(report: &Report, spent: &Spent, hints: &Hints) -> String {
    let entry = &report.entry;
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<9} {value}");
    };
    field("key", entry.key.as_str());
    let status = match &report.end {
        Some(end) => match &end.stop {
            Some(stop) => format!("{} ({})", entry.status, stop.as_str()),
            None => entry.status.clone(),
        },
        None if entry.status == ABANDONED => {
            format!("{ABANDONED}: its writer ended before the answer did")
        }
        None => entry.status.clone(),
    };
    field(
        "status",
        &format!("{status}, generation {}", entry.generation),
    );
    field(
        "asked",
        &format!(
            "{} {} ({})",
            report.dialect,
            report.url,
            format::bytes(report.request_bytes)
        ),
    );
    field(
        "kept",
        &format!(
            "{}, {} of them of the answer, {} in all generations, until {}",
            format::count(entry.records, "record"),
            report.events,
            format::bytes(entry.bytes),
            format::date(entry.expires_at_ms)
        ),
    );
    if let Some(anchored) = &report.anchored {
        let what = if anchored.resumable {
            "can be resumed at the provider"
        } else {
            "cannot be resumed"
        };
        field("response", &format!("{} ({what})", anchored.response_id));
    }
    field("took", &report.effort());
    for (name, value) in spent.lines() {
        field(name, &value);
    }
    let _ = write!(text, "\nattempts\n{}", attempts(report, spent).render(2));
    failures(&mut text, report);
    options(&mut text, report, hints);
    if let Some(request) = &report.request {
        let _ = write!(text, "\nrequest\n{request}\n");
    }
    text
}

fn attempts(report: &Report, spent: &Spent) -> Table {
    let mut head = vec![
        "#",
        "KIND",
        "STARTED",
        "FIRST OUTPUT",
        "TOOK",
        "FAILURE",
        "CLASS",
        "PHASE",
        "THEN",
        "TOKENS",
    ];
    head.extend(spent.has_prices().then_some("COST"));
    let mut table = Table::new(&head);
    let first = report.attempts.first().map(|attempt| &attempt.route);
    for attempt in &report.attempts {
        let none = || "-".to_owned();
        let kind = match attempt.after {
            Some(after) => format!("{} after {after}", attempt.kind.as_str()),
            None if first.is_some_and(|first| *first != attempt.route) => {
                format!("{} on {}", attempt.kind.as_str(), attempt.route)
            }
            None => attempt.kind.as_str().to_owned(),
        };
        let mut row = vec![
            attempt.number.to_string(),
            kind,
            format::date(attempt.started_at_ms),
        ];
        match &attempt.ended {
            None => row.extend([none(), none(), "not ended".to_owned()]),
            Some(over) => row.extend([
                over.first_output_ms.map_or_else(none, format::millis),
                format::millis(over.took_ms),
                over.failure.as_ref().map_or_else(none, label),
                over.class.clone().unwrap_or_else(none),
                over.failure
                    .as_ref()
                    .map_or_else(none, |_| phase(over.phase).to_owned()),
                match over.delay_ms {
                    0 => over.decision.clone(),
                    delay => format!("{} in {}", over.decision, format::millis(delay)),
                },
                spent.tokens_of(attempt.number).unwrap_or_else(none),
            ]),
        }
        if spent.has_prices() && attempt.ended.is_some() {
            row.push(spent.cost_of(attempt.number).unwrap_or_else(none));
        }
        table.row(row);
    }
    table
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::PreSend => "before sending",
        Phase::PreStream => "before output",
        Phase::MidStream => "after output",
    }
}

/// The words of each failure; the table has only their kinds.
fn failures(text: &mut String, report: &Report) {
    for attempt in &report.attempts {
        let Some(over) = &attempt.ended else { continue };
        if let Some(failure) = &over.failure {
            let id = over
                .request_id
                .as_ref()
                .map(|id| format!(" (request id {id})"))
                .unwrap_or_default();
            let _ = writeln!(
                text,
                "  attempt {}: {}{id}",
                attempt.number, failure.message
            );
        }
    }
    for stopped in &report.interruptions {
        let failure = &stopped.interrupted.failure;
        let now = if stopped.rests_here && report.end.is_none() {
            ""
        } else {
            ", overcome"
        };
        let _ = writeln!(
            text,
            "\ninterrupted {}{now}: {}",
            format::date(stopped.at_ms),
            label(failure)
        );
    }
    if let Some(end) = &report.end {
        let failure = end
            .failure
            .as_ref()
            .map(|failure| format!(": {}", label(failure)))
            .unwrap_or_default();
        let _ = writeln!(text, "\n{}{failure}", end.end.as_str());
        for warning in &end.warnings {
            let _ = writeln!(text, "  warning: {warning}");
        }
    }
}

fn options(text: &mut String, report: &Report, hints: &Hints) {
    for (option, command) in report
        .options
        .iter()
        .zip(hints.options(&report.options, &report.entry.key))
    {
        let _ = writeln!(text, "  {command}  # {}", hints::meaning(*option));
    }
}
