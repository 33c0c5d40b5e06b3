//! The paths that Rust source names, made absolute.

use crate::rules::Token;

/// One path as the source names it, made absolute where it lies in this crate.
pub(crate) struct Reference {
    pub(crate) line: usize,
    pub(crate) parts: Vec<String>,
    /// Whether it lies in this crate.
    pub(crate) inside: bool,
    /// Whether a `use` declares it.
    pub(crate) used: bool,
}

/// Every path of more than one part, and every `use`, in a file of `module`.
///
/// A path that begins with none of `crate`, `self` and `super` is one of another
/// crate, or of a child of this module: either way its first part stays first.
pub(crate) fn paths(tokens: &[Token], module: &[String]) -> Vec<Reference> {
    let mut scopes = Scopes::new(module);
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let text = |i: usize| tokens.get(i).map_or("", |t| t.text.as_str());
        scopes.pass(token, text(at + 1), text(at + 2));
        let begins = is_word(token) || token.text == "::";
        let before = |back: usize| at.checked_sub(back).map_or("", text);
        // The name of a field or method begins no path, and `pub(in crate::x)`
        // names one without using it.
        let goes_on = before(1) == "." || (before(1) == "in" && before(2) == "(");
        let used = token.text == "use" || (token.text == "crate" && before(1) == "extern");
        if used {
            at += 1;
        } else if !begins || goes_on {
            at += 1;
            continue;
        }
        let mut found = Vec::new();
        let after = path_tree(tokens, at, &[], &mut found);
        for (line, parts) in found {
            if used || parts.len() > 1 {
                out.push(scopes.resolve(line, &parts, used));
            }
        }
        at = after.max(at + 1);
    }
    out
}

/// Reads one path, with groups where a `use` has them, from `at`; returns where
/// it ends.
fn path_tree(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    found: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    let text = |i: usize| tokens.get(i).map_or("", |t| t.text.as_str());
    let mut parts = prefix.to_vec();
    let line = tokens.get(at).map_or(0, |t| t.line);
    if text(at) == "::" {
        at += 1;
    }
    loop {
        match tokens.get(at) {
            Some(token) if is_word(token) => parts.push(token.text.clone()),
            Some(token) if token.text == "*" && !parts.is_empty() => {}
            Some(token) if token.text == "{" && !parts.is_empty() => {
                at += 1;
                while !matches!(text(at), "}" | "") {
                    at = path_tree(tokens, at, &parts, found);
                    while !matches!(text(at), "," | "}" | "") {
                        at += 1;
                    }
                    if text(at) == "," {
                        at += 1;
                    }
                }
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        if text(at) != "::" {
            break;
        }
        at += 1;
    }
    found.push((line, parts));
    at
}

/// The inline modules around a place in a file.
struct Scopes<'a> {
    module: &'a [String],
    depth: usize,
    /// Name and depth of each open `mod name {`.
    inline: Vec<(String, usize)>,
    /// A `mod name` whose brace comes next.
    opening: Option<String>,
}

impl<'a> Scopes<'a> {
    fn new(module: &'a [String]) -> Self {
        Self {
            module,
            depth: 0,
            inline: Vec::new(),
            opening: None,
        }
    }

    fn pass(&mut self, token: &Token, next: &str, after: &str) {
        match token.text.as_str() {
            "mod" if after == "{" => self.opening = Some(next.to_owned()),
            "{" => {
                if let Some(name) = self.opening.take() {
                    self.inline.push((name, self.depth));
                }
                self.depth += 1;
            }
            "}" => {
                self.depth = self.depth.saturating_sub(1);
                if self.inline.last().is_some_and(|(_, at)| *at == self.depth) {
                    self.inline.pop();
                }
            }
            _ => {}
        }
    }

    fn resolve(&self, line: usize, parts: &[String], used: bool) -> Reference {
        let inline = self.inline.iter().map(|(name, _)| name.clone());
        let mut base: Vec<_> = self.module.iter().cloned().chain(inline).collect();
        let steps = parts
            .iter()
            .take_while(|p| matches!(p.as_str(), "self" | "super"));
        let relative = steps.count();
        for _ in parts.iter().take(relative).filter(|p| *p == "super") {
            base.pop();
        }
        let is_crate = parts.first().is_some_and(|p| p == "crate");
        let rest = |skip: usize| parts.iter().skip(skip).filter(|p| *p != "self").cloned();
        let (inside, parts): (_, Vec<_>) = match (is_crate, relative) {
            (true, _) => (true, rest(1).collect()),
            (false, 0) => (false, rest(0).collect()),
            (false, _) => (true, base.into_iter().chain(rest(relative)).collect()),
        };
        Reference {
            line,
            parts,
            inside,
            used,
        }
    }
}

/// Whether it is an identifier or a keyword.
fn is_word(token: &Token) -> bool {
    token
        .text
        .starts_with(|c: char| c.is_alphabetic() || c == '_')
}
