//! The scripts, and what is sent to a server.
//!
//! Each change is one script, so it is there whole or not at all, and each can be
//! sent again when its answer was lost: it knows its own call by the number that
//! was given to it. A page is read by a script too: where a slot is being moved, a
//! script waits until all of a journal's keys are on one side.

use redis::{Arg, Cmd, cmd};
use std::sync::LazyLock;

/// A script by its hash; its text goes along only to a server that does not know it.
#[derive(Debug)]
pub(super) struct Script {
    hash: String,
    text: &'static str,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self {
            hash: redis::Script::new(text).get_hash().to_owned(),
            text,
        }
    }
}

macro_rules! scripts {
    ($($name:ident: $($part:literal),+;)*) => {
        $(pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!($(include_str!($part)),+)));)*
    };
}

scripts! {
    OPEN: "lua/open.lua";
    READ: "lua/read.lua";
    CLAIM: "lua/common.lua", "lua/claim.lua";
    APPEND: "lua/append.lua";
    COMMIT: "lua/common.lua", "lua/commit.lua";
    RENEW: "lua/common.lua", "lua/renew.lua";
    RELEASE: "lua/common.lua", "lua/release.lua";
    DELETE: "lua/common.lua", "lua/delete.lua";
    COLLECT: "lua/common.lua", "lua/collect.lua";
}

/// What is sent at once to one server. Can be sent again.
#[derive(Debug)]
pub(super) struct Request {
    /// What the keys hash to in a cluster.
    pub(super) slot: u16,
    commands: Vec<Cmd>,
    script: Option<&'static Script>,
    /// All of them at one moment.
    pub(super) is_transaction: bool,
}

impl Request {
    /// A script with its keys.
    pub(super) fn script(slot: u16, script: &'static LazyLock<Script>, keys: &[String]) -> Self {
        let mut command = cmd("EVALSHA");
        command.arg(script.hash.as_str()).arg(keys.len());
        for key in keys {
            command.arg(key.as_str());
        }
        Self {
            slot,
            commands: vec![command],
            script: Some(script),
            is_transaction: false,
        }
    }

    /// And one argument more.
    pub(super) fn with(mut self, argument: impl redis::ToSingleRedisArg) -> Self {
        if let Some(command) = self.commands.last_mut() {
            command.arg(argument);
        }
        self
    }

    /// One call of a script for each of these; all for one slot.
    pub(super) fn all(slot: u16, requests: Vec<Self>) -> Self {
        let script = requests.first().and_then(|request| request.script);
        let commands = requests.into_iter().flat_map(|request| request.commands);
        Self {
            slot,
            commands: commands.collect(),
            script,
            is_transaction: false,
        }
    }

    /// Commands, each answered for itself. Nothing is atomic about them.
    pub(super) fn commands(slot: u16, commands: Vec<Cmd>) -> Self {
        Self {
            slot,
            commands,
            script: None,
            is_transaction: false,
        }
    }

    /// Commands that are carried out at one moment. Not for a cluster, where a
    /// transaction cannot follow a slot that is being moved.
    pub(super) fn transaction(slot: u16, commands: Vec<Cmd>) -> Self {
        Self {
            is_transaction: true,
            ..Self::commands(slot, commands)
        }
    }

    /// What is sent: with the script's text for a server that does not know it, and
    /// with leave to answer for a slot that is being moved to it.
    pub(super) fn to_send(&self, with_text: bool, asking: bool) -> redis::Pipeline {
        let mut pipeline = redis::Pipeline::with_capacity(self.commands.len().saturating_mul(2));
        if self.is_transaction {
            pipeline.add_command(cmd("MULTI"));
        }
        for command in &self.commands {
            if asking {
                pipeline.add_command(cmd("ASKING"));
            }
            match self.script.filter(|_| with_text) {
                Some(script) => pipeline.add_command(in_full(command, script)),
                None => pipeline.add_command(command.clone()),
            };
        }
        if self.is_transaction {
            pipeline.add_command(cmd("EXEC"));
        }
        pipeline
    }

    /// The command, if there is but one.
    pub(super) fn only(&self) -> Option<&Cmd> {
        match self.commands.as_slice() {
            [command] if !self.is_transaction => Some(command),
            _ => None,
        }
    }

    /// How many answers there will be.
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }
}

/// The same call with the script's text in place of its hash.
fn in_full(command: &Cmd, script: &Script) -> Cmd {
    let mut full = cmd("EVAL");
    full.arg(script.text);
    for argument in command.args_iter().skip(2) {
        if let Arg::Simple(bytes) = argument {
            full.arg(bytes);
        }
    }
    full
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_know_a_script_is_sent_its_text_with_the_same_arguments() {
        let request = Request::script(7, &RELEASE, &["k".to_owned()])
            .with(1)
            .with(&b"\xff\0"[..]);
        let known = request.to_send(false, false).get_packed_pipeline();
        let full = request.to_send(true, true).get_packed_pipeline();
        let arguments = b"$1\r\n1\r\n$1\r\nk\r\n$1\r\n1\r\n$2\r\n\xff\0\r\n";
        assert!(known.starts_with(b"*6\r\n$7\r\nEVALSHA\r\n$40\r\n"));
        assert!(known.ends_with(arguments));
        assert!(full.starts_with(b"*1\r\n$6\r\nASKING\r\n*6\r\n$4\r\nEVAL\r\n"));
        assert!(full.ends_with(arguments));
        assert_eq!(request.len(), 1);
    }
}
