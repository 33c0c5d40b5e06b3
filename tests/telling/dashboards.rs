//! The dashboard, the alert rules and the page in the documentation speak of the
//! metrics that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use streamkeep::client::telling::{METRICS, Metric, MetricKind};
use yaml_rust2::{Yaml, YamlLoader};

fn read(path: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join(path)).unwrap()
}

fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| {
        let part = name.strip_prefix(metric.name);
        match metric.kind {
            MetricKind::Histogram => {
                part.is_some_and(|part| ["_bucket", "_sum", "_count"].contains(&part))
            }
            _ => part == Some(""),
        }
    })
}

/// What is wrong with a query: a metric that is not there, a label that it does
/// not have, brackets that do not fit.
fn faults(query: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = 0;
    for (at, _) in query.match_indices("streamkeep_") {
        let name: String = query[at..].chars().take_while(|c| is_name(*c)).collect();
        found += 1;
        let Some(metric) = metric(&name) else {
            faults.push(format!("no metric {name}"));
            continue;
        };
        let rest = &query[at + name.len()..];
        if let Some(matchers) = rest
            .strip_prefix('{')
            .and_then(|rest| rest.split('}').next())
        {
            for matcher in matchers.split("\",").filter(|matcher| !matcher.is_empty()) {
                let label: String = matcher.trim().chars().take_while(|c| is_name(*c)).collect();
                if !metric.labels.contains(&label.as_str()) {
                    faults.push(format!("{name} has no label {label:?}"));
                }
            }
        }
    }
    if found == 0 {
        faults.push("no metric at all".to_owned());
    }
    let labels: BTreeSet<&str> = METRICS
        .iter()
        .flat_map(|m| m.labels)
        .copied()
        .chain(["le"])
        .collect();
    for (at, by) in query.match_indices("by (") {
        let names = query[at + by.len()..].split(')').next().unwrap();
        for name in names.split(',').map(str::trim) {
            if !labels.contains(name) {
                faults.push(format!("no metric has a label {name}"));
            }
        }
    }
    for pair in ["()", "[]", "{}"] {
        let (open, close) = pair.split_at(1);
        if query.matches(open).count() != query.matches(close).count() {
            faults.push(format!("{pair} do not fit"));
        }
    }
    faults
}

#[test]
fn a_query_with_a_slip_is_noticed() {
    assert_eq!(
        faults(r#"sum(rate(streamkeep_attempts_total{kind="first", route=~"a"}[5m]))"#),
        [""; 0]
    );
    for wrong in [
        "up",
        "rate(streamkeep_attempt_total[5m])",
        "streamkeep_first_token_seconds",
        r#"streamkeep_attempts_total{kind="first", cause="x"}"#,
        "sum by (cause) (streamkeep_attempts_total)",
        "sum(rate(streamkeep_attempts_total[5m])",
    ] {
        assert_eq!(faults(wrong).len(), 1, "{wrong}");
    }
}

#[test]
fn the_dashboard_is_one_and_asks_for_metrics_that_there_are() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("grafana/streamkeep.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut asked = BTreeSet::new();
    let mut places = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(panel["description"].as_str().unwrap().len() > 5, "{title}");
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            assert_eq!(faults(query), [""; 0], "{title}: {query}");
            asked.extend(
                METRICS
                    .iter()
                    .map(|m| m.name)
                    .filter(|name| query.contains(name)),
            );
        }
        let place = |part: &str| panel["gridPos"][part].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{title} is off the grid");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(places.insert((x, y)), "{title} covers another panel");
            }
        }
    }
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
    let all: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(asked, all, "every metric is worth a look");
}

#[test]
fn the_alert_rules_are_some_and_ask_for_metrics_that_there_are() {
    let rules = YamlLoader::load_from_str(&read("grafana/alerts.yml")).unwrap();
    let groups = rules[0]["groups"].as_vec().unwrap();
    let mut names = BTreeMap::new();
    for rule in groups
        .iter()
        .flat_map(|group| group["rules"].as_vec().unwrap())
    {
        let name = rule["alert"].as_str().unwrap();
        let query = rule["expr"].as_str().unwrap();
        assert_eq!(faults(query), [""; 0], "{name}: {query}");
        for text in ["summary", "description"] {
            assert!(
                rule["annotations"][text].as_str().is_some(),
                "{name}: no {text}"
            );
        }
        assert!(rule["labels"]["severity"].as_str().is_some(), "{name}");
        assert!(
            matches!(rule["for"], Yaml::String(_) | Yaml::BadValue),
            "{name}"
        );
        names.insert(
            name.to_owned(),
            (query.to_owned(), rule["for"].as_str().map(str::to_owned)),
        );
    }
    let (query, lasts) = &names["StreamkeepAmplification"];
    assert!(query.ends_with("> 1.2"), "{query}");
    assert_eq!(lasts.as_deref(), Some("10m"));
    for wanted in [
        "InterruptionsClimb",
        "CircuitOpen",
        "BudgetExhausted",
        "StoreFailing",
    ] {
        assert!(
            names.contains_key(&format!("Streamkeep{wanted}")),
            "{wanted}"
        );
    }
}

#[test]
fn the_documentation_lists_exactly_the_metrics_that_there_are() {
    let page = read("docs/metrics.md");
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| `streamkeep_"));
    let listed: Vec<_> = rows
        .map(|row| {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let labels = cells[2].replace(['`', ' '], "");
            (
                cells[0].trim_matches('`').to_owned(),
                cells[1].to_owned(),
                labels,
            )
        })
        .collect();
    let expected: Vec<_> = METRICS
        .iter()
        .map(|metric| {
            let kind = format!("{:?}", metric.kind).to_lowercase();
            (metric.name.to_owned(), kind, metric.labels.join(","))
        })
        .collect();
    assert_eq!(listed, expected);
    let queries = page
        .lines()
        .filter(|line| line.contains("rate(streamkeep_"));
    for query in queries.filter_map(|line| line.split('`').nth(1)) {
        assert_eq!(faults(&query.replace("\\|", "|")), [""; 0], "{query}");
    }
}
