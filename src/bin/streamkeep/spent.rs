//! What an answer cost, for people and as JSON.

use crate::format;
use serde::Serialize;
use std::fmt::{Display, Write};
use streamkeep::proto::cost::{Bill, Cost, Fate, Line, PriceTable, Total};
use streamkeep::proto::model::UsageBasis;

/// What an answer cost.
#[derive(Debug, Serialize)]
pub(crate) struct Spent {
    /// All attempts together.
    total: Total,
    /// Those that were given up: what reached nobody.
    orphan: Total,
    /// Attempts that may have been billed though nobody said so.
    may_be_billed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<String>,
    /// What each attempt cost, with a price table only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    costs: Vec<AttemptCost>,
    #[serde(skip)]
    lines: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct AttemptCost {
    attempt: u32,
    #[serde(flatten)]
    cost: Cost,
}

impl Spent {
    pub(crate) fn new(bill: &Bill, prices: Option<&PriceTable>) -> Self {
        let costs = prices.map(|prices| {
            let costs = bill.lines().iter().filter_map(|line| {
                Some(AttemptCost {
                    attempt: line.attempt,
                    cost: line.cost(prices)?,
                })
            });
            costs.collect()
        });
        Self {
            total: bill.total(None, prices),
            orphan: bill.total(Some(Fate::Orphan), prices),
            may_be_billed: bill.may_be_billed(),
            currency: prices.map(|prices| prices.currency().to_owned()),
            as_of: prices.and_then(|prices| prices.as_of().map(str::to_owned)),
            costs: costs.unwrap_or_default(),
            lines: bill.lines().to_vec(),
        }
    }

    pub(crate) fn has_prices(&self) -> bool {
        self.currency.is_some()
    }

    /// The tokens of an attempt: `10 in (4 cached), ~25 out, to nobody`.
    pub(crate) fn tokens_of(&self, attempt: u32) -> Option<String> {
        let line = self.lines.iter().find(|line| line.attempt == attempt)?;
        if let Some(counted_in) = line.counted_in {
            return Some(format!("counted in {counted_in}"));
        }
        let Some(tokens) = line.tokens else {
            return line.may_be_billed.then(|| "not known".to_owned());
        };
        let mut parts = Vec::new();
        if let Some(prompt) = tokens.prompt() {
            let cached = match tokens.cached_input {
                0 => String::new(),
                cached => format!(" ({cached} cached)"),
            };
            parts.push(format!("{prompt} in{cached}"));
        }
        parts.push(format!("{} out", about(tokens.output, tokens.basis)));
        if line.fate == Fate::Orphan {
            parts.push("to nobody".to_owned());
        }
        Some(parts.join(", "))
    }

    /// What an attempt cost.
    pub(crate) fn cost_of(&self, attempt: u32) -> Option<String> {
        let cost = self.costs.iter().find(|cost| cost.attempt == attempt)?.cost;
        Some(match cost {
            Cost {
                unknown_model: true,
                ..
            } => "no price".to_owned(),
            Cost {
                without_input: true,
                amount,
                ..
            } => format!("{amount} and the prompt"),
            Cost { amount, basis, .. } => about(amount, basis),
        })
    }

    /// The sums, as fields of a page.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let Self { total, orphan, .. } = self;
        let mut fields = Vec::new();
        if let Some(basis) = total.basis {
            let mut tokens = format!("{} in, {} out", total.input, about(total.output, basis));
            if let Some(basis) = orphan.basis {
                let lost = about(orphan.output, basis);
                let _ = write!(
                    tokens,
                    "; of these {} in, {lost} out reached nobody",
                    orphan.input
                );
            }
            fields.push(("tokens", tokens));
        }
        if let (Some(currency), Some(amount)) = (&self.currency, total.amount) {
            let basis = total.basis.unwrap_or(UsageBasis::Reported);
            let mut cost = format!("{} {currency}", about(amount, basis));
            if let Some((lost, basis)) = orphan.amount.zip(orphan.basis) {
                let lost = about(lost, basis);
                let _ = write!(cost, "; of these {lost} for what reached nobody");
            }
            if let Some(day) = &self.as_of {
                let _ = write!(cost, " (prices of {day})");
            }
            fields.push(("cost", cost));
        }
        let mut not_in_it = Vec::new();
        let mut add = |count: usize, what: &str| {
            if count > 0 {
                not_in_it.push(format!("{} {what}", attempts(count)));
            }
        };
        let whole = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        add(whole(total.unknown_models), "of a model without a price");
        add(whole(total.without_input), "whose prompt nobody counted");
        add(
            self.may_be_billed,
            "that may have been billed without a word",
        );
        if !not_in_it.is_empty() {
            fields.push(("not in it", not_in_it.join(", ")));
        }
        fields
    }
}

