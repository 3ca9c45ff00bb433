//! What a command's end says to the script that called it.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// As asked.
    Ok = 0,
    /// With a finding: diverged, tampered, refused; or what was waited for has failed.
    Finding = 1,
    /// The command line or the configuration makes no sense.
    Usage = 2,
    /// What was waited for asks a person.
    Waiting = 3,
    /// The store, the queue or the api cannot be reached, or not used.
    Unreachable = 4,
    /// Some of it failed.
    Partial = 5,
    /// Not checked: this version cannot read what is stored, or there was nothing to check.
    Unchecked = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// An error that knows its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Stop {
    pub(crate) exit: Exit,
    pub(crate) words: String,
    /// The status of the api's answer, if that is what it was.
    pub(crate) status: Option<u16>,
}

impl Stop {
    pub(crate) fn because(exit: Exit, words: impl Into<String>) -> anyhow::Error {
        Self { exit, words: words.into(), status: None }.into()
    }

    /// Because the api answered so.
    pub(crate) fn answered(status: u16, exit: Exit, words: String) -> anyhow::Error {
        Self { exit, words, status: Some(status) }.into()
    }
}

/// Tells the error, and which exit it is.
#[expect(clippy::print_stderr, reason = "this is where errors are told")]
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let words: Vec<String> = error.chain().map(ToString::to_string).collect();
    let mut said: Vec<&str> = Vec::new();
    for word in &words {
        // Many errors end with their cause's words already.
        if !said.iter().any(|it| it.contains(word.as_str())) {
            said.push(word);
        }
    }
    eprintln!("error: {}", said.join(": "));
    exit_of(error).into()
}

fn exit_of(error: &anyhow::Error) -> Exit {
    use store::Error;
    if let Some(stop) = error.downcast_ref::<Stop>() {
        return stop.exit;
    }
    if error.downcast_ref::<crate::config::ConfigError>().is_some()
        || error.downcast_ref::<crate::config::SecretError>().is_some()
    {
        return Exit::Usage;
    }
    if error.downcast_ref::<store::QueueError>().is_some() {
        return Exit::Unreachable;
    }
    match error.downcast_ref::<Error>() {
        // Nothing is changed by trying again: something else must be said, or configured.
        Some(Error::UnknownThread(_) | Error::UnknownTurn(_) | Error::Address(_)) => Exit::Usage,
        Some(
            Error::Unavailable(_)
            | Error::NotMigrated { .. }
            // Of a file that is no database, for one: nothing was looked at that could be a finding.
            | Error::Database(_)
            | Error::IndexUnavailable(_)
            | Error::IndexRefused(_),
        ) => Exit::Unreachable,
        Some(Error::TooNew { .. } | Error::Unreadable { .. }) => Exit::Unchecked,
        Some(_) => Exit::Finding,
        None if error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect) => {
            Exit::Unreachable
        }
        None => Exit::Finding,
    }
}
