//! Log messages on stderr.

mod bounded;
mod fields;
mod format;

use std::{fmt, io};

use tracing::field::Field;
use tracing_subscriber::{
    EnvFilter,
    fmt::format::{Writer, debug_fn},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use self::{bounded::BoundedLines, fields::SpanFields, format::LineFormat};
use crate::{
    config::{LogFormat, LogSettings},
    exit::{CliError, Exit},
    output::{PrintableWriter, stderr_has_color},
};

/// Sends log messages to stderr. Commands other than servers log only warnings, and report the state of MCP servers in
/// their own output.
pub(crate) fn start(settings: &LogSettings, serves: bool) -> anyhow::Result<()> {
    let filter = if serves { &settings.filter } else { "warn,rmcp=off,redis=error" };
    let filter = EnvFilter::try_new(filter)
        .map_err(|err| CliError::with_exit(Exit::Usage, format!("log.filter is invalid: {err}")))?;
    let format = match settings.format {
        LogFormat::Json => LineFormat::Json,
        LogFormat::Text => LineFormat::Text,
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(format == LineFormat::Text && stderr_has_color())
        .event_format(BoundedLines::new(format))
        // The fields of spans are kept by name instead.
        .fmt_fields(debug_fn(|_: &mut Writer<'_>, _: &Field, _: &dyn fmt::Debug| Ok(())))
        .with_writer(|| PrintableWriter(io::stderr()));
    let subscriber = tracing_subscriber::registry().with(filter).with(SpanFields).with(lines);
    // An embedding program may have installed its own subscriber.
    let _ = subscriber.try_init();
    Ok(())
}
