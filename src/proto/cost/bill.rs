//! The cost of one answer, attempt by attempt.

use super::money::Money;
use super::table::{Cost, PriceTable};
use super::tokens::Tokens;
use crate::proto::journal::{AttemptEnded, AttemptKind, AttemptStarted, FailureNote};
use crate::proto::model::{Dialect, Phase, UsageBasis};
use serde::{Deserialize, Serialize};

/// Where the output of an attempt went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fate {
    /// Into the answer: its readers have it, or can have it.
    Delivered,
    /// To nobody: the attempt was given up for another one, or had nothing to
    /// show. Its tokens are orphan tokens.
    Orphan,
}

impl Fate {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Orphan => "orphan",
        }
    }

    fn of(ended: &AttemptEnded) -> Self {
        let kept = match ended.decision.as_str() {
            "finish" | "interrupt" | "resume" | "poll" => true,
            "retry" | "rerun" | "failover" | "lost" | "continue" => false,
            // A stop keeps what came.
            _ => ended.phase == Phase::MidStream || ended.output_chars > 0,
        };
        if kept { Self::Delivered } else { Self::Orphan }
    }
}

/// The cost of one answer: a line for each attempt that is over, in the order in
/// which they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bill {
    lines: Vec<Line>,
}

/// One attempt on a bill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its number.
    pub attempt: u32,
    /// Why it was made.
    pub kind: AttemptKind,
    /// The route it took.
    pub route: String,
    /// The model that was asked for, if the request names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that answered, if it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
    /// Its tokens; `None` when nothing was reported and no output came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Where its output went.
    pub fate: Fate,
    /// The attempt whose count has these tokens in it: a resume goes on with the
    /// same response, and what its provider counts at the end is all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_in: Option<u32>,
    /// Whether it may have been billed though nobody said so: the request went
    /// out, and no answer came that would tell.
    #[serde(default)]
    pub may_be_billed: bool,
    /// Whether its output is in the answer for good.
    #[serde(skip)]
    is_committed: bool,
}

/// Lines of a bill taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// Tokens of prompts, cached ones included.
    pub input: u64,
    /// Tokens of answers.
    pub output: u64,
    /// What they cost, as far as the table has prices; `None` without a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Money>,
    /// The weakest basis of a line; `None` when no line has tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<UsageBasis>,
    /// Lines whose model has no price.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_models: u32,
    /// Lines whose prompt nobody counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub without_input: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Bill {
    /// Adds an attempt that is over. `dialect` is that of the route it took.
    pub fn add(&mut self, dialect: Dialect, started: &AttemptStarted, ended: &AttemptEnded) {
        let tokens = Tokens::of(dialect, ended);
        let goes_on = matches!(started.kind, AttemptKind::Resume | AttemptKind::Poll);
        let line = Line {
            attempt: started.attempt,
            kind: started.kind,
            route: started.route.clone(),
            model: started.model.clone(),
            answered: ended.model.clone(),
            tokens,
            fate: Fate::of(ended),
            counted_in: None,
            may_be_billed: tokens.is_none() && !goes_on && is_unknown(ended),
            is_committed: ended.phase == Phase::MidStream
                || matches!(ended.decision.as_str(), "finish" | "interrupt"),
        };
        if goes_on && tokens.is_some_and(|tokens| tokens.is_counted()) {
            self.count_in(started.attempt);
        }
        if matches!(ended.decision.as_str(), "retry" | "rerun" | "failover") {
            // What was resumed and held back is given up with it.
            for earlier in &mut self.lines {
                if !earlier.is_committed {
                    earlier.fate = Fate::Orphan;
                }
            }
        }
        if line.is_committed {
            for earlier in &mut self.lines {
                earlier.is_committed |= earlier.fate == Fate::Delivered;
            }
        }
        self.lines.push(line);
        self.share_prompts();
    }

    /// The run of which this attempt has the count: everything kept since the
    /// request that began it.
    fn count_in(&mut self, attempt: u32) {
        for earlier in self.lines.iter_mut().rev() {
            if earlier.fate == Fate::Orphan {
                continue;
            }
            earlier.counted_in = Some(attempt);
            earlier.may_be_billed = false;
            if earlier.kind.is_send() || earlier.kind == AttemptKind::Continue {
                return;
            }
        }
    }

    /// The same request to the same model has the same prompt, so one attempt's
    /// count is good for another that was cut before it could say.
    fn share_prompts(&mut self) {
        let counted = |line: &Line| line.tokens.filter(|tokens| tokens.input.is_some());
        for position in 0..self.lines.len() {
            let Some(line) = self.lines.get(position).filter(|line| {
                line.kind.is_send() && line.tokens.is_some_and(|tokens| tokens.input.is_none())
            }) else {
                continue;
            };
            let other = self.lines.iter().find(|other| {
                other.kind.is_send()
                    && (&other.route, &other.model) == (&line.route, &line.model)
                    && counted(other).is_some()
            });
            if let Some(prompt) = other.and_then(counted)
                && let Some(line) = self.lines.get_mut(position)
                && let Some(tokens) = &mut line.tokens
            {
                // What a cache had of it then says nothing about this time.
                tokens.input = prompt.prompt();
            }
        }
    }

    /// Attempts that may have been billed though nobody said so.
    pub fn may_be_billed(&self) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| line.may_be_billed).count()
    }

    /// Its lines.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The lines of this fate together, or all of them.
    pub fn total(&self, fate: Option<Fate>, prices: Option<&PriceTable>) -> Total {
        let mut total = Total {
            amount: prices.map(|_| Money::ZERO),
            ..Total::default()
        };
        let lines = self
            .lines
            .iter()
            .filter(|line| fate.is_none_or(|fate| line.fate == fate));
        for line in lines {
            let Some(tokens) = line.own_tokens() else {
                continue;
            };
            let prompt = tokens.prompt().unwrap_or(0);
            total.input = total.input.saturating_add(prompt);
            total.output = total.output.saturating_add(tokens.output);
            total.basis = total.basis.max(Some(tokens.basis));
            let missing = u32::from(tokens.input.is_none());
            total.without_input = total.without_input.saturating_add(missing);
            if let Some(cost) = prices.and_then(|prices| line.cost(prices)) {
                total.amount = total.amount.map(|amount| amount.plus(cost.amount));
                let unknown = u32::from(cost.unknown_model);
                total.unknown_models = total.unknown_models.saturating_add(unknown);
            }
        }
        total
    }
}

impl Line {
    /// The tokens that are to be paid here: none when another attempt's count has
    /// them in it.
    pub fn own_tokens(&self) -> Option<Tokens> {
        self.tokens.filter(|_| self.counted_in.is_none())
    }

    /// What it cost; `None` without [own tokens](Self::own_tokens).
    pub fn cost(&self, prices: &PriceTable) -> Option<Cost> {
        let models = self
            .model
            .as_deref()
            .into_iter()
            .chain(self.answered.as_deref());
        Some(prices.cost(models, &self.own_tokens()?))
    }
}

/// Whether a request went out and nothing came back that tells what became of it.
fn is_unknown(ended: &AttemptEnded) -> bool {
    let says = |failure: &FailureNote| {
        failure.status.is_some_and(|status| status >= 400)
            || failure.provider_type.is_some()
            || failure.provider_code.is_some()
    };
    ended.phase != Phase::PreSend && !ended.failure.as_ref().is_some_and(says)
}

#[cfg(test)]
mod tests;
