//! Whoever sits there is asked whether they mean it.

use std::io::{IsTerminal as _, Write as _};

use crate::{
    exit::{Exit, Stop},
    output,
};

/// Somebody must sit there to be asked; else it is told what to do instead.
pub(crate) fn somebody(instead: &str) -> anyhow::Result<()> {
    if std::io::stdin().is_terminal() && output::watched() {
        return Ok(());
    }
    let words = format!("nobody can be asked whether that is meant: {instead}");
    Err(Stop::because(Exit::Usage, words))
}

/// Whether whoever sits there means it. Who cannot be asked is told what it would have been about.
pub(crate) fn agreed(what: &str, instead: &str) -> anyhow::Result<bool> {
    somebody(instead).map_err(|err| Stop::because(Exit::Usage, format!("{what} {err}")))?;
    let mut err = std::io::stderr().lock();
    write!(err, "{what} [y/N] ")?;
    err.flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(["y", "yes"].contains(&line.trim().to_lowercase().as_str()))
}
