//! Takes a credential out of what a provider says of it.
//!
//! Providers quote the key they refuse. What looks like one is masked below the
//! waterline already; here the credentials themselves are known, so a key that
//! looks like nothing is found too, in every word of a provider's that a record,
//! an event or an outcome keeps.

use super::Credential;
use crate::proto::journal::{AttemptEnded, Body, Control, FailureNote};
use crate::proto::operation::{Append, Note, Outcome};

/// The secrets to be masked.
pub(super) struct Mask<'a>(Vec<&'a str>);

/// Shorter than any key: it would be found in other words.
const SHORTEST: usize = 8;

const MASKED: &str = "[credential]";

impl<'a> Mask<'a> {
    pub(super) fn new(credentials: impl Iterator<Item = &'a Credential>) -> Self {
        let mut secrets: Vec<&str> = credentials
            .map(Credential::secret)
            // A header's value may begin with a scheme, which is no secret.
            .flat_map(|secret| [secret, secret.rsplit(' ').next().unwrap_or_default()])
            .filter(|secret| secret.len() >= SHORTEST)
            .collect();
        // The longer first, or a part of it would be left.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    pub(super) fn append(&self, append: &mut Append) {
        if self.0.is_empty() {
            return;
        }
        for record in &mut append.records {
            let Body::Control(control) = &mut record.body else {
                continue;
            };
            match control.as_mut() {
                Control::AttemptEnded(ended) => self.attempt(ended),
                Control::Interrupted(interrupted) => self.failure(&mut interrupted.failure),
                Control::Ended(ended) => self.each(&mut ended.failure, Self::failure),
                _ => {}
            }
        }
    }

    pub(super) fn note(&self, note: &mut Note) {
        if let Note::Ended(attempt) = note {
            self.attempt(&mut attempt.ended);
        }
    }

    pub(super) fn outcome(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Ended(ended) => self.each(&mut ended.failure, Self::failure),
            Outcome::Interrupted(interrupted) => self.failure(&mut interrupted.failure),
            Outcome::StoreFailed(failure) => self.failure(failure),
        }
    }

    fn attempt(&self, ended: &mut AttemptEnded) {
        self.each(&mut ended.failure, Self::failure);
        self.each(&mut ended.request_id, Self::text);
        self.each(&mut ended.model, Self::text);
    }

    fn failure(&self, failure: &mut FailureNote) {
        self.text(&mut failure.message);
        self.each(&mut failure.provider_type, Self::text);
        self.each(&mut failure.provider_code, Self::text);
    }

    fn each<T>(&self, place: &mut Option<T>, mask: impl Fn(&Self, &mut T)) {
        if let Some(value) = place {
            mask(self, value);
        }
    }

    /// Masks every secret, in whatever letter case it is quoted.
    fn text(&self, text: &mut String) {
        for secret in &self.0 {
            while let Some(at) = find(text, secret) {
                text.replace_range(at..at.saturating_add(secret.len()), MASKED);
            }
        }
    }
}

fn find(text: &str, secret: &str) -> Option<usize> {
    text.as_bytes()
        .windows(secret.len())
        .position(|part| part.eq_ignore_ascii_case(secret.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_wherever_and_however_it_is_quoted() {
        let credentials = [
            Credential::header("api-key", "w+Abc/Def=12"),
            Credential::header("authorization", "Token abcdefgh12345"),
            Credential::api_key("short"),
        ];
        let mask = Mask::new(credentials.iter());
        for (said, told) in [
            ("no w+Abc/Def=12!", "no [credential]!"),
            ("w+abc/def=12w+ABC/DEF=12", "[credential][credential]"),
            ("header Token abcdefgh12345", "header [credential]"),
            ("é abcdefgh12345é", "é [credential]é"),
            ("in short: nothing", "in short: nothing"),
            ("", ""),
        ] {
            let mut text = said.to_owned();
            mask.text(&mut text);
            assert_eq!(text, told);
        }
    }
}
