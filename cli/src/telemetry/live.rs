//! Exports each turn when it ends in this process.
//!
//! ## Why the log is read again
//!
//! A step only puts the id of an ended turn into a channel, which never makes it wait. The same code as for `otel export` reads
//! the log afterwards. A turn that does not fit into the channel, or that no collector takes, is dropped with a warning; `otel
//! export` exports it later with the same ids.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use audit::otel::{Content, Span};
use store::{EndedTurn, Store, ThreadId, TurnId};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Collector, SPANS_MAX, Traces, peers};
use crate::config::Settings;

/// Maximum turns that wait for their export.
const WAITING_MAX: usize = 4_096;

/// Maximum turns that are exported together.
const TOGETHER_MAX: usize = 64;

/// Attempts to send a request, and the delay before the second; it doubles.
const ATTEMPTS: u32 = 4;
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// Maximum time for the last exports when the process stops.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// The task that exports turns.
pub(crate) struct LiveExport {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl LiveExport {
    /// Starts the export, if it is configured. Returns the store that reports turns to it.
    pub(crate) fn start(settings: &Settings, store: Store) -> anyhow::Result<(Store, Option<Self>)> {
        if settings.telemetry.otlp_endpoint.is_none() {
            return Ok((store, None));
        }
        let collector = Collector::new(&settings.telemetry, None, None)?;
        let (sender, ended) = mpsc::channel(WAITING_MAX);
        let store = store.reporting_ended_turns(sender);
        let content = if settings.telemetry.content { Content::Include } else { Content::Omit };
        let stop = CancellationToken::new();
        let exporter =
            Exporter { traces: Traces { store: store.clone(), content, peers: peers(settings) }, collector };
        let task = tokio::spawn(exporter.run(ended, stop.clone()));
        Ok((store, Some(Self { task, stop })))
    }

    /// Exports what waits, for at most five seconds.
    pub(crate) async fn finish(self) {
        self.stop.cancel();
        if timeout(STOP_LIMIT, self.task).await.is_err() {
            warn!("some turns were not exported; export them with: turnfold otel export");
        }
    }
}

struct Exporter {
    traces: Traces,
    collector: Collector,
}

impl Exporter {
    async fn run(self, mut ended: mpsc::Receiver<EndedTurn>, stop: CancellationToken) {
        let mut together = Vec::new();
        loop {
            // What waits is exported before the task stops.
            let count = tokio::select! {
                biased;
                count = ended.recv_many(&mut together, TOGETHER_MAX) => count,
                () = stop.cancelled() => 0,
            };
            if count == 0 {
                return;
            }
            let mut by_thread: BTreeMap<ThreadId, BTreeSet<TurnId>> = BTreeMap::new();
            for EndedTurn { thread, turn } in together.drain(..) {
                by_thread.entry(thread).or_default().insert(turn);
            }
            let mut spans = Vec::new();
            for (thread, turns) in by_thread {
                match self.traces.of(thread, &turns).await {
                    Ok(of_thread) => spans.extend(of_thread),
                    Err(error) => warn!(%thread, %error, "cannot read the log of a turn; it is not exported"),
                }
            }
            self.send(&spans).await;
        }
    }

    async fn send(&self, spans: &[Span]) {
        for spans in spans.chunks(SPANS_MAX) {
            let mut delay = FIRST_DELAY;
            for attempt in 1..=ATTEMPTS {
                match self.collector.send(spans).await {
                    Ok(0) => break,
                    Ok(rejected) => {
                        warn!(rejected, "the collector rejected spans");
                        break;
                    }
                    Err(error) if attempt == ATTEMPTS => {
                        warn!(%error, "cannot export turns; export them later with: turnfold otel export");
                    }
                    Err(_) => sleep(delay).await,
                }
                delay *= 2;
            }
        }
    }
}
