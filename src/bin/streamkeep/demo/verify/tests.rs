use super::*;
use streamkeep::proto::classify::Failure;
use streamkeep::proto::journal::{AttemptEnded, AttemptKind, AttemptStarted, Ended};
use streamkeep::proto::journal::{FailureNote, Interrupted, RecoveryOption};
use streamkeep::proto::model::{Fingerprint, Phase, Seq, Usage, WallTime};
use streamkeep::{Dialect, ErrorKind, Key};

const WORDS: usize = 6;

/// An answer of six words: one request that failed, one that brought it.
fn journal() -> Vec<Record> {
    let mut bodies = vec![
        opened(),
        started(1, AttemptKind::First),
        ended_attempt(1, Some(ErrorKind::Overloaded), "retry"),
        started(2, AttemptKind::Retry),
        chunk(r#"{"role":"assistant"}"#, "null"),
    ];
    for word in Words::numbered(WORDS).deltas() {
        bodies.push(chunk(&format!(r#"{{"content":"{word}"}}"#), "null"));
    }
    bodies.extend([
        chunk("{}", r#""stop""#),
        event("[DONE]"),
        ended_attempt(2, None, "finish"),
        control(Control::Ended(Ended {
            end: End::Complete,
            stop: None,
            failure: None,
            usage: Usage::default(),
            attempts: 2,
            warnings: Vec::new(),
        })),
    ]);
    numbered(bodies)
}

/// Where the first word stands.
const FIRST_WORD: u64 = 6;

fn numbered(bodies: Vec<Body>) -> Vec<Record> {
    (1_u64..)
        .zip(bodies)
        .map(|(seq, body)| Record {
            seq: Seq::new(seq),
            at: WallTime::from_millis(1_000 + seq * 100),
            body,
        })
        .collect()
}

fn opened() -> Body {
    control(
        serde_json::from_value(serde_json::json!({
            "record": "opened",
            "key": Key::new("k").unwrap(),
            "fingerprint": Fingerprint::from_bytes([7; 32]),
            "dialect": Dialect::OpenAiChat,
            "url": "http://127.0.0.1:1/v1/chat/completions",
            "body": r#"{"model":"m","stream":true,"stream_options":{},"messages":[]}"#,
        }))
        .unwrap(),
    )
}

fn started(attempt: u32, kind: AttemptKind) -> Body {
    control(Control::AttemptStarted(AttemptStarted::new(attempt, kind)))
}

fn ended_attempt(attempt: u32, failure: Option<ErrorKind>, decision: &str) -> Body {
    control(Control::AttemptEnded(AttemptEnded {
        failure: failure.map(note),
        took_ms: 1,
        ..AttemptEnded::new(attempt, Phase::PreStream, decision)
    }))
}

fn note(kind: ErrorKind) -> FailureNote {
    Failure::new(kind, "what happened").note()
}

fn control(control: Control) -> Body {
    Body::Control(Box::new(control))
}

fn chunk(delta: &str, finish_reason: &str) -> Body {
    event(&format!(
        r#"{{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish_reason}}}]}}"#
    ))
}

fn event(data: &str) -> Body {
    Body::Event(Delivered {
        name: "".into(),
        data: data.to_owned().into(),
        provider_seq: None,
    })
}

/// A reader that saw everything after this record.
fn reader(journal: &[Record], after: u64) -> Transcript {
    let seen = texts(journal)
        .into_iter()
        .filter(|(seq, _)| *seq > after)
        .map(|(seq, text)| Seen { seq, text })
        .collect();
    Transcript {
        reader: "reader",
        after,
        seen,
        to_the_end: true,
    }
}

fn evidence(journal: Vec<Record>, readers: Vec<Transcript>) -> Evidence {
    Evidence {
        journal,
        words: Some(Words::numbered(WORDS)),
        readers,
        requests: Some(2),
    }
}

fn of_reader(change: impl FnOnce(&mut Transcript)) -> Findings {
    let journal = journal();
    let mut reader = reader(&journal, 0);
    change(&mut reader);
    verify(&evidence(journal, vec![reader]))
}

fn of_journal(change: impl FnOnce(&mut Vec<Record>)) -> Findings {
    let mut journal = journal();
    change(&mut journal);
    let reader = reader(&journal, 0);
    verify(&evidence(journal, vec![reader]))
}

fn word(number: u64) -> usize {
    usize::try_from(FIRST_WORD + number - 2).unwrap()
}

#[test]
fn a_whole_answer_is_healed() {
    let findings = of_reader(|_| {});
    assert!(findings.is_healed(), "{findings:?}");
    assert_eq!((findings.attempts, findings.tokens), (2, WORDS));
    assert_eq!(findings.end, "complete");
    // From the first record at 1.1 s to the second attempt's at 1.4 s.
    assert_eq!(findings.time_lost_ms, 300);
}

#[test]
fn a_reader_from_a_cursor_needs_the_rest_and_no_more() {
    let journal = journal();
    let late = reader(&journal, FIRST_WORD + 2);
    let findings = verify(&evidence(journal.clone(), vec![late.clone()]));
    assert!(findings.is_healed(), "{findings:?}");
    assert_eq!(findings.tokens, WORDS - 3);
    // The same rest to a reader that had less, or more, is a gap or a duplicate.
    for (after, duplicates, gaps) in [(FIRST_WORD + 1, 0, 1), (FIRST_WORD + 3, 1, 0)] {
        let wrong = Transcript {
            after,
            ..late.clone()
        };
        let findings = verify(&evidence(journal.clone(), vec![wrong]));
        // Once as a record, once as a token.
        assert_eq!(
            (findings.duplicates, findings.gaps),
            (duplicates * 2, gaps * 2)
        );
        assert!(!findings.is_healed());
    }
}

#[test]
fn a_token_a_reader_saw_twice_is_a_duplicate() {
    let findings = of_reader(|reader| {
        let again = reader.seen[word(3)].clone();
        reader.seen.insert(word(4), again);
    });
    assert_eq!((findings.duplicates, findings.gaps), (2, 0));
    assert!(!findings.is_healed());
    assert!(
        findings
            .problems
            .contains(&"reader: 1 came twice".to_owned())
    );
}

#[test]
fn a_token_a_reader_never_saw_is_a_gap() {
    let findings = of_reader(|reader| {
        reader.seen.remove(word(3));
    });
    assert_eq!((findings.duplicates, findings.gaps), (0, 2));
    assert!(!findings.is_healed());
    let findings = of_reader(|reader| reader.seen.truncate(word(3)));
    assert!(
        findings.gaps > 0 && !findings.is_healed(),
        "the end counts too"
    );
}

#[test]
fn a_reader_that_died_may_lack_the_end_but_nothing_before_it() {
    let journal = journal();
    let whole = reader(&journal, 0);
    let mut died = reader(&journal, 0);
    died.to_the_end = false;
    died.seen.truncate(word(4));
    let findings = verify(&evidence(
        journal.clone(),
        vec![whole.clone(), died.clone()],
    ));
    assert!(findings.is_healed(), "{findings:?}");
    died.seen.remove(word(2));
    let findings = verify(&evidence(journal, vec![whole, died]));
    assert_eq!((findings.duplicates, findings.gaps), (0, 2));
}

#[test]
fn another_payload_under_the_same_number_is_found() {
    let findings = of_reader(|reader| reader.seen[word(3)].text = " w9".to_owned());
    assert!(!findings.is_healed());
    assert!(
        findings
            .problems
            .iter()
            .any(|what| what.contains("not what was sent"))
    );
    let findings = of_reader(|reader| {
        reader.seen.push(Seen {
            seq: 999,
            text: String::new(),
        });
    });
    assert!(
        !findings.is_healed(),
        "a record that the journal does not hold"
    );
}

#[test]
fn a_journal_that_lost_or_repeated_words_is_found_although_its_readers_agree() {
    let cut = of_journal(|journal| {
        journal.remove(word(3));
        let bodies = journal.drain(..).map(|record| record.body).collect();
        *journal = numbered(bodies);
    });
    assert!(cut.gaps > 0 && cut.duplicates == 0, "{cut:?}");
    let repeated = of_journal(|journal| {
        let again = journal[word(3)].clone();
        journal.insert(word(4), again);
        let bodies = journal.drain(..).map(|record| record.body).collect();
        *journal = numbered(bodies);
    });
    assert!(
        repeated.duplicates > 0 && repeated.gaps == 0,
        "{repeated:?}"
    );
    let hole = of_journal(|journal| {
        journal.remove(word(3));
    });
    assert!(!hole.is_healed());
}

#[test]
fn an_answer_that_did_not_end_whole_is_not_healed() {
    let cut = of_journal(|journal| {
        journal.truncate(word(3));
        let interrupted = Interrupted {
            failure: note(ErrorKind::Reset),
            options: vec![RecoveryOption::Regenerate],
        };
        let bodies = journal.drain(..).map(|record| record.body);
        let bodies = bodies.chain([control(Control::Interrupted(interrupted))]);
        *journal = numbered(bodies.collect());
    });
    assert_eq!(cut.end, "interrupted");
    assert!(!cut.is_healed());
    let endless = of_journal(|journal| {
        journal.pop();
    });
    assert!(
        endless
            .problems
            .contains(&"the answer has no end".to_owned())
    );
}

#[test]
fn a_request_that_the_journal_does_not_know_is_found() {
    let journal = journal();
    let reader = reader(&journal, 0);
    let findings = verify(&Evidence {
        requests: Some(3),
        ..evidence(journal, vec![reader])
    });
    assert!(findings.problems[0].contains("2 attempts, and the provider saw 3 requests"));
}

#[test]
fn without_readers_or_tokens_nothing_is_proven() {
    assert!(!verify(&evidence(journal(), Vec::new())).is_healed());
    let empty = Evidence {
        words: None,
        ..evidence(Vec::new(), Vec::new())
    };
    assert!(!verify(&empty).is_healed());
}

#[test]
fn without_the_words_the_records_still_count() {
    let journal = journal();
    let mut reader = reader(&journal, 0);
    reader.seen.remove(word(3));
    let findings = verify(&Evidence {
        words: None,
        ..evidence(journal, vec![reader])
    });
    assert_eq!((findings.gaps, findings.tokens), (1, WORDS - 1));
    assert!(!findings.is_healed());
}
