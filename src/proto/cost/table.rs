//! What tokens cost, as its user says.

use super::money::Money;
use super::tokens::Tokens;
use crate::proto::model::UsageBasis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What a million tokens of one model cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of the prompt.
    pub input: Money,
    /// Of the answer, reasoning included.
    pub output: Money,
    /// Of the prompt, read from a cache (default: the price of the prompt).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<Money>,
    /// Of the prompt, written to a cache (default: the price of the prompt).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Money>,
}

impl Price {
    /// What these tokens cost. Rounded once, to the nearest billionth.
    fn of(&self, tokens: &Tokens) -> Money {
        const MILLION: u128 = 1_000_000;
        let part = |count: u64, price: Money| u128::from(count) * u128::from(price.nanos());
        let sum = [
            part(tokens.input.unwrap_or(0), self.input),
            part(tokens.cached_input, self.cached_input.unwrap_or(self.input)),
            part(tokens.cache_write, self.cache_write.unwrap_or(self.input)),
            part(tokens.output, self.output),
        ]
        .into_iter()
        .fold(0_u128, u128::saturating_add);
        let nanos = sum.saturating_add(MILLION / 2) / MILLION;
        Money::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Prices by model. Deserialise it from TOML, JSON or whatever your
/// configuration is in; `examples/prices.toml` shows the form.
///
/// A name that ends in `*` is for every model whose name begins so. The exact
/// name wins, then the longest beginning.
///
/// ```
/// use streamkeep::proto::cost::PriceTable;
///
/// let table: PriceTable = serde_json::from_str(
///     r#"{"currency": "USD", "models": {
///         "some-model":  {"input": "3.00", "output": "15.00", "cached_input": "0.30"},
///         "some-model*": {"input": "2.50", "output": "10.00"}
///     }}"#,
/// )?;
/// assert_eq!(table.price("some-model").unwrap().input.to_string(), "3.00");
/// assert_eq!(table.price("some-model-2").unwrap().input.to_string(), "2.50");
/// assert!(table.price("other").is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct PriceTable {
    currency: String,
    source: Option<String>,
    as_of: Option<String>,
    exact: BTreeMap<String, Price>,
    /// The longest first.
    beginnings: Vec<(String, Price)>,
}

/// A table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    currency: String,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    as_of: Option<String>,
    models: BTreeMap<String, Price>,
}

/// What is wrong with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("expected a currency word of 1 to 8 letters, such as USD, but found another text")]
    Currency,
    #[error(
        "expected the name of a model, with * at its end or not at all, but found another text"
    )]
    Name,
}

impl TryFrom<Written> for PriceTable {
    type Error = Fault;

    fn try_from(written: Written) -> Result<Self, Fault> {
        let currency = written.currency;
        let letters = currency.bytes().all(|byte| byte.is_ascii_alphabetic());
        if !(1..=8).contains(&currency.len()) || !letters {
            return Err(Fault::Currency);
        }
        let mut exact = BTreeMap::new();
        let mut beginnings = Vec::new();
        for (name, price) in written.models {
            match name.strip_suffix('*') {
                Some(beginning) if !beginning.contains('*') => {
                    beginnings.push((beginning.to_owned(), price));
                }
                None if !name.is_empty() && !name.contains('*') => {
                    exact.insert(name, price);
                }
                _ => return Err(Fault::Name),
            }
        }
        beginnings.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        Ok(Self {
            currency,
            source: written.source,
            as_of: written.as_of,
            exact,
            beginnings,
        })
    }
}

impl PriceTable {
    /// The currency's word.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// Where its user has the prices from, if they say.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Of which day the prices are, if their user says.
    pub fn as_of(&self) -> Option<&str> {
        self.as_of.as_deref()
    }

    /// The price of a model.
    pub fn price(&self, model: &str) -> Option<&Price> {
        self.exact.get(model).or_else(|| {
            self.beginnings
                .iter()
                .find(|(beginning, _)| model.starts_with(beginning.as_str()))
                .map(|(_, price)| price)
        })
    }

    /// What these tokens cost, by the first of these names that has a price: what
    /// was asked for, then what answered. An alias is what people have a price
    /// for; a deployment's own name is in no table, and what answered is.
    pub fn cost<'a>(&self, models: impl IntoIterator<Item = &'a str>, tokens: &Tokens) -> Cost {
        let price = models.into_iter().find_map(|model| self.price(model));
        Cost {
            amount: price.map_or(Money::ZERO, |price| price.of(tokens)),
            basis: tokens.basis,
            unknown_model: price.is_none(),
            without_input: tokens.input.is_none(),
        }
    }
}

