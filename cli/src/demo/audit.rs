//! Proves what was done: folds every log again, checks every hash chain, and compares every write with the servers' own
//! data.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use demo_servers::{Expert, Ledger};
use serde::Serialize;
use shared::{Event, Request, Response, ToolOutput, Verdict};
use shared::{ThreadStatus, TurnStatus};
use store::{Chain, Recorded, Store, Thread, ThreadFilter, ThreadId, TurnFilter};

use crate::commands::{Context, source::Source, thread::status_of};

/// Everything found in the logs and in the servers' data.
#[derive(Default)]
pub(super) struct Audit {
    pub(super) threads: u64,
    pub(super) turns: BTreeMap<TurnStatus, u64>,
    /// Results by strategy.
    pub(super) strategies: BTreeMap<String, StrategyResult>,
    /// Number of failed turns by cause: the error without numbers, ids and quoted texts.
    pub(super) failures: BTreeMap<String, u64>,
    pub(super) events: u64,
    pub(super) nodes: u64,
    pub(super) model_calls: u64,
    pub(super) tool_calls: u64,
    /// Writes that a tool confirmed.
    pub(super) writes: u64,
    /// The confirmed writes that are in the servers' data exactly once.
    pub(super) writes_once: u64,
    /// The confirmed writes that a server carried out and that changed nothing, because all was so already.
    pub(super) writes_unchanged: u64,
    /// Everything that contradicts the proof, one sentence each.
    pub(super) findings: Vec<String>,
    /// A thread that was running when the engine was killed and continued afterwards.
    pub(super) survivor: Option<(ThreadId, Vec<Recorded>)>,
}

/// Results of the turns of one strategy.
#[derive(Default, Serialize)]
pub(super) struct StrategyResult {
    pub(super) turns: u64,
    /// Turns that completed, or asked a question that was answered.
    pub(super) ended_well: u64,
}

impl Audit {
    pub(super) fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Reads and checks every log of the store.
pub(super) async fn audit(
    ctx: &Context,
    store: &Store,
    folder: &Path,
    killed_at: i64,
) -> anyhow::Result<Audit> {
    let mut audit = Audit::default();
    let mut confirmed = BTreeMap::new();
    let (source, mut after) = (Source::on(ctx, store)?, None);
    loop {
        let page = store.threads(ThreadFilter::default(), after, 500).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for row in page {
            let graph = source.graph(ctx, row.id).await?;
            let (_, log) = store.load(row.id).await?;
            audit.threads += 1;
            audit.count_events(row.id, &log, &mut confirmed);
            audit.count_turns(store, &row).await?;
            let events: Vec<Event> = log.iter().map(|recorded| recorded.event.clone()).collect();
            if let Chain::Broken { seq, what } = store.verify_chain(row.id).await? {
                audit
                    .findings
                    .push(format!("thread {}: the hash chain breaks at event {seq}: {what}", row.id));
            }
            let thread = graph.fold(&events)?;
            let status = status_of(&*thread);
            if status != row.status {
                audit
                    .findings
                    .push(format!("thread {}: the log gives {status}, the row {}", row.id, row.status));
            }
            for divergence in shared::replay(graph, &events)? {
                let place = format!("event {}, {}, {}", divergence.seq, divergence.node, divergence.field);
                audit.findings.push(format!("thread {}: replay decides differently at {place}", row.id));
            }
            audit.keep_survivor(row.id, log, killed_at);
        }
    }
    let counts = store.counts().await?;
    audit.turns = counts.turns;
    audit.compare_with_servers(&confirmed, folder)?;
    Ok(audit)
}

impl Audit {
    fn count_events(&mut self, thread: ThreadId, log: &[Recorded], confirmed: &mut BTreeMap<String, String>) {
        let mut asked: (u64, &[Request]) = (0, &[]);
        let mut fenced = BTreeSet::new();
        self.events += log.len() as u64;
        for recorded in log {
            let request = recorded.event.slot().and_then(|slot| asked.1.get(slot));
            let mut happened = false;
            if let Event::Asked(event) = &recorded.event {
                asked = (recorded.seq, &event.requests);
                fenced.clear();
            } else if let Event::Attempted(event) = &recorded.event {
                fenced.insert(event.slot);
            } else if let Event::Answered(event) = &recorded.event {
                self.model_calls += u64::from(matches!(request, Some(Request::Chat { .. })));
                self.tool_calls += u64::from(matches!(request, Some(Request::CallTool { .. })));
                let ok = matches!(event.response, Response::Output(ToolOutput::Ok(_)));
                happened = ok && fenced.contains(&event.slot);
            } else if let Event::Reconciled(event) = &recorded.event {
                happened = matches!(event.verdict, Verdict::Happened { .. });
            } else if let Event::Decided(_) = &recorded.event {
                self.nodes += 1;
            }
            if let (true, Some(Request::CallTool { server, .. }), Some(slot)) =
                (happened, request, recorded.event.slot())
            {
                confirmed.insert(format!("{thread}:{}:{slot}", asked.0), server.clone());
            }
        }
    }

