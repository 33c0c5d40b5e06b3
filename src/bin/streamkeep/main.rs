//! `streamkeep`: sends requests to LLM providers, and keeps the answers.
//!
//! stdout is data, stderr is talk, and everything that is told about an answer
//! comes from the records of its journal.

mod args;
mod cancel;
mod complaint;
mod context;
mod control;
mod credential;
mod demo;
mod exit;
mod feed;
mod follow;
mod format;
mod gc;
mod hints;
mod line;
mod list;
mod out;
mod prices;
mod progress;
mod recover;
mod remote;
mod report;
mod send;
mod session;
mod show;
mod signals;
mod spent;
mod store;
mod table;
mod talk;
mod teller;
mod values;
mod verdict;

use args::{Cli, Command};
use clap::Parser;
use context::Context;
use exit::Exit;
use out::Out;
use recover::Way;
use std::process::ExitCode;
use streamkeep::{Error, ErrorKind, Result};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let Cli { common, command } = Cli::parse();
    let context = Context::new(common);
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            context.talk.must_say(complaint::block(&error));
            return Exit::of_kind(error.kind()).into();
        }
    };
    let code = runtime.block_on(async {
        // On the heap: the futures of the commands are large.
        match Box::pin(dispatch(&context, command)).await {
            Ok(code) => code,
            Err(error) => {
                context.talk.must_say(complaint::block(&error));
                if context.json {
                    Out::new(&context.talk)
                        .json(&complaint::Line::new(&error))
                        .await;
                }
                Exit::of_kind(error.kind()).into()
            }
        }
    });
    // A write to a pipe that nobody reads must not hold the process.
    runtime.shutdown_background();
    code
}

async fn dispatch(context: &Context, command: Command) -> Result<ExitCode> {
    let exit = match command {
        // It tells its stories by itself, and has codes of its own.
        Command::Demo(args) => return demo::run(context, *args).await,
        Command::Send(args) => send::run(context, *args).await?,
        Command::List => list::run(context).await?,
        Command::Show(args) => show::run(context, args).await?,
        Command::Follow(args) => follow::run(context, args).await?,
        Command::Resume(args) => {
            let way = Way::Resume;
            recover::run(
                context,
                way,
                &args.key,
                args.whole,
                args.limits,
                &args.credential,
            )
            .await?
        }
        Command::Continue(args) => {
            let way = Way::Continue(args.form.map(Into::into));
            recover::run(
                context,
                way,
                &args.key,
                args.whole,
                args.limits,
                &args.credential,
            )
            .await?
        }
        Command::Regenerate(args) => {
            let way = Way::Regenerate;
            recover::run(
                context,
                way,
                &args.key,
                false,
                args.limits,
                &args.credential,
            )
            .await?
        }
        Command::Cancel(args) => cancel::run(context, args).await?,
        Command::Gc => gc::run(context).await?,
    };
    Ok(exit.into())
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    start_log()?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // One may be in a slow write to stderr; the answer goes on in the others.
        .worker_threads(
            std::thread::available_parallelism()
                .map_or(2, usize::from)
                .clamp(2, 4),
        )
        .build()
        .map_err(|error| {
            Error::new(
                ErrorKind::Internal,
                "expected to start a runtime, but could not",
            )
            .with_source(error)
        })
}

/// Logs to stderr, if `STREAMKEEP_LOG` or else `RUST_LOG` says what.
fn start_log() -> Result<()> {
    for variable in ["STREAMKEEP_LOG", "RUST_LOG"] {
        let Some(filter) = std::env::var(variable)
            .ok()
            .filter(|filter| !filter.is_empty())
        else {
            continue;
        };
        let filter = EnvFilter::try_new(filter).map_err(|error| {
            Error::new(ErrorKind::Config, format!("expected a log filter such as streamkeep=debug in {variable}, but found another"))
                .with_source(error)
        })?;
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .init();
        return Ok(());
    }
    Ok(())
}