impl fmt::Debug for PriceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriceTable")
            .field("currency", &self.currency)
            .field("models", &(self.exact.len() + self.beginnings.len()))
            .finish_non_exhaustive()
    }
}

/// What one attempt cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// In the currency of the table.
    pub amount: Money,
    /// What the output's tokens are known from.
    pub basis: UsageBasis,
    /// Whether the table has no price for the model; the amount is then zero.
    #[serde(default)]
    pub unknown_model: bool,
    /// Whether nobody said how long the prompt was, so that it is not in the
    /// amount.
    #[serde(default)]
    pub without_input: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(models: &str) -> Result<PriceTable, serde_json::Error> {
        serde_json::from_str(&format!(r#"{{"currency":"USD","models":{models}}}"#))
    }

    fn tokens(input: Option<u64>, cached: u64, write: u64, output: u64) -> Tokens {
        Tokens {
            input,
            cached_input: cached,
            cache_write: write,
            output,
            basis: UsageBasis::Reported,
        }
    }

    #[test]
    fn the_exact_name_wins_and_then_the_longest_beginning() {
        let table = table(
            r#"{"*": {"input": 1, "output": 1}, "a-*": {"input": 2, "output": 2},
                "a-b*": {"input": 3, "output": 3}, "a-b": {"input": 4, "output": 4}}"#,
        )
        .unwrap();
        for (model, whole) in [("a-b", 4), ("a-bc", 3), ("a-c", 2), ("a", 1), ("", 1)] {
            let price = table.price(model).unwrap();
            assert_eq!(price.input.nanos(), whole * 1_000_000_000, "{model}");
        }
    }

    #[test]
    fn every_kind_of_token_has_its_price_and_the_sum_is_rounded_once() {
        let table = table(
            r#"{"m": {"input": "3.00", "output": "15.00", "cached_input": "0.30", "cache_write": "3.75"},
                "plain": {"input": "3.00", "output": "15.00"},
                "cheap": {"input": "0.0004", "output": "0"}}"#,
        )
        .unwrap();
        let cost = |model: &str, tokens: Tokens| table.cost([model], &tokens).amount.nanos();
        assert_eq!(
            cost("m", tokens(Some(100), 10, 4, 2)),
            300_000 + 3_000 + 15_000 + 30_000
        );
        // What the table does not say about caches is the price of the prompt.
        assert_eq!(cost("plain", tokens(Some(100), 10, 4, 2)), 342_000 + 30_000);
        // 0.4 of a billionth each.
        assert_eq!(cost("cheap", tokens(Some(1), 0, 0, 0)), 0);
        assert_eq!(cost("cheap", tokens(Some(2), 0, 0, 0)), 1);
        assert_eq!(cost("cheap", tokens(Some(1_000_000), 0, 0, 0)), 400_000);
        let most = tokens(Some(u64::MAX), u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(cost("m", most), u64::MAX);
    }

    #[test]
    fn what_is_not_known_is_said() {
        let table = table(r#"{"m": {"input": 1, "output": 1}}"#).unwrap();
        let cost = table.cost(["deployment", "m"], &tokens(None, 0, 0, 2));
        assert_eq!((cost.amount.nanos(), cost.without_input), (2_000, true));
        let cost = table.cost(["other"], &tokens(Some(1), 0, 0, 2));
        assert_eq!((cost.amount, cost.unknown_model), (Money::ZERO, true));
    }

    #[test]
    fn a_table_with_a_slip_is_refused() {
        for models in [
            r#"{"m": {"input": 1, "ouput": 1}}"#,
            r#"{"m": {"input": 1}}"#,
            r#"{"m": {"input": -1, "output": 1}}"#,
            r#"{"m*x": {"input": 1, "output": 1}}"#,
            r#"{"m**": {"input": 1, "output": 1}}"#,
            r#"{"": {"input": 1, "output": 1}}"#,
        ] {
            assert!(table(models).is_err(), "{models}");
        }
        for json in [
            r#"{"models": {}}"#,
            r#"{"currency": "", "models": {}}"#,
            r#"{"currency": "US dollars", "models": {}}"#,
            r#"{"currency": "USD", "models": {}, "prices": {}}"#,
        ] {
            assert!(serde_json::from_str::<PriceTable>(json).is_err(), "{json}");
        }
    }
}
