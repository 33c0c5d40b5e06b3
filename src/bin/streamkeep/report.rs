//! What `list` and `show` tell, as plain values: printed as text or JSON, and
//! carried by the control socket.

use crate::format;
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};
use streamkeep::proto::cost::Bill;
use streamkeep::proto::journal::{
    Anchored, AttemptEnded, AttemptKind, AttemptStarted, Body, Control, End, Ended, FailureNote,
    Interrupted, Record, RecoveryOption, Spliced, Status,
};
use streamkeep::proto::model::{Dialect, Generation, Phase, Seq, Usage, WallTime};
use streamkeep::proto::operation::{Recovered, Recovery};
use streamkeep::store::{JournalState, PageLimit};
use streamkeep::{Client, Cursor, Error, ErrorKind, Key, Result};

/// One row of `list`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    /// `running`, `abandoned`, `interrupted`, or how it ended.
    pub(crate) status: String,
    pub(crate) generation: u32,
    /// Records of the current generation.
    pub(crate) records: u64,
    /// Bytes of all generations.
    pub(crate) bytes: u64,
    pub(crate) created_at_ms: u64,
    pub(crate) updated_at_ms: u64,
    pub(crate) expires_at_ms: u64,
}

impl Entry {
    /// `alone` says that no process can be writing it.
    pub(crate) fn new(state: &JournalState, alone: bool, now: WallTime) -> Self {
        Self {
            key: state.key.clone(),
            status: status(state, alone, now).to_owned(),
            generation: state.generation.get(),
            records: state.head.get(),
            bytes: state.bytes,
            created_at_ms: state.created_at.as_millis(),
            updated_at_ms: state.updated_at.as_millis(),
            expires_at_ms: state.expires_at.as_millis(),
        }
    }
}

/// The word for a journal whose writer died.
pub(crate) const ABANDONED: &str = "abandoned";

/// The word for how a journal stands. `abandoned` is a running one whose writer
/// died.
fn status(state: &JournalState, alone: bool, now: WallTime) -> &'static str {
    match state.status {
        Status::Running if alone || !state.is_held(now) => ABANDONED,
        status => status.as_str(),
    }
}

/// What `show` tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) entry: Entry,
    pub(crate) dialect: String,
    pub(crate) url: String,
    /// Bytes of the request body.
    pub(crate) request_bytes: u64,
    /// The request body: it holds the prompt. Only where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<String>,
    /// Events of the answer.
    pub(crate) events: u64,
    pub(crate) attempts: Vec<Attempt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) anchored: Option<Anchored>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) splices: Vec<Spliced>,
    /// Every interruption, also those that were overcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) interruptions: Vec<Stopped>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<Ended>,
    /// Milliseconds from the first record to the last.
    pub(crate) took_ms: u64,
    /// Milliseconds from the first record to the first output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_output_ms: Option<u64>,
    /// What all attempts cost together, as far as the provider said.
    pub(crate) usage: Usage,
    /// The tokens of each attempt.
    #[serde(default)]
    pub(crate) bill: Bill,
    /// The dialect of each route, and the attempts that have not ended: what a
    /// bill is made with.
    #[serde(skip)]
    routes: Vec<(String, Dialect)>,
    #[serde(skip)]
    open: Vec<AttemptStarted>,
    /// What can be done now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) options: Vec<RecoveryOption>,
}

/// An interruption, and whether the answer still rests there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stopped {
    #[serde(flatten)]
    pub(crate) interrupted: Interrupted,
    pub(crate) at_ms: u64,
    /// Whether nothing has been tried since.
    pub(crate) rests_here: bool,
}

/// One upstream exchange.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Attempt {
    #[serde(rename = "attempt")]
    pub(crate) number: u32,
    pub(crate) kind: AttemptKind,
    pub(crate) started_at_ms: u64,
    /// The provider's cursor it asked to go on after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<u64>,
    /// The route it took.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) route: String,
    /// Where it went.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) endpoint: String,
    /// The model that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// How it ended; missing while it runs, or when its writer died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<AttemptOver>,
}

/// How an exchange ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AttemptOver {
    pub(crate) phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<FailureNote>,
    /// Who has to act about the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<String>,
    pub(crate) decision: String,
    pub(crate) delay_ms: u64,
    pub(crate) took_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_output_ms: Option<u64>,
    pub(crate) usage: Usage,
    /// The longest time between two arrivals of output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) longest_gap_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
}

