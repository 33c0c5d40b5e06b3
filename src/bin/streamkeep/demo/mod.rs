//! `streamkeep demo`: answers are broken on purpose, and arrive whole.

mod child;
mod journals;
mod lost;
mod reader;
mod real;
mod report;
mod requests;
mod screen;
mod stage;
mod stories;
mod tell;
mod verify;
mod words;

use crate::args::CredentialArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::{complaint, credential, format, values};
use journals::Journals;
use real::Target;
use report::Row;
use screen::{Screen, Tone};
use stage::{Performance, Stage};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use stories::Story;
use streamkeep::proto::model::Seq;
use streamkeep::store::StoreExt;
use streamkeep::{Cursor, Dialect, Error, ErrorKind, Result};
use verify::{Evidence, Findings, verify};

/// What the demo takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// No pauses between tokens: for tests, not for watching; --json implies it
    #[arg(long)]
    fast: bool,
    /// Keep the temporary store, and say where it is
    #[arg(long)]
    keep: bool,
    /// Break the answer of this server instead: its base URL, or its endpoint's
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// The server's dialect [default: by the URL's path]
    #[arg(long, value_name = "DIALECT", requires = "upstream", value_parser = values::dialect)]
    dialect: Option<Dialect>,
    /// The request body for the server, a JSON object [default: one of the demo's own]
    #[arg(long, value_name = "FILE", requires = "upstream")]
    request: Option<PathBuf>,
    /// After which byte of its first response the server is cut off
    #[arg(long, value_name = "BYTES", requires = "upstream", default_value_t = real::CUT_AT)]
    cut_at: u64,
    #[command(flatten)]
    credential: CredentialArgs,
    /// Be the process that the demo kills
    #[arg(long, hide = true)]
    child: bool,
}

/// Runs the demo, in a store of its own unless the command line names one.
///
/// The exit code is 0 when every story healed and 1 when one did not.
///
/// # Errors
///
/// What kept the demo from beginning, or from removing its store.
pub(crate) async fn run(context: &Context, args: Args) -> Result<ExitCode> {
    if args.child {
        return child::write().await.map(|()| ExitCode::SUCCESS);
    }
    let json = context.json;
    let target = args.target(context)?;
    let journals = Arc::new(match context.place.given()? {
        Some(folder) => {
            context.place.make_folder(&folder)?;
            Journals::in_folder(folder)
        }
        None => Journals::in_temporary_folder(args.keep)?,
    });
    let screen = Screen::stdout(!json);
    let mut stage = Stage::new(screen, Arc::clone(&journals), args.fast || json);
    let exit = tokio::select! {
        exit = perform(&mut stage, target.as_ref(), json) => exit,
        exit = stopped() => Ok(exit.into()),
    };
    journals.finish().await?;
    exit
}

impl Args {
    /// The real server, if one is named.
    fn target(&self, context: &Context) -> Result<Option<Target>> {
        let Some(url) = &self.upstream else {
            return Ok(None);
        };
        let body = self.request.as_ref().map(|file| {
            std::fs::read_to_string(file).map_err(|error| {
                let message = format!(
                    "expected a request in {}, but could not read it",
                    file.display()
                );
                Error::new(ErrorKind::InvalidRequest, message).with_source(error)
            })
        });
        let mut target = Target::new(url, self.dialect, body.transpose()?, self.cut_at)?;
        let (dialect, url) = (target.dialect(), target.url());
        target.credential = credential::find(&self.credential, dialect, url, &context.talk)?;
        Ok(Some(target))
    }
}

/// Plays every story, and judges them.
async fn perform(stage: &mut Stage, target: Option<&Target>, json: bool) -> Result<ExitCode> {
    // A store that cannot be opened is no story's fault.
    stage.journals.client(None).await?;
    let rows = match target {
        None => perform_all(stage).await,
        Some(target) => vec![perform_real(stage, target).await],
    };
    let healed = report::show(&mut stage.screen, &rows, json);
    if !stage.journals.are_temporary() {
        let folder = stage.journals.folder().display().to_string();
        stage.screen.say(
            Tone::Quiet,
            "",
            &format!("The journals are kept in {folder}"),
        );
    }
    Ok(if healed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn perform_all(stage: &mut Stage) -> Vec<Row> {
    let folder = stage.journals.folder().display().to_string();
    stage.screen.say(Tone::Title, "", "streamkeep demo");
    stage.screen.say(
        Tone::Plain,
        "",
        &format!(
            "{} answers are broken on purpose, by a provider on 127.0.0.1: no key, no network. \
             Journals: sled, in {folder}.",
            Story::ALL.len()
        ),
    );
    stage.screen.say(
        Tone::Quiet,
        "",
        "Marks: . note, > request, x failure, ! interruption, = end, * what the demo does.",
    );
    let mut rows = Vec::with_capacity(Story::ALL.len());
    for (number, story) in (1_usize..).zip(Story::ALL.iter().copied()) {
        let title = format!("{number}. {} ({})", story.name(), story.dialect());
        stage.screen.gap();
        stage.screen.say(Tone::Title, "", &title);
        stage.screen.say(Tone::Plain, "   ", story.plot());
        let played = Box::pin(story.play(stage)).await;
        rows.push(row(stage, story.name(), story.dialect(), played).await);
    }
    rows
}

async fn perform_real(stage: &mut Stage, target: &Target) -> Row {
    stage.screen.say(
        Tone::Title,
        "",
        &format!("streamkeep demo, {}", target.dialect()),
    );
    let played = Box::pin(real::play(stage, target)).await;
    row(stage, "upstream", target.dialect(), played).await
}

/// The verdict on a story.
async fn row(
    stage: &mut Stage,
    story: &'static str,
    dialect: Dialect,
    played: Result<Performance>,
) -> Row {
    let (key, findings) = match played {
        Ok(performance) => (
            performance.handle.key().to_string(),
            judge(stage, performance).await,
        ),
        Err(error) => (String::new(), Err(error)),
    };
    let findings = findings.unwrap_or_else(|error| {
        let problem = complaint::chain(&error);
        stage.screen.say(Tone::Bad, "   x ", &problem);
        Findings {
            end: "not played".to_owned(),
            problems: vec![problem],
            ..Findings::default()
        }
    });
    Row {
        story,
        dialect,
        key,
        healed: findings.is_healed(),
        findings,
    }
}

/// Judges by the journal as it stands in the store once that was closed and opened
/// again.
async fn judge(stage: &mut Stage, performance: Performance) -> Result<Findings> {
    stage.journals.close().await;
    let client = stage.journals.client(None).await?;
    let handle = &performance.handle;
    let from = Cursor::new(handle.generation(), Seq::ZERO);
    let journal = client.store().read_all(handle.key(), from).await?;
    let mut findings = verify(&Evidence {
        journal,
        words: performance.words,
        readers: performance.readers,
        requests: performance.requests,
    });
    findings.problems.extend(performance.problems);
    let tone = if findings.is_healed() {
        Tone::Good
    } else {
        Tone::Bad
    };
    let text = format!(
        "checked: {}, {}, {}, {} lost",
        stage::count(findings.tokens, "token"),
        stage::count(findings.duplicates, "duplicate"),
        stage::count(findings.gaps, "gap"),
        format::millis(findings.time_lost_ms)
    );
    stage.screen.say(tone, "   = ", &text);
    Ok(findings)
}

/// Waits until somebody asks the process to stop.
async fn stopped() -> Exit {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                Ok(()) = tokio::signal::ctrl_c() => {}
            }
            return Exit::Cancelled;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
    Exit::Cancelled
}
