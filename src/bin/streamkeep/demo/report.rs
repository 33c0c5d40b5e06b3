//! The table and the JSON at the end.

use super::screen::{Screen, Tone};
use super::verify::Findings;
use crate::format;
use crate::table::Table;
use serde::Serialize;
use streamkeep::Dialect;

/// One story and what was found out about it.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) story: &'static str,
    pub(super) dialect: Dialect,
    /// Its journal in the store.
    pub(super) key: String,
    pub(super) healed: bool,
    #[serde(flatten)]
    pub(super) findings: Findings,
}

/// Shows all of it. True when every story ended as it should.
pub(super) fn show(screen: &mut Screen, rows: &[Row], json: bool) -> bool {
    let healed = rows.iter().all(|row| row.healed) && !rows.is_empty();
    if json {
        return rows.iter().all(|row| screen.json(row).is_ok()) && healed;
    }
    screen.gap();
    screen.block(&table(rows).render(0));
    screen.gap();
    screen.say(
        Tone::Quiet,
        "",
        "Counted from the journals as they stand in the store and from what each reader wrote \
         down, duplicates and gaps for all of them together. Time lost: until the attempt began \
         that brought the first token, and pauses between tokens around a failure.",
    );
    screen.gap();
    let (tone, text) = last_line(rows);
    screen.say(tone, "", &text);
    for row in rows.iter().filter(|row| !row.healed) {
        for problem in &row.findings.problems {
            screen.say(Tone::Bad, "  ", &format!("{}: {problem}", row.story));
        }
    }
    healed
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "story",
        "dialect",
        "attempts",
        "tokens",
        "duplicates",
        "gaps",
        "time lost",
    ]);
    for row in rows {
        let findings = &row.findings;
        table.row(vec![
            row.story.to_owned(),
            row.dialect.name().to_owned(),
            findings.attempts.to_string(),
            findings.tokens.to_string(),
            findings.duplicates.to_string(),
            findings.gaps.to_string(),
            format::millis(findings.time_lost_ms),
        ]);
    }
    table
}

fn last_line(rows: &[Row]) -> (Tone, String) {
    let healed = rows.iter().filter(|row| row.healed).count();
    let sum = |count: fn(&Findings) -> usize| -> usize {
        rows.iter().map(|row| count(&row.findings)).sum()
    };
    let (duplicates, gaps) = (sum(|f| f.duplicates), sum(|f| f.gaps));
    let counts = format!("duplicates {duplicates}, gaps {gaps}");
    if healed == rows.len() && healed > 0 {
        let stories = if healed == 1 {
            "the story"
        } else {
            &format!("all {healed} stories")
        };
        (Tone::Good, format!("{stories} healed: {counts}"))
    } else {
        let text = format!(
            "{healed} of {} stories healed: {counts}; what is not so:",
            rows.len()
        );
        (Tone::Bad, text)
    }
}
