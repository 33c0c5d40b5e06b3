//! The house rules that a machine can check. CONTRIBUTING.md gives the reason for
//! each; what is said here is only what a broken one should print.

#![cfg(test)] // else the lints take the helpers for production code

mod rules;

use rules::{Token, root, rust_files, tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use streamkeep::ErrorKind;

/// Where Rust source may stand.
const SOURCE: &[&str] = &["src", "tests", "benches", "examples", "fuzz"];

/// Sleeps that a test may have: file, how many, and why no gate can do it.
const SLEEPS: &[(&str, usize, &str)] = &[];

/// Sleeps that a thread of the library may have: file, how many, and why nothing
/// can be waited for.
const BLOCKS: &[(&str, usize, &str)] = &[(
    "src/store/sled/bucket.rs",
    1,
    "on a thread of the store's own, two seconds at most: sled gives no sign when it lets go of its lock",
)];

/// Files where a paused clock and a socket stand side by side, and why they
/// never meet.
const PAUSED_BESIDE_SOCKETS: &[(&str, &str)] = &[];

#[test]
fn no_file_is_longer_than_600_lines() {
    let limit = 600;
    let long = source().into_iter().filter_map(|(path, text)| {
        let lines = text.lines().count();
        (lines > limit).then(|| format!("{path}: {lines} lines; split it by idea"))
    });
    none(long);
}

#[test]
fn every_file_holds_something() {
    let empty = source()
        .into_iter()
        .filter(|(_, text)| text.trim().is_empty());
    none(empty.map(|(path, _)| format!("{path}: an empty file")));
}

#[test]
fn nothing_is_left_undone_or_switched_off() {
    none(each_file(|_, tokens| {
        let todo = calls(tokens, &["todo", "unimplemented"], "!");
        let ignored = find(tokens, &["#", "[", "ignore"]);
        let todo = todo.map(|line| (line, "not done yet"));
        todo.chain(ignored.map(|line| (line, "a test that is switched off")))
            .collect()
    }));
}

#[test]
fn a_lint_is_waived_only_with_a_reason() {
    none(each_file(|_, tokens| waived_without_reason(tokens)));
}

#[test]
fn nothing_is_re_exported_by_the_handful() {
    none(each_file(|_, tokens| {
        let lines = public_globs(tokens).into_iter();
        lines.map(|line| (line, "`pub use` with `*`")).collect()
    }));
}

#[test]
fn the_library_never_blocks_its_thread_on_a_sleep() {
    for (_, number, reason) in BLOCKS {
        assert!(*number > 0 && !reason.is_empty());
    }
    none(each_file(|path, tokens| {
        let ours = path.starts_with("src/") && !is_test_file(path);
        let lines: Vec<_> = find(tokens, &["thread", "::", "sleep"])
            .filter(|_| ours)
            .collect();
        let allowed = BLOCKS.iter().find(|(file, ..)| *file == path);
        if lines.len() == allowed.map_or(0, |(_, number, _)| *number) {
            return Vec::new();
        }
        let what = "`thread::sleep`; wait for something, or give the reason in BLOCKS";
        let lines = if lines.is_empty() { vec![1] } else { lines };
        lines.into_iter().map(|line| (line, what)).collect()
    }));
}

#[test]
fn no_test_waits_by_sleeping() {
    for (_, number, reason) in SLEEPS {
        assert!(*number > 0 && !reason.is_empty());
    }
    none(each_file(|path, tokens| {
        let found: Vec<_> = sleeps_in_tests(path, tokens);
        let allowed = SLEEPS.iter().find(|(file, ..)| *file == path);
        if found.len() == allowed.map_or(0, |(_, number, _)| *number) {
            return Vec::new();
        }
        let what = "a test that sleeps; wait at a gate, or give the reason in SLEEPS";
        let lines = if found.is_empty() { vec![1] } else { found };
        lines.into_iter().map(|line| (line, what)).collect()
    }));
}

#[test]
fn a_paused_clock_never_meets_a_socket() {
    none(each_file(|path, tokens| {
        let excused = PAUSED_BESIDE_SOCKETS.iter().any(|(file, _)| *file == path);
        let lines = sockets_beside_a_paused_clock(tokens).into_iter();
        lines
            .filter(|_| !excused)
            .map(|line| (line, "a socket in a file that pauses the clock"))
            .collect()
    }));
}

#[test]
fn every_error_kind_has_its_row_in_the_docs() {
    let page = read("docs/errors.md");
    let rows = error_rows(&page);
    let expected: BTreeMap<_, _> = ErrorKind::ALL
        .iter()
        .map(|kind| {
            let class = format!("{:?}", kind.class()).to_lowercase();
            (kind.code().to_owned(), class)
        })
        .collect();
    let found: BTreeMap<_, _> = rows
        .iter()
        .map(|row| (row.code.clone(), row.class.clone()))
        .collect();
    assert_eq!(found, expected, "docs/errors.md against src/error.rs");
    assert_eq!(rows.len(), found.len(), "a code has two rows");
    for row in rows {
        assert!(row.when.len() > 10, "{}: say when it happens", row.code);
        assert!(row.what_to_do.len() > 10, "{}: say what to do", row.code);
    }
}

#[test]
fn every_feature_says_what_it_is_for() {
    let manifest = read("Cargo.toml");
    let mut before = "";
    for line in section(&manifest, "features").lines() {
        if let Some((name, _)) = line.split_once('=')
            && !line.starts_with('#')
            && name.trim() != "default"
        {
            assert!(before.starts_with('#'), "no comment above feature {name}");
        }
        before = line;
    }
}

#[test]
fn the_readme_agrees_with_the_manifest() {
    let manifest = read("Cargo.toml");
    // Before there is a page, nothing on it can be wrong.
    if let Ok(readme) = fs::read_to_string(root().join("README.md")) {
        none(disagreements(&readme, &manifest).into_iter());
    }
}

#[test]
fn the_lock_file_knows_one_source_only() {
    let lock = read("Cargo.lock");
    let expected = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let sources = lock.lines().filter(|line| line.starts_with("source = "));
    none(sources.filter(|line| *line != expected));
}

#[test]
fn no_file_names_the_machine_it_was_written_on() {
    let home = std::env::var("HOME").unwrap_or_default();
    let places = machine_places(root(), &home);
    none(text_files().flat_map(|(path, text)| {
        let lines = text.lines().enumerate();
        let named = lines.filter_map(|(at, line)| {
            let place = places.iter().find(|place| names(line, place))?;
            Some(format!("{path}:{}: names `{place}`", at + 1))
        });
        named.collect::<Vec<_>>()
    }));
}

#[test]
fn links_between_pages_lead_somewhere() {
    none(text_files().flat_map(|(path, text)| {
        let folder = root().join(&path).parent().unwrap().to_owned();
        let is_page = Path::new(&path).extension().is_some_and(|e| e == "md");
        let links = if is_page {
            local_links(&text)
        } else {
            Vec::new()
        };
        let dead = links.into_iter().filter(move |link| {
            let file = link.split('#').next().unwrap_or_default();
            !file.is_empty() && !folder.join(file).exists()
        });
        dead.map(move |link| format!("{path}: no such file: {link}"))
            .collect::<Vec<_>>()
    }));
}

#[test]
fn every_script_is_explained_and_stops_at_its_first_error() {
    let contributing = read("CONTRIBUTING.md");
    for entry in fs::read_dir(root().join("scripts")).unwrap() {
        let path = rules::relative(&entry.unwrap().path());
        let text = read(&path);
        assert!(contributing.contains(&path), "CONTRIBUTING.md: no {path}");
        if text.starts_with("#!") && text.lines().next().unwrap().ends_with("bash") {
            assert!(text.contains("\nset -euo pipefail\n"), "{path}");
        }
        #[cfg(unix)]
        if text.starts_with("#!") {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(root().join(&path)).unwrap().permissions();
            assert_ne!(mode.mode() & 0o111, 0, "{path} is not executable");
        }
    }
}

#[test]
fn the_changelog_has_a_place_for_what_comes_next() {
    let changelog = read("CHANGELOG.md");
    assert!(changelog.contains("\n## [Unreleased]\n"));
}

/// Fails with every line of `broken`, if there is any.
#[track_caller]
fn none(broken: impl Iterator<Item = impl ToString>) {
    let broken: Vec<_> = broken.map(|line| line.to_string()).collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn source() -> Vec<(String, String)> {
    let files: Vec<_> = SOURCE.iter().flat_map(|f| rust_files(f)).collect();
    assert!(files.iter().any(|(path, _)| path == "src/lib.rs"));
    files
}

/// What `rule` says about each file, with file and line in front.
fn each_file(
    rule: impl Fn(&str, &[Token]) -> Vec<(usize, &'static str)>,
) -> impl Iterator<Item = String> {
    source().into_iter().flat_map(move |(path, text)| {
        let broken = rule(&path, &tokens(&text)).into_iter();
        broken
            .map(|(line, what)| format!("{path}:{line}: {what}"))
            .collect::<Vec<_>>()
    })
}

/// Every file of the project that is text.
fn text_files() -> impl Iterator<Item = (String, String)> {
    let mut files = Vec::new();
    rules::walk(root(), &mut files);
    files.into_iter().filter_map(|path| {
        let text = fs::read_to_string(&path).ok()?;
        Some((rules::relative(&path), text))
    })
}

/// The lines where these tokens stand in a row.
fn find<'a>(tokens: &'a [Token], row: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
    tokens
        .windows(row.len())
        .filter(move |window| window.iter().zip(row).all(|(t, text)| t.text == *text))
        .filter_map(|window| window.first().map(|t| t.line))
}

/// The lines where one of `names` is followed by `mark`.
fn calls<'a>(
    tokens: &'a [Token],
    names: &'a [&str],
    mark: &'a str,
) -> impl Iterator<Item = usize> + 'a {
    tokens
        .windows(2)
        .filter(move |pair| names.contains(&pair[0].text.as_str()) && pair[1].text == mark)
        .map(|pair| pair[0].line)
}