fn attempts(count: usize) -> String {
    format::count(u64::try_from(count).unwrap_or(u64::MAX), "attempt")
}

/// A number with the sign of how well it is known.
fn about(number: impl Display, basis: UsageBasis) -> String {
    match basis {
        UsageBasis::Estimated => format!("~{number}"),
        UsageBasis::LastSeen => format!("at least {number}"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use streamkeep::Dialect;
    use streamkeep::proto::cost::Money;
    use streamkeep::proto::journal::{AttemptEnded, AttemptKind, AttemptStarted, FailureNote};
    use streamkeep::proto::model::{Phase, Usage};

    fn prices() -> PriceTable {
        let json = r#"{"currency":"USD","as_of":"2026-11-30","models":{"m":{"input":"1.00","output":"10.00"}}}"#;
        serde_json::from_str(json).unwrap()
    }

    fn cut(decision: &str) -> AttemptEnded {
        AttemptEnded {
            failure: Some(FailureNote {
                kind: "reset".to_owned(),
                message: "reset".to_owned(),
                status: None,
                provider_type: None,
                provider_code: None,
                http_equivalent: None,
                retry_after_ms: None,
            }),
            ..AttemptEnded::new(0, Phase::PreStream, decision)
        }
    }

    /// A bad day: silence, a cut, and then the answer.
    fn bad_day(model: &str) -> Bill {
        let mut bill = Bill::default();
        let mut add = |attempt, kind, ended: &AttemptEnded| {
            let started = AttemptStarted {
                model: Some(model.to_owned()),
                ..AttemptStarted::new(attempt, kind)
            };
            bill.add(Dialect::OpenAiChat, &started, ended);
        };
        add(1, AttemptKind::First, &cut("retry"));
        let half = AttemptEnded {
            usage_basis: Some(UsageBasis::Estimated),
            output_chars: 100,
            ..cut("rerun")
        };
        add(2, AttemptKind::Retry, &half);
        let whole = AttemptEnded {
            usage: Usage {
                input: Some(1000),
                output: Some(50),
                cached_input: Some(400),
                ..Usage::default()
            },
            usage_basis: Some(UsageBasis::Reported),
            ..AttemptEnded::new(0, Phase::MidStream, "finish")
        };
        add(3, AttemptKind::Rerun, &whole);
        bill
    }

    #[test]
    fn a_bad_day_is_told_with_what_reached_nobody_and_what_is_not_known() {
        let spent = Spent::new(&bad_day("m"), Some(&prices()));
        let tokens: Vec<_> = (1..=3).filter_map(|n| spent.tokens_of(n)).collect();
        assert_eq!(
            tokens,
            [
                "not known",
                "1000 in, ~25 out, to nobody",
                "1000 in (400 cached), 50 out"
            ]
        );
        let costs: Vec<_> = (1..=3).map(|n| spent.cost_of(n)).collect();
        let cost = |text: &str| Some(text.to_owned());
        assert_eq!(costs, [None, cost("~0.00125"), cost("0.0015")]);
        let lines = spent.lines();
        assert_eq!(
            lines,
            [
                ("tokens", "2000 in, ~75 out; of these 1000 in, ~25 out reached nobody".to_owned()),
                ("cost", "~0.00275 USD; of these ~0.00125 for what reached nobody (prices of 2026-11-30)".to_owned()),
                ("not in it", "1 attempt that may have been billed without a word".to_owned()),
            ]
        );
    }

    #[test]
    fn without_prices_or_a_price_nothing_is_made_up() {
        let spent = Spent::new(&bad_day("m"), None);
        assert!(!spent.has_prices());
        assert_eq!(spent.cost_of(3), None);
        assert!(spent.lines().iter().all(|(name, _)| *name != "cost"));
        let spent = Spent::new(&bad_day("other"), Some(&prices()));
        assert_eq!(spent.cost_of(3).as_deref(), Some("no price"));
        let not_in_it = spent.lines().pop().unwrap().1;
        assert!(
            not_in_it.starts_with("2 attempts of a model without a price"),
            "{not_in_it}"
        );
        assert_eq!(spent.total.amount, Some(Money::ZERO));
    }
}
