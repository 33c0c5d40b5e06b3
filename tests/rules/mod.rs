//! What the rule tests share: the files of this repository, and Rust source as
//! tokens, without its comments and literals.

use std::fs;
use std::path::{Path, PathBuf};

/// A word, or a punctuation mark (`::` is one mark), and the line it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The folder that holds `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `folder` (itself relative to the root), sorted: its path
/// relative to the root with `/` between the parts, and its text. A folder that
/// does not exist has none.
pub(crate) fn rust_files(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    let mut files: Vec<_> = found
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            (relative(&path), text)
        })
        .collect();
    files.sort();
    files
}

/// `path` relative to the root, with `/` between the parts.
pub(crate) fn relative(path: &Path) -> String {
    let parts = path.strip_prefix(root()).unwrap().components();
    let parts: Vec<_> = parts.map(|c| c.as_os_str().to_str().unwrap()).collect();
    parts.join("/")
}

/// Adds every file below `folder` that is the project's own: neither git's data
/// nor what `.gitignore` names at the root.
pub(crate) fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let ignored = fs::read_to_string(root().join(".gitignore")).unwrap();
    let ours = |path: &Path| {
        let name = relative(path);
        name != ".git" && !ignored.lines().any(|l| l.trim_matches('/') == name)
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() && ours(&path) {
            walk(&path, found);
        } else if path.is_file() && ours(&path) {
            found.push(path);
        }
    }
}

/// The tokens of Rust source. Comments, and string and character literals, leave
/// nothing behind; a raw identifier comes out as the plain one.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut line = 1;
    let mut rest = source;
    while !rest.is_empty() {
        let (kept, length) = first_token(rest);
        if let Some(text) = kept {
            let text = text.to_owned();
            out.push(Token { line, text });
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    out
}

/// What `rest` begins with: the text to keep, if any, and the length in bytes.
fn first_token(rest: &str) -> (Option<&str>, usize) {
    if rest.starts_with("//") {
        return (None, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (None, block_comment_length(rest));
    }
    if let Some(length) = literal_length(rest) {
        return (None, length);
    }
    let word = rest.strip_prefix("r#").unwrap_or(rest);
    let length = word
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(word.len());
    if length > 0 {
        return (Some(&word[..length]), rest.len() - word.len() + length);
    }
    let first = rest.chars().next().unwrap_or_default();
    let length = if rest.starts_with("::") {
        2
    } else {
        first.len_utf8()
    };
    let kept = (!first.is_whitespace()).then_some(&rest[..length]);
    (kept, length)
}

/// Block comments nest.
fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The length of the string or character literal that `rest` begins with.
fn literal_length(rest: &str) -> Option<usize> {
    let unprefixed = ["br", "cr", "b", "c", "r"]
        .iter()
        .find_map(|prefix| rest.strip_prefix(prefix).map(|after| (*prefix, after)))
        .filter(|(_, after)| after.starts_with(['"', '#', '\'']));
    let (prefix, body) = unprefixed.unwrap_or(("", rest));
    let length = if prefix.contains('r') {
        raw_string_length(body)?
    } else if body.starts_with('"') {
        quoted_length(body, '"')
    } else if body.starts_with('\'') && is_character(body) {
        quoted_length(body, '\'')
    } else {
        return None;
    };
    Some(prefix.len() + length)
}

/// `#"..."#` with any number of marks; `None` for a raw identifier (`r#type`).
fn raw_string_length(body: &str) -> Option<usize> {
    let marks = body.len() - body.trim_start_matches('#').len();
    let inside = body[marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(marks + 1 + length)
}

/// A quote that begins a character, not a lifetime: `'x'` or `'\...'`.
fn is_character(body: &str) -> bool {
    let mut inside = body.chars().skip(1);
    match inside.next() {
        Some('\\') => true,
        _ => inside.next() == Some('\''),
    }
}

/// From the opening mark to the closing one, escapes passed over.
fn quoted_length(body: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, c) in body.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == mark => return at + c.len_utf8(),
            _ => {}
        }
    }
    body.len()
}