fn waived_without_reason(tokens: &[Token]) -> Vec<(usize, &'static str)> {
    let text = |at: usize| tokens.get(at).map_or("", |t| t.text.as_str());
    let mut out = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.text != "#" {
            continue;
        }
        let name = if text(at + 1) == "!" { at + 3 } else { at + 2 };
        let attribute = tokens.iter().skip(name).take_while(|t| t.text != "]");
        match text(name) {
            "allow" => out.push((token.line, "`allow`: use `expect` with a reason")),
            "expect" if !attribute.clone().any(|t| t.text == "reason") => {
                out.push((token.line, "`expect` without a reason"));
            }
            _ => {}
        }
    }
    out
}

/// The lines of `pub use path::*`, in groups too, with any visibility.
fn public_globs(tokens: &[Token]) -> Vec<usize> {
    let mut out = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|i| tokens.get(i));
        let public = before.is_some_and(|t| t.text == "pub" || t.text == ")");
        if token.text == "use" && public {
            let mut tree = tokens.iter().skip(at).take_while(|t| t.text != ";");
            out.extend(tree.find(|t| t.text == "*").map(|t| t.line));
        }
    }
    out
}

fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// The lines of sleeps in test code: a test file, or what follows `#[cfg(test)]`
/// and `mod`, since tests stand last in a file.
fn sleeps_in_tests(path: &str, tokens: &[Token]) -> Vec<usize> {
    let cfg_test = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let from = match find(tokens, &cfg_test).next() {
        _ if is_test_file(path) => 0,
        Some(line) => line,
        None => return Vec::new(),
    };
    calls(tokens, &["sleep", "sleep_until"], "(")
        .filter(|line| *line >= from)
        .collect()
}

