//! The line of a log message: time, level, message, and each field once. Fields of the message come first, then those of its
//! spans, from the inside out.

use std::fmt;

use serde_json::{Map, Value, json};
use shared::printable;
use tracing::Level;
use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime as _, SystemTime},
};

use super::fields::Fields;

/// Name of the field that holds the message itself.
pub(super) const MESSAGE: &str = "message";

/// Format of log messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl LineFormat {
    /// Writes one line, with the current time.
    pub(super) fn write(
        self,
        writer: &mut Writer<'_>,
        level: Level,
        target: &str,
        fields: Fields,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        match self {
            Self::Text => text(writer, &time, level, &fields),
            Self::Json => json(writer, &time, level, target, fields),
        }
    }
}

/// Writes a message for people. A text that could be mistaken for several fields is quoted.
fn text(writer: &mut Writer<'_>, time: &str, level: Level, fields: &Fields) -> fmt::Result {
    let has_color = writer.has_ansi_escapes();
    let (dim, italic, end) = if has_color { ("\x1b[2m", "\x1b[3m", "\x1b[0m") } else { ("", "", "") };
    let color = match level {
        _ if !has_color => "",
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        _ => "\x1b[34m",
    };
    write!(writer, "{dim}{time}{end} {color}{level:>5}{end}")?;
    if let Some((_, message)) = fields.0.iter().find(|(name, _)| *name == MESSAGE) {
        write!(writer, " {}", printable(&unquoted(message)))?;
    }
    for (name, value) in fields.0.iter().filter(|(name, _)| *name != MESSAGE) {
        write!(writer, " {italic}{name}{end}{dim}={end}{}", printable(&quoted(value)))?;
    }
    writeln!(writer)
}

fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn quoted(value: &Value) -> String {
    match value.as_str() {
        Some(text) if text.is_empty() || text.contains([' ', '"', '=', '\n']) => format!("{text:?}"),
        Some(_) | None => unquoted(value),
    }
}

/// Writes a message for programs.
fn json(writer: &mut Writer<'_>, time: &str, level: Level, target: &str, fields: Fields) -> fmt::Result {
    let mut line = Map::new();
    line.insert("timestamp".to_owned(), json!(time));
    line.insert("level".to_owned(), json!(level.as_str()));
    line.insert("target".to_owned(), json!(target));
    for (name, value) in fields.0 {
        // A field with the name of one of the three above keeps a name of its own.
        let name = if line.contains_key(name) { format!("field_{name}") } else { name.to_owned() };
        line.insert(name, value);
    }
    writeln!(writer, "{}", Value::Object(line))
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing::{field::Empty, info_span, warn};
    use tracing_subscriber::{Layer as _, layer::SubscriberExt as _};

    use super::{
        super::{bounded::BoundedLines, fields::SpanFields},
        *,
    };

    /// Collects what is written.
    #[derive(Clone, Default)]
    pub(in super::super) struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        pub(in super::super) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the line of one warning, without its time.
    fn line(format: LineFormat) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).event_format(BoundedLines::new(format));
        let layer = SpanFields.and_then(layer.with_writer(move || writer.clone()));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let outer = info_span!("job", thread = "t1", turn = Empty, node = Empty);
            let _in_outer = outer.enter();
            for (turn, node) in [("u1", "plan"), ("u1", "answer")] {
                outer.record("turn", turn);
                outer.record("node", node);
            }
            let inner = info_span!("step", node = "other");
            let _in_inner = inner.enter();
            warn!(turn = "u2", cause = "no answer\u{1b}[8m", seq = 7, "turn failed");
        });
        lines.text()
    }

    #[test]
    fn each_field_appears_once_with_its_innermost_value() {
        let text = line(LineFormat::Text);
        let (_, text) = text.split_once(' ').unwrap();
        let expected = " WARN turn failed turn=u2 cause=\"no answer\\u{1b}[8m\" seq=7 node=other thread=t1\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_line_of_json_is_one_flat_object() {
        let mut line: Value = serde_json::from_str(&line(LineFormat::Json)).unwrap();
        assert!(line["timestamp"].is_string() && line["target"].is_string(), "{line}");
        let fields = line.as_object_mut().unwrap();
        fields.retain(|name, _| name != "timestamp" && name != "target");
        let expected = json!({
            "level": "WARN", "message": "turn failed", "turn": "u2", "cause": "no answer\u{1b}[8m", "seq": 7,
            "node": "other", "thread": "t1",
        });
        assert_eq!(line, expected);
    }
}
