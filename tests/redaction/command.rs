//! The command line, with its log at full volume.

use crate::stories::key;
use crate::{Place, Run};
use std::process::Stdio;
use std::time::Duration;
use streamkeep::testkit::{Failure, Fault, Scenario, Upstream};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

/// A command that hangs fails, long after every limit of its own.
const PATIENCE: Duration = Duration::from_secs(90);

struct Desk {
    folder: TempDir,
    secret: String,
}

impl Desk {
    async fn run(&self, run: &mut Run, story: &str, args: &[&str]) {
        let child = Command::new(env!("CARGO_BIN_EXE_streamkeep"))
            .current_dir(self.folder.path())
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("STREAMKEEP_PRICES")
            .env_remove("RUST_LOG")
            .env("STREAMKEEP_STORE", self.folder.path().join("store"))
            .env("STREAMKEEP_LOG", "trace")
            .env("OPENAI_API_KEY", &self.secret)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = timeout(PATIENCE, child.wait_with_output())
            .await
            .expect("the command ends")
            .unwrap();
        run.catch(Place::Stdout, story, output.stdout);
        run.catch(Place::Stderr, story, output.stderr);
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

pub(crate) async fn play(run: &mut Run) {
    let story = "the command";
    let desk = Desk {
        folder: tempfile::Builder::new().prefix("sk").tempdir().unwrap(),
        secret: run.secret(story),
    };
    let (prompt, output) = (run.prompt(story), run.output(story));
    let scenario = Scenario::openai_chat()
        .text(format!("{output} and some more words of it").as_str())
        .on(
            1,
            Fault::failure(Failure::Auth).message(format!("wrong key {}", desk.secret)),
        )
        .on(
            2,
            Fault::failure(Failure::ServerError).message(format!("on {}", desk.secret)),
        )
        .on(4, Fault::reset().after_event(3));
    let upstream = Upstream::start(scenario).await.unwrap();
    let url = format!("{}/v1/chat/completions", upstream.url());
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{prompt}"}}]}}"#);
    let body = desk.file("body.json", &body);
    for number in 1..=3 {
        let key = key(&format!("command {number}"));
        let send = ["send", &body, "--url", &url, "--key", key.as_str()];
        desk.run(run, story, &send).await;
    }
    let prices = desk.file(
        "p.toml",
        "currency = \"USD\"\n[models.m]\ninput = 1\noutput = 1\n",
    );
    desk.run(run, story, &["show", "command-2", "--prices", &prices])
        .await;
    desk.run(run, story, &["show", "command-3", "--json"]).await;
    desk.run(run, story, &["follow", "command-3"]).await;
    desk.run(run, story, &["list"]).await;

    let header = format!("Authorization: Bearer {}", run.secret(story));
    let place = format!(
        "http://{}@127.0.0.1:9/v1/chat/completions",
        run.secret(story)
    );
    let query = format!("{url}?key={}", run.secret(story));
    let wrong = desk.file(".env", &format!("KEY={}\n", run.secret(story)));
    let bare = run.opaque(story);
    for args in [
        ["send", &body, "--url", &url, "--header", &header],
        ["send", &body, "--url", &url, "--header", &bare],
        ["send", &body, "--url", &place, "--key", "k"],
        ["send", &body, "--url", &query, "--key", "k"],
        ["send", &wrong, "--url", &url, "--key", "k"],
        ["show", "command-2", "--prices", &wrong, "--json", "--quiet"],
    ] {
        desk.run(run, story, &args).await;
    }
    let sent = upstream.requests();
    let bearer = format!("Bearer {}", desk.secret);
    assert!(
        sent.iter()
            .all(|request| request.header("authorization") == Some(&bearer))
    );
    run.folder(story, &desk.folder.path().join("store"));
}
