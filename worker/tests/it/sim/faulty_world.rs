//! A world that replays the answers of the fixtures with delays, loses answers, and records every write.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use shared::{DynThread, Event, Fault, Graph, Response, Safety, ToolOutput};
use store::ThreadId;
use world::{Outcome, RecordedWorld, RequestContext, World};

use super::{fault_source::FaultSource, process::Process};

/// The record of all writes.
#[derive(Default)]
pub(super) struct WriteRecords(Mutex<Records>);

#[derive(Default)]
struct Records {
    /// Results of each write, by idempotency key.
    done: BTreeMap<String, Vec<Write>>,
    in_flight: BTreeMap<ThreadId, Vec<Arc<Process>>>,
}

struct Write {
    result: String,
    safety: Safety,
}

impl WriteRecords {
    /// Returns true if a living process is performing a write. The call of a dead process has ended, whatever its
    /// result.
    pub(super) fn has_write_in_flight(&self, thread: ThreadId) -> bool {
        self.0
            .lock()
            .unwrap()
            .in_flight
            .get(&thread)
            .is_some_and(|calls| calls.iter().any(|process| process.is_alive()))
    }

    pub(super) fn result(&self, key: &str) -> Option<String> {
        self.0.lock().unwrap().done.get(key)?.first().map(|write| write.result.clone())
    }

    /// **Property:** no write that must not be repeated was repeated.
    pub(super) fn no_write_was_repeated(&self) -> Result<(), String> {
        for (key, writes) in &self.0.lock().unwrap().done {
            if writes.len() > 1 && writes.iter().any(|write| write.safety == Safety::Write) {
                return Err(format!("the write {key} happened {} times", writes.len()));
            }
        }
        Ok(())
    }
}

/// The world shared by all processes.
pub(super) struct FaultyWorld {
    source: FaultSource,
    records: Arc<WriteRecords>,
    threads: Mutex<BTreeMap<ThreadId, Arc<RecordedWorld>>>,
}

impl FaultyWorld {
    pub(super) fn new(source: FaultSource, records: Arc<WriteRecords>) -> Self {
        Self { source, records, threads: Mutex::default() }
    }

    /// Adds the answers for this thread.
    pub(super) fn add(&self, thread: ThreadId, graph: &'static dyn Graph, script: &[Event]) {
        let recorded = RecordedWorld::new(graph, script).unwrap();
        self.threads.lock().unwrap().insert(thread, Arc::new(recorded));
    }

    /// Returns the world as seen by one process.
    pub(super) fn of(self: &Arc<Self>, process: Arc<Process>) -> Arc<dyn World> {
        Arc::new(ProcessWorld { world: self.clone(), process })
    }
}

struct ProcessWorld {
    world: Arc<FaultyWorld>,
    process: Arc<Process>,
}

#[async_trait]
impl World for ProcessWorld {
    async fn perform(&self, thread: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        let FaultyWorld { source, records, threads } = &*self.world;
        let recorded = threads.lock().unwrap().get(&context.thread).cloned().unwrap();
        // A few calls take longer than a lease.
        let ms = if source.once_in(30) { source.below(5_000) } else { source.below(40) };
        self.process.survives(Duration::from_millis(ms / 2)).await;
        let outcome = recorded.perform(thread, context).await;
        if context.due.is_write() {
            let _call = InFlight::begin(records, context.thread, &self.process);
            if let Ok((Response::Output(ToolOutput::Ok(text)), _)) = &outcome {
                let write = Write { result: text.clone(), safety: context.due.safety };
                records.0.lock().unwrap().done.entry(context.key.to_owned()).or_default().push(write);
            }
            self.process.survives(Duration::from_millis(ms / 2)).await;
            if self.process.is_faulty()
                && context.due.safety == Safety::Write
                && outcome.is_ok()
                && source.once_in(10)
            {
                return Err(Fault::in_doubt("the connection was lost"));
            }
            return outcome;
        }
        self.process.survives(Duration::from_millis(ms / 2)).await;
        outcome
    }
}

/// A call in flight; it also ends when it is dropped.
struct InFlight<'a>(&'a WriteRecords, ThreadId, &'a Arc<Process>);

impl<'a> InFlight<'a> {
    fn begin(records: &'a WriteRecords, thread: ThreadId, process: &'a Arc<Process>) -> Self {
        records.0.lock().unwrap().in_flight.entry(thread).or_default().push(process.clone());
        Self(records, thread, process)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.0.0.lock().unwrap().in_flight.get_mut(&self.1)
            && let Some(nth) = calls.iter().position(|process| Arc::ptr_eq(process, self.2))
        {
            calls.swap_remove(nth);
        }
    }
}