    /// Counts the turns of a thread. A question counts as ended well once the thread no longer waits for the answer.
    async fn count_turns(&mut self, store: &Store, thread: &Thread) -> anyhow::Result<()> {
        let result = self.strategies.entry(thread.strategy.clone()).or_default();
        let filter = TurnFilter { thread: Some(thread.id), ..TurnFilter::default() };
        for turn in store.turns(filter, None, 10_000).await? {
            result.turns += 1;
            result.ended_well += u64::from(match turn.status {
                TurnStatus::Completed => true,
                TurnStatus::Interrupted => thread.status == ThreadStatus::Idle,
                TurnStatus::Queued | TurnStatus::Running | TurnStatus::Failed | TurnStatus::Cancelled => {
                    false
                }
            });
            if turn.status == TurnStatus::Failed {
                let cause = turn.error.or(turn.cause).unwrap_or_else(|| "no reason was recorded".to_owned());
                *self.failures.entry(cause).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Checks that every confirmed write is in its server's data once, and that the data holds no other write.
    fn compare_with_servers(
        &mut self,
        confirmed: &BTreeMap<String, String>,
        folder: &Path,
    ) -> anyhow::Result<()> {
        self.writes = confirmed.len() as u64;
        let (mut applied, mut unchanged) = (BTreeMap::new(), BTreeSet::new());
        for server in Expert::ALL {
            let file = folder.join(format!("{}.json", server.name()));
            if file.exists() {
                let ledger = Ledger::read(&file)?;
                applied.extend(ledger.applied);
                unchanged.extend(ledger.unchanged);
            }
        }
        for key in confirmed.keys() {
            match applied.remove(key) {
                Some(1) => self.writes_once += 1,
                Some(times) => self.findings.push(format!("the write {key} happened {times} times")),
                None if unchanged.contains(key) => self.writes_unchanged += 1,
                None => self.findings.push(format!("the write {key} was confirmed and did not happen")),
            }
        }
        self.findings.extend(applied.keys().map(|key| format!("the write {key} happened and is in no log")));
        Ok(())
    }

    /// Keeps the log that shows the most: one with a call repeated after the kill, else the longest one across the kill.
    fn keep_survivor(&mut self, id: ThreadId, log: Vec<Recorded>, killed_at: i64) {
        let better = match &self.survivor {
            Some((_, kept)) => interest(kept, killed_at) < interest(&log, killed_at),
            None => true,
        };
        if better {
            self.survivor = Some((id, log));
        }
    }
}

/// Ranks a log by how much of the kill it shows; more is better.
fn interest(log: &[Recorded], killed_at: i64) -> (bool, bool, usize) {
    let kill = log.iter().position(|recorded| killed_at < recorded.at).unwrap_or(log.len());
    let is_across = 2 < kill && kill < log.len();
    let attempt = |recorded: Option<&Recorded>| {
        recorded.is_some_and(|recorded| matches!(recorded.event, Event::Attempted(_)))
    };
    let is_repeated = is_across && attempt(log.get(kill - 1)) && attempt(log.get(kill));
    (is_repeated, is_across, log.len())
}