impl AttemptOver {
    fn new(ended: &AttemptEnded) -> Self {
        Self {
            phase: ended.phase,
            class: ended
                .failure
                .as_ref()
                .map(|failure| class(&failure.kind).to_owned()),
            failure: ended.failure.clone(),
            decision: ended.decision.clone(),
            delay_ms: ended.delay_ms,
            took_ms: ended.took_ms,
            first_output_ms: ended.first_output_ms,
            usage: ended.usage,
            longest_gap_ms: ended.longest_gap_ms,
            request_id: ended.request_id.clone(),
        }
    }
}

/// Who has to act about a failure of the kind with this code.
pub(crate) fn class(code: &str) -> &'static str {
    ErrorKind::from_code(code).map_or("unknown", |kind| kind.class().as_str())
}

/// The rows of `list`.
pub(crate) async fn entries(client: &Client, alone: bool) -> Result<Vec<Entry>> {
    const PAGE: usize = 256;
    let now = crate::store::now();
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let after = entries.last().map(|entry| entry.key.clone());
        let page = client.list(after.as_ref(), PAGE).await?;
        if page.is_empty() {
            return Ok(entries);
        }
        entries.extend(page.iter().map(|state| Entry::new(state, alone, now)));
    }
}

/// What `show` tells about one generation of a journal.
pub(crate) async fn report(client: &Client, wanted: &Wanted, alone: bool) -> Result<Report> {
    let state = client.state(&wanted.key).await?;
    let generation = match wanted.generation {
        None => state.generation,
        Some(number) => Generation::new(number).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidRequest,
                "expected a generation from 1 on, but found 0",
            )
        })?,
    };
    let mut entry = Entry::new(&state, alone, crate::store::now());
    entry.generation = generation.get();
    let mut report = Report::empty(entry);
    let mut after = Cursor::new(generation, Seq::ZERO);
    loop {
        let page = client
            .store()
            .read(&wanted.key, after, PageLimit::default())
            .await?;
        let Some(last) = page.records.last() else {
            break;
        };
        after.seq = last.seq;
        for record in &page.records {
            report.take(record, wanted.prompt);
        }
    }
    report.entry.records = after.seq.get();
    if generation == state.generation {
        report.options = report.options_now(client).await?;
    } else {
        report.entry.status = report.rests_as().to_owned();
    }
    Ok(report)
}

/// Which report is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<u32>,
    #[serde(default)]
    pub(crate) prompt: bool,
}

impl Report {
    fn empty(entry: Entry) -> Self {
        Self {
            entry,
            dialect: String::new(),
            url: String::new(),
            request_bytes: 0,
            request: None,
            events: 0,
            attempts: Vec::new(),
            anchored: None,
            splices: Vec::new(),
            interruptions: Vec::new(),
            end: None,
            took_ms: 0,
            first_output_ms: None,
            usage: Usage::default(),
            bill: Bill::default(),
            routes: Vec::new(),
            open: Vec::new(),
            options: Vec::new(),
        }
    }

    fn take(&mut self, record: &Record, prompt: bool) {
        let at_ms = record.at.as_millis();
        let began = self
            .attempts
            .first()
            .map_or(at_ms, |attempt| attempt.started_at_ms);
        self.took_ms = at_ms.saturating_sub(began);
        let control = match &record.body {
            Body::Control(control) => control.as_ref(),
            Body::Event(_) => {
                self.events = self.events.saturating_add(1);
                return;
            }
            _ => return,
        };
        match control {
            Control::Opened(opened) => {
                opened.dialect.name().clone_into(&mut self.dialect);
                self.url.clone_from(&opened.url);
                self.routes = vec![(opened.route.clone(), opened.dialect)];
                let fallbacks = opened.fallbacks.iter();
                self.routes
                    .extend(fallbacks.map(|note| (note.name.clone(), note.dialect)));
                self.request_bytes = u64::try_from(opened.body.len()).unwrap_or(u64::MAX);
                self.request = prompt.then(|| opened.body.clone());
            }
            Control::AttemptStarted(started) => self.started(started, at_ms),
            Control::AttemptEnded(ended) => self.attempt_ended(ended, began),
            Control::Anchored(anchored) => self.anchored = Some(anchored.clone()),
            Control::Spliced(spliced) => self.splices.push(spliced.clone()),
            Control::Interrupted(interrupted) => self.interruptions.push(Stopped {
                interrupted: interrupted.clone(),
                at_ms,
                rests_here: true,
            }),
            Control::Ended(ended) => self.end = Some(ended.clone()),
            _ => {}
        }
    }

