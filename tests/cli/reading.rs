//! Reading what is kept: `list`, `show`, `follow`, `gc`.

use crate::support::{Desk, PROMPT, whole};
use streamkeep::testkit::{Fault, Scenario, Upstream};

const CHAT: &str = "/v1/chat/completions";

/// A desk with an answer of 60 words that was cut after some.
async fn cut() -> (Desk, Upstream) {
    let scenario = Scenario::openai_chat()
        .words(60)
        .on(1, Fault::reset().after_event(20));
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = Desk::new();
    desk.send(&upstream.url(), CHAT, &[]).await.ends_with(6);
    (desk, upstream)
}

#[tokio::test]
async fn show_lists_the_attempt_and_the_interruption() {
    let (desk, upstream) = cut().await;
    let show = desk.run(&["show", "k"]).await;
    show.ends_with(0).shows(&[
        "status    interrupted, generation 1",
        "reset",
        "network",
        "after output",
        "interrupt",
        "interrupted 20",
        "  streamkeep regenerate k",
    ]);
    assert!(!show.stdout.contains(PROMPT));
    let report = &desk.run(&["show", "k", "--json"]).await.ends_with(0).json()[0];
    assert_eq!(report["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(report["attempts"][0]["kind"], "first");
    assert_eq!(report["attempts"][0]["ended"]["failure"]["kind"], "reset");
    assert_eq!(report["attempts"][0]["ended"]["class"], "network");
    assert_eq!(report["attempts"][0]["ended"]["decision"], "interrupt");
    assert_eq!(report["interruptions"].as_array().unwrap().len(), 1);
    assert_eq!(report["interruptions"][0]["rests_here"], true);
    assert_eq!(report["options"], serde_json::json!(["regenerate"]));
    assert_eq!(report["url"], format!("{}{CHAT}", upstream.url()));
    assert!(report["request"].is_null());
    desk.run(&["show", "k", "--prompt"])
        .await
        .ends_with(0)
        .shows(&[PROMPT]);
}

const PRICES: &str = r#"currency = "USD"
as_of = "2026-11-30"
[models."m*"]
input = "1.00"
output = "10.00"
"#;

#[tokio::test]
async fn show_prints_what_a_bad_day_cost_and_what_of_it_reached_nobody() {
    // Overloaded, cut while it was held back, whole.
    let scenario = Scenario::openai_chat()
        .words(60)
        .input_tokens(1000)
        .on(1, Fault::status(529))
        .on(2, Fault::reset().after_event(20))
        .on(3, Fault::none());
    let upstream = Upstream::start(scenario).await.unwrap();
    let desk = Desk::new();
    desk.send(&upstream.url(), CHAT, &["--hold", "until-complete"])
        .await
        .ends_with(0);
    let prices = desk.file("prices.toml", PRICES);

    let plain = desk.run(&["show", "k"]).await;
    plain
        .ends_with(0)
        .shows(&["tokens    2000 in, ~", "out reached nobody"]);
    assert!(!plain.stdout.contains("COST"), "{}", plain.stdout);

    let with_money = ["show", "k", "--prices", &prices];
    desk.run(&with_money).await.ends_with(0).shows(&[
        "COST",
        "1000 in, ~",
        "to nobody",
        "1000 in, 60 out              0.0016\n",
        "for what reached nobody (prices of 2026-11-30)",
    ]);

    let desk = desk.with_variable("STREAMKEEP_PRICES", &prices);
    let shown = &desk.run(&["show", "k", "--json"]).await.ends_with(0).json()[0];
    let spent = &shown["spent"];
    assert_eq!(spent["currency"], "USD");
    assert_eq!(spent["total"]["basis"], "estimated");
    assert_eq!(spent["orphan"]["input"], 1000);
    let costs = spent["costs"].as_array().unwrap();
    let told: Vec<_> = costs
        .iter()
        .map(|cost| (cost["attempt"].as_u64(), cost["basis"].as_str()))
        .collect();
    assert_eq!(
        told,
        [(Some(2), Some("estimated")), (Some(3), Some("reported"))]
    );
    assert_eq!(costs[1]["amount"], "0.0016");
    assert_eq!(shown["bill"][1]["fate"], "orphan");
    assert_eq!(shown["bill"][2]["tokens"]["output"], 60);
    assert_eq!(shown["attempts"][2]["model"], "m");
}

/// A file that is no price list may be one of secrets.
#[tokio::test]
async fn a_wrong_price_file_is_told_by_its_line_and_not_shown() {
    let (desk, _upstream) = cut().await;
    let file = desk.file("env", "A=1\nKEY=sk-planted-7f3a\n");
    for wrong in [file.as_str(), "nowhere.toml"] {
        let ran = desk.run(&["show", "k", "--prices", wrong]).await;
        ran.ends_with(2).says(&["config", wrong]);
        assert!(!ran.stderr.contains("planted"), "{}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
}

#[tokio::test]
async fn follow_after_a_cursor_prints_exactly_the_rest() {
    let (desk, _upstream) = cut().await;
    let all = desk.run(&["follow", "k"]).await;
    assert!(all.ends_with(6).words(60) > 10);
    let lines = desk
        .run(&["follow", "k", "--json"])
        .await
        .ends_with(6)
        .json();
    let texts: Vec<&str> = lines
        .iter()
        .map(|line| line["text"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(texts.concat(), all.stdout);
    for (line, behind) in lines.iter().zip(1..) {
        let Some(cursor) = line["cursor"]
            .as_str()
            .filter(|_| line["outcome"].is_null())
        else {
            continue;
        };
        let rest = desk.run(&["follow", "k", "--after", cursor]).await;
        assert_eq!(
            rest.ends_with(6).stdout,
            texts[behind..].concat(),
            "{cursor}"
        );
    }
}

#[tokio::test]
async fn a_cursor_that_names_nothing_is_told_apart() {
    let (desk, _upstream) = cut().await;
    for (cursor, kind) in [
        ("1-9999", "cursor_ahead"),
        ("7-1", "cursor_ahead"),
        ("nonsense", "invalid_cursor"),
    ] {
        let ran = desk.run(&["follow", "k", "--after", cursor]).await;
        ran.ends_with(2).says(&[kind]);
        assert_eq!(ran.stdout, "");
    }
}

#[tokio::test]
async fn list_has_a_row_for_each_answer() {
    let (desk, upstream) = cut().await;
    let args = desk.send_args(&upstream.url(), CHAT, &[]);
    let args: Vec<&str> = args
        .iter()
        .map(|arg| if arg == "k" { "another" } else { arg })
        .collect();
    desk.run(&args).await.ends_with(0);
    desk.run(&["list"]).await.ends_with(0).shows(&[
        "KEY",
        "another",
        "complete",
        "k  ",
        "interrupted",
    ]);
    let rows = desk.run(&["list", "--json"]).await.ends_with(0).json();
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row["key"].as_str().unwrap(),
                row["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(told, [("another", "complete"), ("k", "interrupted")]);
}

#[tokio::test]
async fn an_older_answer_stays_readable() {
    let (desk, upstream) = cut().await;
    let partial = desk.run(&["follow", "k"]).await.ends_with(6).stdout.clone();
    assert_eq!(
        desk.run(&["regenerate", "k"]).await.ends_with(0).stdout,
        whole(60)
    );
    assert_eq!(upstream.requests().len(), 2);
    assert_eq!(
        desk.run(&["follow", "k"]).await.ends_with(0).stdout,
        whole(60)
    );
    let old = desk.run(&["follow", "k", "--after", "1-0"]).await;
    assert_eq!(old.ends_with(6).stdout, partial);
    desk.run(&["show", "k"])
        .await
        .ends_with(0)
        .shows(&["complete (stop), generation 2"]);
    desk.run(&["show", "k", "--generation", "1"])
        .await
        .ends_with(0)
        .shows(&["interrupted, generation 1"]);
}

#[tokio::test]
async fn gc_leaves_what_is_not_past_its_time() {
    let (desk, _upstream) = cut().await;
    desk.run(&["gc"])
        .await
        .ends_with(0)
        .says(&["0 journals removed"]);
    assert_eq!(
        desk.run(&["gc", "--json"]).await.ends_with(0).json()[0]["removed"],
        0
    );
    desk.run(&["follow", "k"]).await.ends_with(6);
}

#[tokio::test]
async fn a_reader_that_leaves_is_no_error() {
    let (desk, _upstream) = cut().await;
    for command in ["follow", "show"] {
        let mut reading = desk.start(&[command, "k"]);
        reading.close_stdout();
        let ran = reading.finish().await;
        assert!(
            ran.code == Some(0) || (command == "follow" && ran.code == Some(6)),
            "{ran:?}"
        );
        assert!(!ran.stderr.contains("error"), "{ran:?}");
    }
}
