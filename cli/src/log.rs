//! Log messages on stderr.

use std::{fmt, io};

use shared::printable;
use tracing::field::Field;
use tracing_subscriber::{
    EnvFilter,
    field::MakeExt as _,
    fmt::{
        FormatFields,
        format::{Writer, debug_fn},
    },
};

use crate::{
    config::{LogFormat, LogSettings},
    exit::{CliError, Exit},
    output::{PrintableWriter, stderr_has_color},
};

/// Sends log messages to stderr. Commands other than servers log only warnings, and report the state of MCP servers in
/// their own output.
pub(crate) fn start(settings: &LogSettings, serves: bool) -> anyhow::Result<()> {
    let filter = if serves { &settings.filter } else { "warn,rmcp=off" };
    let filter = EnvFilter::try_new(filter)
        .map_err(|err| CliError::with_exit(Exit::Usage, format!("log.filter is invalid: {err}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    let done = match settings.format {
        LogFormat::Json => {
            let writer = || PrintableWriter(io::stderr());
            builder.json().with_current_span(true).with_writer(writer).try_init()
        }
        LogFormat::Text => {
            let builder = builder.with_target(false).with_ansi(stderr_has_color());
            builder.fmt_fields(printable_fields()).with_writer(io::stderr).try_init()
        }
    };
    // An embedding program may have installed its own subscriber.
    let _ = done;
    Ok(())
}

/// Formats fields as tracing-subscriber does, but [`printable`]: it escapes control characters in few of them.
fn printable_fields() -> impl for<'a> FormatFields<'a> {
    debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| {
        let value = format!("{value:?}");
        match (field.name(), writer.has_ansi_escapes()) {
            ("message", _) => write!(writer, "{}", printable(&value)),
            (name, true) => write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{}", printable(&value)),
            (name, false) => write!(writer, "{name}={}", printable(&value)),
        }
    })
    .delimited(" ")
}
