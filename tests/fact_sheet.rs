//! The fact sheet `docs/providers.md` and what refers to it.

#![cfg(test)] // else the lints take the helpers for production code

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/providers.md";

#[test]
fn every_reference_to_the_fact_sheet_has_its_heading() {
    let page = read(Path::new(PAGE));
    let headings: BTreeSet<_> = page
        .lines()
        .filter_map(|line| {
            line.strip_prefix("## ")
                .or_else(|| line.strip_prefix("### "))
        })
        .collect();
    let mut references = 0;
    let mut dead = Vec::new();
    for folder in ["src", "tests", "docs", "scripts"] {
        files(Path::new(folder), &mut |path, text| {
            for anchor in anchors(text) {
                references += 1;
                if !headings.contains(anchor) {
                    dead.push(format!("{path}: no heading `{anchor}`"));
                }
            }
        });
    }
    assert!(
        references > 10,
        "found {references} references: a search that finds nothing"
    );
    assert!(dead.is_empty(), "\n{}\n", dead.join("\n"));
}

#[test]
fn every_source_tag_has_its_address_and_every_address_its_use() {
    let page = read(Path::new(PAGE));
    let (facts, sources) = page
        .split_once("\n## sources\n")
        .expect("a list of sources");
    let used: BTreeSet<_> = grades(facts).into_iter().flatten().collect();
    let rows: Vec<_> = sources
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .filter(|(tag, _)| *tag != "tag")
        .collect();
    let listed: BTreeSet<_> = rows.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(rows.len(), listed.len(), "a tag has two rows");
    assert_eq!(used, listed, "tags in the text, and tags with an address");
    for (tag, address) in rows {
        let is_one = address.starts_with("https://") || address.starts_with("`fixtures/");
        assert!(is_one, "{tag}: {address}");
    }
}

/// What stands behind `docs/providers.md#` in a text.
fn anchors(text: &str) -> impl Iterator<Item = &str> {
    text.split("docs/providers.md#").skip(1).filter_map(|rest| {
        let of_anchor = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-/".contains(c);
        let end = rest.find(|c| !of_anchor(c)).unwrap_or(rest.len());
        rest.get(..end).filter(|anchor| !anchor.is_empty())
    })
}

/// The tags of each grade: `[P oa-spec, or-stream]` has two, `[S]` none.
fn grades(text: &str) -> Vec<Vec<&str>> {
    text.split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']'))
        .filter_map(|(inside, _)| {
            let (grade, tags) = inside.split_once(' ').unwrap_or((inside, ""));
            let is_grade = ["P", "S", "O", "I", "M"].contains(&grade);
            is_grade.then(|| tags.split(", ").filter(|tag| !tag.is_empty()).collect())
        })
        .collect()
}

/// Reads every text file below a folder, this one left out: it names the form.
fn files(folder: &Path, each: &mut dyn FnMut(&str, &str)) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, each);
        } else if !path.ends_with("tests/fact_sheet.rs")
            && let Ok(text) = fs::read_to_string(&path)
        {
            each(&path.display().to_string(), &text);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
