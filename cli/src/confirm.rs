//! Confirmation of a destructive or expensive action.

use std::io::{IsTerminal as _, Write as _};

use crate::{
    exit::{CliError, Exit},
    output,
};

/// Returns a usage error with `hint` unless stdin and stderr are a terminal, on which a question can be asked.
pub(crate) fn require_terminal(hint: &str) -> anyhow::Result<()> {
    if std::io::stdin().is_terminal() && output::stderr_is_terminal() {
        return Ok(());
    }
    let message = format!("cannot ask for confirmation: not a terminal\nhint: {hint}");
    Err(CliError::with_exit(Exit::Usage, message))
}

/// Asks a yes-or-no question; anything but `y` or `yes` is no.
///
/// # Errors
///
/// A usage error with the question and `hint` if there is no terminal.
pub(crate) fn ask(question: &str, hint: &str) -> anyhow::Result<bool> {
    require_terminal(hint).map_err(|err| CliError::with_exit(Exit::Usage, format!("{question} {err}")))?;
    let mut err = std::io::stderr().lock();
    write!(err, "{} [y/N] ", shared::printable(question))?;
    err.flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(["y", "yes"].contains(&line.trim().to_lowercase().as_str()))
}
