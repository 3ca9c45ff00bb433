//! At most twenty lines of one message in ten seconds, so that an outage of Redis or of the database fills no disk.
//!
//! The lines beyond are counted. The next line of any message comes after one with their number.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::json;
use tracing::{Event, Level, Subscriber, callsite::Identifier};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use super::{
    fields::Fields,
    format::{LineFormat, MESSAGE},
};

/// Maximum lines of one message in an interval.
const LINES: u64 = 20;

const INTERVAL: Duration = Duration::from_secs(10);

/// Modules whose messages repeat for every thread, job or connection while a server is away. Messages about turns are never left out.
const BOUNDED: [&str; 6] = ["redis", "queue", "worker", "store", "sqlx", "api"];

/// A format of lines that leaves lines out when one message floods.
pub(super) struct BoundedLines {
    format: LineFormat,
    floods: Mutex<HashMap<Identifier, Flood>>,
}

/// Lines of one message in an interval.
struct Flood {
    began: Instant,
    lines: u64,
    level: Level,
    target: String,
    message: String,
}

impl BoundedLines {
    pub(super) fn new(format: LineFormat) -> Self {
        Self { format, floods: Mutex::default() }
    }

    /// Counts a line. Returns true if it is written.
    fn admits(&self, event: &Event<'_>, fields: &Fields, now: Instant) -> bool {
        let metadata = event.metadata();
        let module = metadata.target().split("::").next().unwrap_or_default();
        if *metadata.level() > Level::WARN || !BOUNDED.contains(&module) {
            return true;
        }
        let mut floods = self.floods.lock().unwrap_or_else(PoisonError::into_inner);
        let flood = floods.entry(metadata.callsite()).or_insert_with(|| Flood {
            began: now,
            lines: 0,
            level: *metadata.level(),
            target: metadata.target().to_owned(),
            message: fields.text(MESSAGE),
        });
        flood.lines += 1;
        flood.lines <= LINES
    }

    /// Removes the intervals that are over. Returns those with lines that were left out.
    fn over(&self, now: Instant) -> Vec<Flood> {
        let mut floods = self.floods.lock().unwrap_or_else(PoisonError::into_inner);
        let over = floods.extract_if(|_, flood| flood.began + INTERVAL <= now);
        over.map(|(_, flood)| flood).filter(|flood| LINES < flood.lines).collect()
    }
}

impl<S, N> FormatEvent<S, N> for BoundedLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (now, fields) = (Instant::now(), Fields::of(context, event));
        for flood in self.over(now) {
            let message = format!("more lines were left out: {}", flood.message);
            let left_out = Fields(vec![(MESSAGE, json!(message)), ("lines", json!(flood.lines - LINES))]);
            self.format.write(&mut writer, flood.level, &flood.target, left_out)?;
        }
        if !self.admits(event, &fields, now) {
            return Ok(());
        }
        let metadata = event.metadata();
        self.format.write(&mut writer, *metadata.level(), metadata.target(), fields)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::{super::format::tests::Lines, *};

    /// Returns the lines that are written while a message is sent many times, once in each of its modules.
    fn lines(target: fn(usize)) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .event_format(BoundedLines::new(LineFormat::Text))
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            (0..1_000).for_each(target);
        });
        lines.text().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_flood_of_one_message_is_cut_off_and_those_about_turns_are_not() {
        assert_eq!(lines(|nth| tracing::warn!(target: "redis::aio", nth, "reconnecting")).len(), 20);
        assert_eq!(
            lines(|nth| tracing::warn!(target: "worker::executor", nth, "cannot acknowledge job")).len(),
            20
        );
        assert_eq!(lines(|nth| tracing::info!(target: "worker::executor", nth, "job done")).len(), 1_000);
        assert_eq!(lines(|nth| tracing::warn!(target: "threads::announce", nth, "turn failed")).len(), 1_000);
    }

    /// Returns the description of the message that is sent.
    fn seen(send: fn()) -> &'static tracing::Metadata<'static> {
        #[derive(Clone, Default)]
        struct Seen(Arc<Mutex<Option<&'static tracing::Metadata<'static>>>>);
        impl<S: Subscriber> tracing_subscriber::Layer<S> for Seen {
            fn on_event(&self, event: &Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
                *self.0.lock().unwrap() = Some(event.metadata());
            }
        }
        let seen = Seen::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(seen.clone()), send);
        let metadata = *seen.0.lock().unwrap();
        metadata.unwrap()
    }

    #[test]
    fn what_was_left_out_is_counted_when_the_interval_is_over() {
        let bounds = BoundedLines::new(LineFormat::Text);
        let began = Instant::now();
        let flood = |lines| Flood {
            began,
            lines,
            level: Level::WARN,
            target: "redis".to_owned(),
            message: "reconnecting".to_owned(),
        };
        let many = tracing::Metadata::callsite(seen(|| tracing::warn!("many")));
        let few = tracing::Metadata::callsite(seen(|| tracing::warn!("few")));
        bounds.floods.lock().unwrap().extend([(many, flood(4_736)), (few, flood(LINES))]);
        assert!(bounds.over(began + INTERVAL / 2).is_empty());
        let over = bounds.over(began + INTERVAL);
        assert_eq!(over.iter().map(|flood| flood.lines).collect::<Vec<_>>(), [4_736]);
        assert!(bounds.floods.lock().unwrap().is_empty());
    }
}