fn sockets_beside_a_paused_clock(tokens: &[Token]) -> Vec<usize> {
    let sockets = ["TcpListener", "TcpStream", "TcpSocket", "UnixListener"];
    let pauses = tokens.iter().any(|t| t.text == "start_paused")
        || find(tokens, &["time", "::", "pause"]).next().is_some();
    let found = tokens
        .iter()
        .filter(|t| pauses && sockets.contains(&t.text.as_str()));
    found.map(|t| t.line).collect()
}

/// One row of the table in docs/errors.md.
struct ErrorRow {
    code: String,
    class: String,
    when: String,
    what_to_do: String,
}

fn error_rows(page: &str) -> Vec<ErrorRow> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [code, class, when, what_to_do] = cells.as_slice() else {
            panic!("expected four cells, but found {line}");
        };
        ErrorRow {
            code: code.trim_matches('`').to_owned(),
            class: (*class).to_owned(),
            when: (*when).to_owned(),
            what_to_do: (*what_to_do).to_owned(),
        }
    })
    .collect()
}

/// The lines of one section of a manifest.
fn section<'a>(manifest: &'a str, name: &str) -> &'a str {
    let start = manifest.find(&format!("\n[{name}]\n"));
    let rest = start.map_or("", |at| &manifest[at + name.len() + 4..]);
    rest.find("\n[").map_or(rest, |end| &rest[..end])
}