    fn started(&mut self, started: &AttemptStarted, at_ms: u64) {
        for stopped in &mut self.interruptions {
            stopped.rests_here = false;
        }
        self.open.push(started.clone());
        self.attempts.push(Attempt {
            number: started.attempt,
            kind: started.kind,
            started_at_ms: at_ms,
            after: started.after,
            route: started.route.clone(),
            endpoint: started.endpoint.clone(),
            model: started.model.clone(),
            ended: None,
        });
    }

    fn attempt_ended(&mut self, ended: &AttemptEnded, began: u64) {
        self.usage.add(&ended.usage);
        let open = self.open.iter();
        if let Some(place) = open.clone().position(|open| open.attempt == ended.attempt) {
            let started = self.open.swap_remove(place);
            let mut routes = self.routes.iter();
            let (_, dialect) = routes
                .find(|(name, _)| *name == started.route)
                .or_else(|| self.routes.first())
                .cloned()
                .unwrap_or((String::new(), Dialect::OpenAiChat));
            self.bill.add(dialect, &started, ended);
        }
        let Some(attempt) = self
            .attempts
            .iter_mut()
            .rev()
            .find(|attempt| attempt.number == ended.attempt)
        else {
            return;
        };
        if let Some(first) = ended.first_output_ms {
            let since = attempt.started_at_ms.saturating_sub(began);
            self.first_output_ms
                .get_or_insert_with(|| since.saturating_add(first));
        }
        attempt.ended = Some(AttemptOver::new(ended));
    }

    /// What can be done now.
    async fn options_now(&self, client: &Client) -> Result<Vec<RecoveryOption>> {
        if let Some(end) = &self.end {
            let is_whole = matches!(end.end, End::Complete | End::Claimed);
            return Ok(if is_whole {
                Vec::new()
            } else {
                vec![RecoveryOption::Regenerate]
            });
        }
        if let Some(stopped) = self.rests_at() {
            return Ok(stopped.interrupted.options.clone());
        }
        if self.entry.status != ABANDONED {
            return Ok(Vec::new());
        }
        // Its writer died before it could say what can be done.
        let generation = Generation::new(self.entry.generation).unwrap_or(Generation::FIRST);
        let mut records = Vec::new();
        let mut after = Cursor::new(generation, Seq::ZERO);
        loop {
            let page = client
                .store()
                .read(&self.entry.key, after, PageLimit::default())
                .await?;
            let Some(last) = page.records.last() else {
                break;
            };
            after.seq = last.seq;
            records.extend(page.records);
        }
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let recovered = Recovered::fold(&records)?;
        let mut options = Vec::new();
        if recovered.check(Recovery::Resume).is_ok() {
            options.push(RecoveryOption::Resume);
        }
        if recovered.check(Recovery::Continue(None)).is_ok() {
            options.push(RecoveryOption::Continue);
        }
        options.push(RecoveryOption::Regenerate);
        Ok(options)
    }

    /// How the answer stands, for whoever has read it to its end.
    pub(crate) fn verdict(&self) -> Verdict {
        if let Some(end) = &self.end {
            return Verdict::of_ended(end);
        }
        match self.rests_at() {
            Some(stopped) => Verdict::of_interrupted(&stopped.interrupted),
            None => Verdict::abandoned(self.options.clone()),
        }
    }

    /// The interruption at which the answer rests.
    pub(crate) fn rests_at(&self) -> Option<&Stopped> {
        self.interruptions
            .last()
            .filter(|stopped| stopped.rests_here && self.end.is_none())
    }

    fn rests_as(&self) -> &'static str {
        match (&self.end, self.rests_at()) {
            (Some(end), _) => end.end.as_str(),
            (None, Some(_)) => "interrupted",
            (None, None) => ABANDONED,
        }
    }

    /// How often and how long, as one line.
    pub(crate) fn effort(&self) -> String {
        let mut parts = vec![format::count(
            u64::try_from(self.attempts.len()).unwrap_or(u64::MAX),
            "attempt",
        )];
        if let Some(first) = self.first_output_ms {
            parts.push(format!("first output after {}", format::millis(first)));
        }
        parts.push(format!("{} in all", format::millis(self.took_ms)));
        parts.join("; ")
    }
}
