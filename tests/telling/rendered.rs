//! What a recorder rendered, as values.

use std::collections::BTreeMap;

/// One line of Prometheus' text format.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Series {
    /// Whether it is of this metric: itself, or a part of a histogram.
    pub(crate) fn of(&self, metric: &str) -> bool {
        self.name
            .strip_prefix(metric)
            .is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
    }
}

/// The series of a rendered text. The labels of this crate hold no quotes.
pub(crate) fn series(text: &str) -> Vec<Series> {
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (what, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = what.split_once('{').unwrap_or((what, "}"));
            let labels = labels.strip_suffix('}').unwrap();
            let labels = labels
                .split_terminator("\",")
                .map(|label| label.trim_end_matches('"'))
                .filter(|label| !label.is_empty())
                .map(|label| label.split_once("=\"").unwrap())
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            Series {
                name: name.to_owned(),
                labels,
                value: value.parse().unwrap(),
            }
        })
        .collect()
}