/// Where a README says something else than the manifest: the oldest Rust it
/// names, and the features of its table (rows that begin with a name in
/// backticks, under a heading with the word "features").
fn disagreements(readme: &str, manifest: &str) -> Vec<String> {
    let mut out = Vec::new();
    let value = |line: &str| line.split('"').nth(1).map(str::to_owned);
    let msrv = manifest
        .lines()
        .find(|line| line.starts_with("rust-version"))
        .and_then(value)
        .unwrap_or_default();
    let versions: BTreeSet<_> = readme
        .split("Rust ")
        .skip(1)
        .map(|rest| rest.strip_prefix("version is ").unwrap_or(rest))
        .filter(|rest| rest.starts_with("1."))
        .map(|rest| {
            let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'));
            rest[..end.unwrap_or(rest.len())].trim_end_matches('.')
        })
        .collect();
    if versions != BTreeSet::from([msrv.as_str()]) {
        out.push(format!("expected Rust {msrv}, but found {versions:?}"));
    }
    let features: BTreeSet<_> = section(manifest, "features")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('=').map(|(name, _)| name.trim()))
        .filter(|name| *name != "default")
        .collect();
    let named: BTreeSet<_> = readme
        .split("\n#")
        .filter(|part| {
            let heading = part.lines().next().unwrap_or_default().to_lowercase();
            heading.contains("features")
        })
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    if named != features {
        out.push(format!(
            "expected the features {features:?}, but found {named:?}"
        ));
    }
    out
}

/// What would give the machine away: where this clone lies, the user's home, and
/// the hosts of package registries (in pieces, so that this file passes).
fn machine_places(clone: &Path, home: &str) -> Vec<String> {
    let shared = ["/", "/tmp", "/opt", "/src", "/usr/src", "/home", "/mnt"];
    let folder = |path: &Path| format!("{}/", path.display());
    let mut places = vec![clone.display().to_string()];
    let parent = clone.parent().unwrap_or(clone);
    if !shared.iter().any(|s| parent == Path::new(s)) {
        places.push(folder(parent));
    }
    if home.len() > 1 {
        places.push(folder(Path::new(home)));
    }
    for (name, domain) in [
        ("pypi", ".org"),
        ("files.pythonhosted", ".org"),
        ("index.crates", ".io"),
        ("static.crates", ".io"),
        ("registry.npmjs", ".org"),
        ("deb.debian", ".org"),
    ] {
        places.push(format!("{name}{domain}"));
    }
    places
}

/// Whether a line names a place, as more than the tail of a longer path.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_.~-".contains(c))
    })
}

