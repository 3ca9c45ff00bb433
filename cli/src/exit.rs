//! Exit codes and the errors that carry them.

use std::process::ExitCode;

/// Outcome of a command, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Ok = 0,
    /// A check found a difference, the request was refused, or the awaited turn failed.
    Finding = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// The awaited turn asks a person a question.
    Waiting = 3,
    /// The API or another server cannot be reached.
    Unreachable = 4,
    /// Part of the work failed or was not done, or the awaited turn ended with the outcome `partial`.
    Partial = 5,
    /// Not checked: the log cannot be read by this version, or nothing matched.
    Unchecked = 6,
    /// No such thread, turn, batch or webhook.
    NotFound = 7,
    /// The API key is missing, wrong or not allowed to do this.
    Unauthorized = 8,
    /// The database or Redis is missing, out of date or cannot be reached.
    Database = 9,
    /// The awaited turn ended with the outcome `declined`.
    Declined = 10,
    /// Interrupted by Ctrl-C or SIGTERM.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// An error with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    /// Cause, followed by a line `hint: …` if there is a remedy.
    pub(crate) message: String,
    /// HTTP status, if the error is a response of the API.
    pub(crate) status: Option<u16>,
}

impl CliError {
    pub(crate) fn with_exit(exit: Exit, message: impl Into<String>) -> anyhow::Error {
        Self { exit, message: message.into(), status: None }.into()
    }

    /// Creates the error for an error response of the API.
    pub(crate) fn from_response(status: u16, exit: Exit, message: String) -> anyhow::Error {
        Self { exit, message, status: Some(status) }.into()
    }
}

/// Prints an error on stderr and returns its exit code.
#[expect(clippy::print_stderr, reason = "errors go to stderr")]
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let messages: Vec<String> = error.chain().map(ToString::to_string).collect();
    let mut distinct: Vec<&str> = Vec::new();
    for message in &messages {
        // Many errors already end with the text of their cause.
        if !distinct.iter().any(|text| text.contains(message.as_str())) {
            distinct.push(message);
        }
    }
    eprintln!("error: {}", shared::printable(&distinct.join(": ")));
    exit_code(error).into()
}

/// Returns the exit code of an error: the one it carries, else the one of its kind.
fn exit_code(error: &anyhow::Error) -> Exit {
    if let Some(error) = error.downcast_ref::<CliError>() {
        return error.exit;
    }
    if error.downcast_ref::<crate::config::ConfigError>().is_some()
        || error.downcast_ref::<crate::config::SecretError>().is_some()
    {
        return Exit::Usage;
    }
    if error.downcast_ref::<queue::QueueError>().is_some() {
        return Exit::Database;
    }
    match error.downcast_ref::<store::Error>() {
        Some(error) => of_store(error),
        None if error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect) => {
            Exit::Unreachable
        }
        None => Exit::Finding,
    }
}

/// Returns the exit code of an error of the store.
pub(crate) fn of_store(error: &store::Error) -> Exit {
    use store::Error;
    match error {
        Error::UnknownThread(_) | Error::UnknownTurn(_) => Exit::NotFound,
        Error::Address(_) | Error::SearchOff => Exit::Usage,
        // For example, the file is not a database. Nothing was read, so it is not a finding.
        Error::Unavailable(_)
        | Error::NotMigrated { .. }
        | Error::ContentRejected(_)
        | Error::Unsupported(_)
        | Error::Database(_)
        | Error::IndexUnavailable(_)
        | Error::IndexRefused(_)
        | Error::SearchBehind { .. } => Exit::Database,
        Error::TooNew { .. } | Error::Unreadable { .. } => Exit::Unchecked,
        Error::Stale { .. }
        | Error::CancelRequested { .. }
        | Error::ThreadBusy(_)
        | Error::ThreadExists(_)
        | Error::KeyReused
        | Error::BatchLost(_)
        | Error::UnknownStrategy { .. }
        | Error::Stuck { .. }
        | Error::Corrupt { .. } => Exit::Finding,
    }
}
