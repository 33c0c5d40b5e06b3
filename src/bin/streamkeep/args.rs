//! The command line.

use crate::demo;
use crate::exit;
use crate::values::{self, Limit, Retry};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use streamkeep::client::ClientBuilder;
use streamkeep::proto::dialect::ContinuationForm;
use streamkeep::proto::operation::Hold;
use streamkeep::proto::timeouts::Timeouts;
use streamkeep::{Cursor, Dialect, Key};

/// Keeps LLM answers unbroken: every token once, in order, or the truth about
/// what is missing.
#[derive(Debug, Parser)]
#[command(name = "streamkeep", version, about, after_help = exit::help(), max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Folder of the journal store, or the URL of a Redis, without a password
    /// [default: $STREAMKEEP_STORE, else $STREAMKEEP_REDIS_URL, else .streamkeep/store]
    #[arg(long, global = true, value_name = "DIR|URL")]
    pub(crate) store: Option<PathBuf>,
    /// Print JSON, one object per line, instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing on stderr but errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Break six answers on purpose, and watch them arrive whole
    Demo(Box<demo::Args>),
    /// Send a request, stream the answer to stdout, keep it in the store
    Send(Box<SendArgs>),
    /// List the answers in the store
    List,
    /// Show the attempts, the state and the cost of one answer
    Show(ShowArgs),
    /// Print an answer from the start or after a cursor, live while it runs
    Follow(FollowArgs),
    /// Go on with an interrupted answer through the provider's own cursor
    Resume(ResumeArgs),
    /// Ask the model to go on from the partial answer: a new, billed request
    Continue(ContinueArgs),
    /// Ask for a new answer under the same key; the old one is kept
    Regenerate(RegenerateArgs),
    /// Stop a running answer, also one of another streamkeep process
    Cancel(CancelArgs),
    /// Remove journals that are past their time
    Gc,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The request body, a JSON object; `-` or nothing is stdin
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    /// The whole URL of the provider's endpoint
    #[arg(long)]
    pub(crate) url: String,
    /// The provider's event vocabulary [default: by the URL's path]
    #[arg(long, value_name = "DIALECT", value_parser = values::dialect)]
    pub(crate) dialect: Option<Dialect>,
    /// The idempotency key: the same key and request again replay the answer [default: a new one]
    #[arg(long)]
    pub(crate) key: Option<Key>,
    /// A header to send, never a secret; may be repeated
    // Read later, by hand: the parser would quote a secret in the wrong place.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// When the answer is first shown: none, until-complete, TOKENS or TOKENS/MS
    #[arg(long, default_value = "none", value_parser = values::hold)]
    pub(crate) hold: Hold,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) credential: CredentialArgs,
}

/// How long to wait, and how often to try.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LimitArgs {
    /// How often to retry before any output
    #[arg(long, value_enum, default_value = "interactive")]
    pub(crate) retry: Retry,
    /// Clocks for models that are silent for minutes
    #[arg(long)]
    pub(crate) reasoning: bool,
    /// Limit to the first output, or off [default: 60s; 10m with --reasoning]
    #[arg(long, value_name = "TIME", value_parser = values::limit)]
    pub(crate) first_token: Option<Limit>,
    /// Limit without a single byte, or off [default: 60s; 3m with --reasoning]
    #[arg(long, value_name = "TIME", value_parser = values::limit)]
    pub(crate) idle: Option<Limit>,
    /// Limit without output, or off [default: 3m; 15m with --reasoning]
    #[arg(long, value_name = "TIME", value_parser = values::limit)]
    pub(crate) progress: Option<Limit>,
    /// Limit for everything, retries included, or off [default: off]
    #[arg(long, value_name = "TIME", value_parser = values::limit)]
    pub(crate) deadline: Option<Limit>,
}

impl LimitArgs {
    /// The limits as those of a client's every call.
    pub(crate) fn apply(self, client: ClientBuilder) -> ClientBuilder {
        let preset = if self.reasoning {
            Timeouts::REASONING
        } else {
            Timeouts::CHAT
        };
        client.retry(self.retry.policy()).timeouts(Timeouts {
            first_token: self.first_token.map_or(preset.first_token, |limit| limit.0),
            idle: self.idle.map_or(preset.idle, |limit| limit.0),
            progress: self.progress.map_or(preset.progress, |limit| limit.0),
            overall: self.deadline.map_or(preset.overall, |limit| limit.0),
            ..preset
        })
    }
}

/// Where the secret comes from. Never the secret itself.
#[derive(Clone, Debug, Args)]
pub(crate) struct CredentialArgs {
    /// Environment variable that holds the API key [default: OPENAI_API_KEY or ANTHROPIC_API_KEY,
    /// by dialect, if it is set]
    #[arg(long, value_name = "NAME")]
    pub(crate) credential_env: Option<String>,
    /// Header the key is sent in [default: `authorization: Bearer` or `x-api-key`, by dialect]
    #[arg(long, value_name = "HEADER", requires = "credential_env")]
    pub(crate) credential_header: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    pub(crate) key: Key,
    /// An older answer of this key
    #[arg(long, value_name = "NUMBER")]
    pub(crate) generation: Option<u32>,
    /// Also print the request body: it holds the prompt
    #[arg(long)]
    pub(crate) prompt: bool,
    /// What tokens cost, a TOML or JSON file as examples/prices.toml
    /// [default: $STREAMKEEP_PRICES, else only tokens are told]
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct FollowArgs {
    pub(crate) key: Key,
    /// Print only what comes after this cursor, such as 1-42
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<Cursor>,
    /// With --json: keep the request body in the first record; it holds the prompt
    #[arg(long)]
    pub(crate) prompt: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    pub(crate) key: Key,
    /// Print the answer from its beginning, not only what is new
    #[arg(long)]
    pub(crate) whole: bool,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) credential: CredentialArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ContinueArgs {
    pub(crate) key: Key,
    /// How the model is asked to go on [default: by the model's name]
    #[arg(long, value_enum)]
    pub(crate) form: Option<Form>,
    /// Print the answer from its beginning, not only what is new
    #[arg(long)]
    pub(crate) whole: bool,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) credential: CredentialArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Form {
    /// The partial answer as the assistant's last turn
    Prefill,
    /// The partial answer quoted in a user message
    User,
}

impl From<Form> for ContinuationForm {
    fn from(form: Form) -> Self {
        match form {
            Form::Prefill => Self::Prefill,
            Form::User => Self::UserMessage,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RegenerateArgs {
    pub(crate) key: Key,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) credential: CredentialArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    pub(crate) key: Key,
    #[command(flatten)]
    pub(crate) credential: CredentialArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_flag_takes_a_secret() {
        for command in Cli::command().get_subcommands() {
            for flag in command.get_arguments().filter_map(|arg| arg.get_long()) {
                let is_secret = [
                    "api-key",
                    "apikey",
                    "token",
                    "secret",
                    "password",
                    "credential",
                ]
                .contains(&flag);
                assert!(!is_secret, "{} --{flag}", command.get_name());
            }
        }
    }
}
