//! Commands to type next.

use crate::args::CredentialArgs;
use crate::format::shell;
use std::path::PathBuf;
use streamkeep::Key;
use streamkeep::proto::journal::RecoveryOption;

/// Makes the exact command that follows from the one that was typed: with the
/// same store and the same credential.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    store: Option<PathBuf>,
    credential: Vec<String>,
}

impl Hints {
    pub(crate) fn new(store: Option<PathBuf>) -> Self {
        Self {
            store,
            credential: Vec::new(),
        }
    }

    /// The same, with the flags that named the credential.
    pub(crate) fn with_credential(mut self, args: &CredentialArgs) -> Self {
        if let Some(name) = &args.credential_env {
            self.credential
                .extend(["--credential-env".to_owned(), shell(name)]);
        }
        if let Some(header) = &args.credential_header {
            self.credential
                .extend(["--credential-header".to_owned(), shell(header)]);
        }
        self
    }

    /// A command that only reads.
    pub(crate) fn read(&self, verb: &str, key: &Key) -> String {
        self.command(verb, key, &[])
    }

    /// A command that sends something.
    pub(crate) fn write(&self, verb: &str, key: &Key) -> String {
        self.command(verb, key, &self.credential)
    }

    /// The commands for what can be done about an interruption.
    pub(crate) fn options(&self, options: &[RecoveryOption], key: &Key) -> Vec<String> {
        options
            .iter()
            .map(|option| self.write(option.as_str(), key))
            .collect()
    }

    fn command(&self, verb: &str, key: &Key, flags: &[String]) -> String {
        let mut words = vec!["streamkeep".to_owned(), verb.to_owned()];
        if let Some(store) = &self.store {
            words.extend(["--store".to_owned(), shell(&store.to_string_lossy())]);
        }
        words.extend_from_slice(flags);
        if key.as_str().starts_with('-') {
            words.push("--".to_owned());
        }
        words.push(shell(key.as_str()));
        words.join(" ")
    }
}

/// What an option of an interruption means, in a few words.
pub(crate) fn meaning(option: RecoveryOption) -> &'static str {
    match option {
        RecoveryOption::Resume => "through the provider's cursor; nothing is generated twice",
        RecoveryOption::Continue => "asks the model to go on; a new, billed request",
        RecoveryOption::Regenerate => "asks for a new answer, billed in full; this one is kept",
        _ => "see the documentation",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_as_it_is() {
        let credential = CredentialArgs {
            credential_env: Some("MY_KEY".to_owned()),
            credential_header: None,
        };
        let hints = Hints::new(Some(PathBuf::from("my store"))).with_credential(&credential);
        let key = |key: &str| Key::new(key).unwrap();
        assert_eq!(
            hints.read("show", &key("k1")),
            "streamkeep show --store 'my store' k1"
        );
        assert_eq!(
            hints.write("resume", &key("a$b")),
            "streamkeep resume --store 'my store' --credential-env MY_KEY 'a$b'"
        );
        assert_eq!(
            Hints::default().read("show", &key("-k")),
            "streamkeep show -- -k"
        );
    }
}
