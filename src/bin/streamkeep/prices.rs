//! The file that says what tokens cost.

use std::fs;
use std::path::{Path, PathBuf};
use streamkeep::proto::cost::PriceTable;
use streamkeep::{Error, ErrorKind, Result};

/// The environment variable that names the file.
const VARIABLE: &str = "STREAMKEEP_PRICES";

/// The table in the file that the flag names, else the environment; `None` when
/// neither does.
///
/// # Errors
///
/// [`ErrorKind::Config`]. A file that is none may hold anything, a secret too, so
/// the error says where the fault is and shows nothing of it.
pub(crate) fn find(flag: Option<PathBuf>) -> Result<Option<PriceTable>> {
    let named = flag.or_else(|| {
        std::env::var_os(VARIABLE)
            .filter(|file| !file.is_empty())
            .map(PathBuf::from)
    });
    named.map(|file| load(&file)).transpose()
}

fn load(file: &Path) -> Result<PriceTable> {
    let text = fs::read_to_string(file).map_err(|error| {
        Error::new(
            ErrorKind::Config,
            format!(
                "expected to read prices from {}, but could not",
                file.display()
            ),
        )
        .with_source(error)
    })?;
    let is_json = file.extension().is_some_and(|end| end == "json");
    read(&text, is_json).map_err(|line| {
        let place = line.map_or_else(String::new, |line| format!(" in line {line}"));
        Error::new(
            ErrorKind::Config,
            format!(
                "expected a currency, and an input and an output price for each model as in examples/prices.toml, but found something else{place} of {}",
                file.display()
            ),
        )
    })
}

/// The table, or the line of the fault.
fn read(text: &str, is_json: bool) -> Result<PriceTable, Option<usize>> {
    if is_json {
        return serde_json::from_str(text).map_err(|error| Some(error.line()));
    }
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start))?;
        Some(before.matches('\n').count().saturating_add(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_table() {
        let text = include_str!("../../../examples/prices.toml");
        let table = read(text, false).unwrap();
        assert!(table.price("example-large-2026").is_some());
        assert!(table.as_of().is_some_and(|day| !day.is_empty()));
    }

    #[test]
    fn a_fault_is_told_by_its_line_and_shown_to_nobody() {
        let slip = "currency = \"USD\"\n[models.m]\ninput = \"sk-secret\"\noutput = 1\n";
        assert_eq!(read(slip, false).unwrap_err(), Some(3));
        let slip = "{\"currency\": \"USD\",\n\"models\": {\"m\": {\"input\": \"sk-secret\"}}}";
        assert_eq!(read(slip, true).unwrap_err(), Some(2));
        let error = load(Path::new("no such file")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
    }

    #[test]
    fn prices_are_exact_in_either_form() {
        let toml = "currency = \"EUR\"\n[models.\"m*\"]\ninput = 0.1\noutput = \"0.30\"\n";
        let json = r#"{"currency":"EUR","models":{"m*":{"input":"0.10","output":0.3}}}"#;
        assert_eq!(read(toml, false).unwrap(), read(json, true).unwrap());
    }
}
