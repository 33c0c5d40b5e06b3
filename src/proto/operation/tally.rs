//! What one exchange brought, counted as it comes.

use super::gaps::Gaps;
use crate::proto::model::{Delta, Usage, UsageBasis};

/// What one exchange brought.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    usage: Usage,
    output: Counted,
    pub(super) output_chars: u64,
    pub(super) gaps: Gaps,
    /// The model that answered, as the provider calls it.
    pub(super) model: Option<String>,
    /// Whether it was closed before its end though nothing failed.
    pub(super) was_left: bool,
}

/// How the provider's last count of output stands to the output that came.
///
/// A count that comes before any output is a placeholder: the first usage of an
/// Anthropic message says 1 to 3 (docs/providers.md#anthropic-messages/events).
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Output has come.
    came: bool,
    /// A count came with output, behind it, or with an error.
    real: bool,
    /// Output came behind the last count.
    stale: bool,
}

impl Tally {
    /// Takes what one event carried. An error ends the answer, so what is counted
    /// beside it is no placeholder.
    pub(super) fn take(&mut self, deltas: &[Delta], is_error: bool) {
        let mut counts = false;
        for delta in deltas {
            match delta {
                Delta::Usage(usage) => {
                    counts |= usage.output.is_some();
                    self.usage.update(usage);
                }
                Delta::Model(model) => self.model = Some(model.clone()),
                _ if delta.is_output() => {
                    self.output.came = true;
                    self.output.stale = true;
                    let chars = u64::try_from(delta.output_chars()).unwrap_or(u64::MAX);
                    self.output_chars = self.output_chars.saturating_add(chars);
                }
                _ => {}
            }
        }
        if counts {
            self.output.stale = false;
            self.output.real |= self.output.came || is_error;
        }
    }

    /// What it cost, and what that is known from. `before` is a part that others
    /// paid for.
    pub(super) fn cost(&self, failed: bool, before: Option<&Usage>) -> (Usage, Option<UsageBasis>) {
        let mut usage = match before {
            Some(before) => self.usage.since(before),
            None => self.usage,
        };
        let failed = failed || self.was_left;
        let Counted { real, stale, .. } = self.output;
        let is_counted = self.usage.output.is_some() && (real || (!failed && !stale));
        if !is_counted {
            usage.output = None;
            usage.reasoning = None;
        }
        let basis = if !is_counted && self.output_chars > 0 {
            Some(UsageBasis::Estimated)
        } else if usage.is_empty() {
            None
        } else if failed {
            Some(UsageBasis::LastSeen)
        } else {
            Some(UsageBasis::Reported)
        };
        (usage, basis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Delta {
        Delta::Text {
            choice: 0,
            part: 0,
            text: text.to_owned(),
        }
    }

    fn counted(input: Option<u64>, output: Option<u64>) -> Delta {
        Delta::Usage(Usage {
            input,
            output,
            ..Usage::default()
        })
    }

    /// The output tokens and their basis, for an answer that was whole and for
    /// one that was cut there.
    #[track_caller]
    fn check(
        events: &[&[Delta]],
        whole: (Option<u64>, Option<UsageBasis>),
        cut: (Option<u64>, Option<UsageBasis>),
    ) {
        let mut tally = Tally::default();
        for deltas in events {
            tally.take(deltas, false);
        }
        let told = |failed| {
            let (usage, basis) = tally.cost(failed, None);
            (usage.output, basis)
        };
        assert_eq!((told(false), told(true)), (whole, cut));
    }

    #[test]
    fn a_count_behind_the_output_is_the_answers() {
        let whole = (Some(7), Some(UsageBasis::Reported));
        let cut = (Some(7), Some(UsageBasis::LastSeen));
        check(
            &[&[text("Hello")], &[counted(Some(9), Some(7))]],
            whole,
            cut,
        );
        // As servers do that count with every piece.
        check(&[&[counted(None, Some(7)), text("Hello")]], whole, cut);
    }

    #[test]
    fn a_count_before_any_output_is_a_placeholder() {
        let estimated = (None, Some(UsageBasis::Estimated));
        check(
            &[&[counted(Some(31), Some(1))], &[text("Hello there")]],
            estimated,
            estimated,
        );
        check(
            &[&[counted(Some(31), Some(1))]],
            (Some(1), Some(UsageBasis::Reported)),
            (None, Some(UsageBasis::LastSeen)),
        );
    }

    #[test]
    fn a_last_count_of_a_cut_answer_is_at_least_what_it_cost() {
        let mut tally = Tally::default();
        tally.take(&[text("Hel"), counted(None, Some(2))], false);
        tally.take(&[text("lo")], false);
        let (usage, basis) = tally.cost(true, None);
        assert_eq!((usage.output, basis), (Some(2), Some(UsageBasis::LastSeen)));
        assert_eq!(tally.output_chars, 5);
    }

    #[test]
    fn hidden_reasoning_is_counted_though_no_output_came() {
        check(
            &[&[counted(Some(9), Some(500))]],
            (Some(500), Some(UsageBasis::Reported)),
            (None, Some(UsageBasis::LastSeen)),
        );
        let mut broken = Tally::default();
        broken.take(&[counted(Some(9), Some(500))], true);
        assert_eq!(broken.cost(true, None).0.output, Some(500));
    }

    #[test]
    fn nothing_said_and_nothing_come_is_not_known() {
        check(&[&[]], (None, None), (None, None));
    }

    #[test]
    fn a_tools_name_and_arguments_are_output() {
        let mut tally = Tally::default();
        tally.take(
            &[
                Delta::ToolCall {
                    choice: 0,
                    index: 0,
                    id: Some("call_1".to_owned()),
                    name: Some("go".to_owned()),
                },
                Delta::ToolArguments {
                    choice: 0,
                    index: 0,
                    fragment: "{\"ü\":1}".to_owned(),
                },
            ],
            false,
        );
        assert_eq!(tally.output_chars, 2 + 7);
    }

    #[test]
    fn what_others_paid_for_is_left_out() {
        let mut tally = Tally::default();
        tally.take(&[text("Hello"), counted(Some(62), Some(13))], false);
        let before = Usage {
            input: Some(31),
            output: Some(1),
            ..Usage::default()
        };
        let (usage, _) = tally.cost(false, Some(&before));
        assert_eq!((usage.input, usage.output), (Some(31), Some(12)));
    }
}
