//! `scripts/test` itself: what it does when a part cannot be had, and when a run
//! fails. It runs in a folder of its own, with programs that stand in for cargo
//! and Python in front of the real ones.

#![cfg(test)] // else the lints take the helpers for production code
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const CARGO_PASSES: &str = r#"
case "$*" in
"nextest --version") exit 0 ;;
nextest*) echo "     Summary [   0.1s] 7 tests run: 5 passed (1 slow), 2 skipped" >&2 ;;
test*) echo "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured" ;;
esac
"#;

const CARGO_FAILS: &str = r#"
case "$*" in
"nextest --version") exit 1 ;;
*--no-default-features*) echo "test result: ok. 1 passed; 0 failed; 0 ignored"; exit 0 ;;
*) echo "test result: FAILED. 4 passed; 2 failed; 0 ignored"; exit 101 ;;
esac
"#;

/// A folder with the scripts, and a folder of stand-ins for its PATH.
struct Place(PathBuf, Option<(&'static str, &'static str)>);

impl Place {
    fn new(name: &str, cargo: &str) -> Self {
        let place = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), None);
        let _ = fs::remove_dir_all(&place.0);
        fs::create_dir_all(place.0.join("scripts")).unwrap();
        fs::create_dir_all(place.0.join("bin")).unwrap();
        for file in ["test", "requirements.txt"] {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
            fs::copy(from.join(file), place.0.join("scripts").join(file)).unwrap();
        }
        place.stand_in("bin/cargo", cargo);
        place.stand_in("bin/redis-server", "exit 1");
        // No Python, and no way to get one.
        for program in ["python3", "apt-get", "sudo"] {
            place.stand_in(&format!("bin/{program}"), "exit 1");
        }
        place
    }

    fn stand_in(&self, path: &str, body: &str) {
        let file = self.0.join(path);
        fs::write(&file, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Python and a model server that can be had.
    fn with_the_model(self) -> Self {
        // `python3 -m venv .venv` makes a folder with a Python in it.
        let python = r#"
case "$*" in
"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo venv >>made ;;
*"-m pip"*) echo pip >>made ;;
esac
"#;
        self.stand_in("bin/python3", python);
        self.stand_in("scripts/model-server", "exit 0");
        self
    }

    /// Runs `scripts/test`: whether it ended well, and what it printed.
    fn run(&self, arguments: &[&str], ci: bool) -> (bool, String) {
        let path = std::env::var("PATH").unwrap();
        let output = Command::new("bash")
            .arg(self.0.join("scripts/test"))
            .args(arguments)
            .current_dir("/")
            .env("PATH", format!("{}:{path}", self.0.join("bin").display()))
            .env("CI", if ci { "true" } else { "" })
            .env_remove("STREAMKEEP_MODEL_SERVER")
            .env_remove("STREAMKEEP_REDIS_SERVER")
            .envs(self.1.iter().copied())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }
}

#[track_caller]
fn says(text: &str, line: &str) {
    assert!(text.lines().any(|l| l == line), "no `{line}` in:\n{text}");
}

#[test]
fn what_cannot_be_had_is_skipped_and_said() {
    let place = Place::new("skipped", CARGO_PASSES);
    let (ended_well, text) = place.run(&[], false);
    assert!(ended_well, "{text}");
    says(
        &text,
        "SKIPPED: the tests against a real model: needs Python 3.10 or newer with venv",
    );
    says(&text, "13 passed, 0 failed, 6 skipped");
}

#[test]
fn without_a_redis_its_tests_are_skipped_and_in_ci_that_is_a_failure() {
    let mut place = Place::new("no-redis", CARGO_PASSES).with_the_model();
    place.1 = Some(("STREAMKEEP_REDIS_SERVER", "/nowhere/redis-server"));
    let (ended_well, text) = place.run(&[], false);
    assert!(ended_well, "{text}");
    says(
        &text,
        "SKIPPED: the tests of the store in Redis: needs redis-server",
    );
    says(&text, "13 passed, 0 failed, 6 skipped");
    let (ended_well, text) = place.run(&[], true);
    assert!(!ended_well, "{text}");
    assert!(text.contains("needs redis-server"), "{text}");
    assert!(!text.contains("passed"), "{text}");
}

#[test]
fn in_ci_what_cannot_be_had_is_a_failure() {
    let place = Place::new("missing", CARGO_PASSES);
    let (ended_well, text) = place.run(&[], true);
    assert!(!ended_well, "{text}");
    assert!(text.contains("needs Python 3.10"), "{text}");
    assert!(!text.contains("passed"), "{text}");
}

#[test]
fn the_model_is_installed_once_and_handed_to_the_tests() {
    let cargo = format!("{CARGO_PASSES}\necho \"server: $STREAMKEEP_MODEL_SERVER\"");
    let place = Place::new("installed", &cargo).with_the_model();
    for _ in 0..2 {
        let (ended_well, text) = place.run(&[], true);
        assert!(ended_well, "{text}");
        let server = place.0.join("scripts/model-server");
        says(&text, &format!("server: {}", server.display()));
        says(&text, "13 passed, 0 failed, 5 skipped");
    }
    let made = || fs::read_to_string(place.0.join("made")).unwrap();
    assert_eq!(made(), "venv\npip\n");

    let pins = place.0.join("scripts/requirements.txt");
    fs::write(&pins, "another==1\n").unwrap();
    let (ended_well, text) = place.run(&[], true);
    assert!(ended_well, "{text}");
    assert_eq!(
        made(),
        "venv\npip\nvenv\npip\n",
        "a changed pin installs anew"
    );
}

#[test]
fn a_failed_run_fails_the_whole_and_the_rest_still_runs() {
    let place = Place::new("failed", CARGO_FAILS).with_the_model();
    let (ended_well, text) = place.run(&[], false);
    assert!(!ended_well, "{text}");
    says(&text, "FAILED: all features");
    says(&text, "FAILED: the examples in the documentation");
    says(&text, "9 passed, 4 failed, 0 skipped");
}

#[test]
fn a_run_that_does_not_come_as_far_as_its_tests_is_counted_as_failed() {
    let place = Place::new("broken", "exit 101").with_the_model();
    let (ended_well, text) = place.run(&[], false);
    assert!(!ended_well, "{text}");
    says(&text, "0 passed, 3 failed, 0 skipped");
}

#[test]
fn quick_leaves_out_and_says_so() {
    let place = Place::new("quick", CARGO_PASSES);
    let (ended_well, text) = place.run(&["--quick"], false);
    assert!(ended_well, "{text}");
    assert!(text.contains("left out by --quick"), "{text}");
    says(&text, "5 passed, 0 failed, 3 skipped");
}

#[test]
fn an_unknown_argument_is_refused() {
    let place = Place::new("refused", CARGO_PASSES);
    let (ended_well, text) = place.run(&["--quik"], false);
    assert!(!ended_well, "{text}");
    assert!(text.contains("but found '--quik'"), "{text}");
}