/// The targets of a page's links, without those that leave the repository.
fn local_links(page: &str) -> Vec<String> {
    let links = page.match_indices("](").map(|(at, _)| {
        let rest = &page[at + 2..];
        rest.split([')', ' ']).next().unwrap_or_default().to_owned()
    });
    links.filter(|link| !link.contains("://")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waived_lint_is_seen() {
        let lines = |text: &str| waived_without_reason(&tokens(text)).len();
        assert_eq!(lines("#[allow(dead_code)] fn f() {}"), 1);
        assert_eq!(lines("#![allow(dead_code)]"), 1);
        assert_eq!(lines("#[expect(dead_code)] fn f() {}"), 1);
        assert_eq!(lines("#[expect(dead_code, reason = \"why\")] fn f() {}"), 0);
        assert_eq!(lines("x.expect(\"#[allow(y)]\"); // #[allow(z)]"), 0);
    }

    #[test]
    fn a_public_glob_is_seen() {
        let lines = |text: &str| public_globs(&tokens(text));
        assert_eq!(lines("\npub use a::*;"), [2]);
        assert_eq!(lines("pub(crate) use a::{b, c::*};"), [1]);
        assert_eq!(lines("use super::*; pub use a::b; let x = a * b;"), [0; 0]);
    }

    #[test]
    fn a_sleep_in_a_test_is_seen_wherever_tests_stand() {
        let found = |path: &str, text: &str| sleeps_in_tests(path, &tokens(text));
        let text = "fn f() { sleep(x) }\n#[cfg(test)]\nmod tests { fn g() { time::sleep(x) } }";
        assert_eq!(found("src/client/mod.rs", text), [3]);
        assert_eq!(found("tests/it.rs", text), [1, 3]);
        assert_eq!(found("src/client/tests.rs", "a.sleep_until(x)"), [1]);
        assert_eq!(found("src/client/mod.rs", "fn f() { sleep(x) }"), [0; 0]);
        assert_eq!(
            found("tests/it.rs", "// sleep(x)\nlet sleep = \"sleep(\";"),
            [0; 0]
        );
    }

    #[test]
    fn a_socket_beside_a_paused_clock_is_seen() {
        let found = |text: &str| sockets_beside_a_paused_clock(&tokens(text));
        assert_eq!(
            found("#[tokio::test(start_paused = true)]\nTcpStream::connect"),
            [2]
        );
        assert_eq!(found("tokio::time::pause();\nTcpListener::bind"), [2]);
        assert_eq!(found("TcpListener::bind(); time::resume()"), [0; 0]);
    }

    #[test]
    fn a_readme_that_disagrees_is_seen() {
        let manifest = "[package]\nrust-version = \"1.90\"\n\n[features]\n\
            default = [\"a\"]\n# One.\na = []\n# Two.\nb = []\n\n[dependencies]\nc = \"1\"\n";
        let readme = "# X\n\nNeeds Rust 1.90.\n\n## Features\n\n| `a` | one |\n| `b` | two |\n\n\
            ## Else\n\n| `z` | three |\n";
        assert_eq!(disagreements(readme, manifest), [""; 0]);
        let other = readme.replace("Needs Rust", "The oldest Rust version is");
        assert_eq!(disagreements(&other, manifest), [""; 0]);
        for wrong in [
            readme.replace("1.90", "1.85"),
            readme.replace("Rust 1.90", "it"),
            format!("{readme}\nRust 1.91"),
            readme.replace("| `b` | two |\n", ""),
            readme.replace("| `b` |", "| `bb` |"),
        ] {
            assert_eq!(disagreements(&wrong, manifest).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_machine_is_known_by_its_places() {
        let places = machine_places(Path::new("/data/ci/clone"), "/users/me");
        let named = |line: &str| places.iter().any(|place| names(line, place));
        for line in [
            "see /data/ci/other/file",
            "built in /data/ci/clone.",
            "`/users/me/.cargo`",
            concat!("https://py", "pi.org/simple"),
            concat!("https://static.cra", "tes.io/x"),
        ] {
            assert!(named(line), "{line}");
        }
        for line in ["a/data/ci/x", "/users/mean", "/data/cinema", "crates.io"] {
            assert!(!named(line), "{line}");
        }
        assert!(!machine_places(Path::new("/tmp/x"), "/").contains(&"/tmp/".to_owned()));
    }

    #[test]
    fn links_are_read_as_a_page_has_them() {
        let page = "[a](docs/a.md) [b](https://example.org/x) ![c](../c.png \"t\") [d](#here)";
        assert_eq!(local_links(page), ["docs/a.md", "../c.png", "#here"]);
    }
}
