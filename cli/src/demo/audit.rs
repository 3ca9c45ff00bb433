//! Proves what was done: every log folded again, every hash chain checked, every write held against the servers' own
//! books.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use experts::{Expert, Ledger};
use serde::Serialize;
use shared::{Event, Request, Response, ToolOutput, Verdict};
use store::{Chain, Recorded, Store, Thread, ThreadFilter, ThreadId, ThreadStatus, TurnFilter, TurnStatus};

use crate::commands::{
    Given,
    thread::{folded, graph_of},
};

/// What the logs and the books say.
#[derive(Default)]
pub(super) struct Audit {
    pub(super) threads: u64,
    pub(super) turns: BTreeMap<TurnStatus, u64>,
    /// How the turns of each strategy ended.
    pub(super) strategies: BTreeMap<String, Fared>,
    pub(super) events: u64,
    pub(super) nodes: u64,
    pub(super) model_calls: u64,
    pub(super) tool_calls: u64,
    /// Writes that a tool has confirmed.
    pub(super) writes: u64,
    /// Of these, what the servers' books hold exactly once.
    pub(super) once: u64,
    /// What was wrong, in words.
    pub(super) findings: Vec<String>,
    /// A thread that was under way when the engine was killed, and went on afterwards.
    pub(super) survivor: Option<(ThreadId, Vec<Recorded>)>,
}

/// How the turns of a strategy ended.
#[derive(Default, Serialize)]
pub(super) struct Fared {
    pub(super) turns: u64,
    /// Those that were completed, or asked something and were answered.
    pub(super) ended_well: u64,
}

impl Audit {
    pub(super) fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Reads every log of the store.
pub(super) async fn audit(
    given: &Given,
    store: &Store,
    folder: &Path,
    killed_at: i64,
) -> anyhow::Result<Audit> {
    let mut audit = Audit::default();
    let mut confirmed = BTreeMap::new();
    let mut after = None;
    loop {
        let page = store.threads(ThreadFilter::default(), after, 500).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for row in page {
            let graph = graph_of(given, store, row.id).await?;
            let (_, log) = store.load(row.id).await?;
            audit.threads += 1;
            audit.count(row.id, &log, &mut confirmed);
            audit.fared(store, &row).await?;
            let events: Vec<Event> = log.iter().map(|it| it.event.clone()).collect();
            if let Chain::Broken { seq, what } = store.verify_chain(row.id).await? {
                audit
                    .findings
                    .push(format!("thread {}: the hash chain breaks at event {seq}: {what}", row.id));
            }
            let thread = graph.replay(&events)?;
            if folded(&*thread) != row.status {
                audit.findings.push(format!(
                    "thread {}: folded {}, stored {}",
                    row.id,
                    folded(&*thread),
                    row.status
                ));
            }
            for it in shared::verify(graph, &events)? {
                let words =
                    format!("thread {}: diverges at event {}, {}, {}", row.id, it.seq, it.node, it.field);
                audit.findings.push(words);
            }
            audit.keep_survivor(row.id, log, killed_at);
        }
    }
    let counts = store.counts().await?;
    audit.turns = counts.turns;
    audit.hold_against_books(&confirmed, folder)?;
    Ok(audit)
}

impl Audit {
    fn count(&mut self, thread: ThreadId, log: &[Recorded], confirmed: &mut BTreeMap<String, String>) {
        let mut asked: (u64, &[Request]) = (0, &[]);
        let mut fenced = BTreeSet::new();
        self.events += log.len() as u64;
        for it in log {
            let request = it.event.slot().and_then(|slot| asked.1.get(slot));
            let mut happened = false;
            if let Event::Asked(event) = &it.event {
                asked = (it.seq, &event.requests);
                fenced.clear();
            } else if let Event::Attempted(event) = &it.event {
                fenced.insert(event.slot);
            } else if let Event::Answered(event) = &it.event {
                self.model_calls += u64::from(matches!(request, Some(Request::Chat { .. })));
                self.tool_calls += u64::from(matches!(request, Some(Request::CallTool { .. })));
                let ok = matches!(event.response, Response::Output(ToolOutput::Ok(_)));
                happened = ok && fenced.contains(&event.slot);
            } else if let Event::Reconciled(event) = &it.event {
                happened = matches!(event.verdict, Verdict::Happened { .. });
            } else if let Event::Decided(_) = &it.event {
                self.nodes += 1;
            }
            if let (true, Some(Request::CallTool { server, .. }), Some(slot)) =
                (happened, request, it.event.slot())
            {
                confirmed.insert(format!("{thread}:{}:{slot}", asked.0), server.clone());
            }
        }
    }

    /// A turn that asked has ended well if its thread does not wait any more.
    async fn fared(&mut self, store: &Store, thread: &Thread) -> anyhow::Result<()> {
        let fared = self.strategies.entry(thread.strategy.clone()).or_default();
        let filter = TurnFilter { thread: Some(thread.id), ..TurnFilter::default() };
        for turn in store.turns(filter, None, 10_000).await? {
            fared.turns += 1;
            fared.ended_well += u64::from(match turn.status {
                TurnStatus::Completed => true,
                TurnStatus::Interrupted => thread.status == ThreadStatus::Idle,
                TurnStatus::Queued | TurnStatus::Running | TurnStatus::Failed | TurnStatus::Cancelled => {
                    false
                }
            });
        }
        Ok(())
    }

    /// Every confirmed write stands in its server's books once, and nothing else does.
    fn hold_against_books(
        &mut self,
        confirmed: &BTreeMap<String, String>,
        folder: &Path,
    ) -> anyhow::Result<()> {
        self.writes = confirmed.len() as u64;
        let mut books = BTreeMap::new();
        for expert in Expert::ALL {
            let file = folder.join(format!("{}.json", expert.name()));
            if file.exists() {
                books.extend(Ledger::read(&file)?.applied);
            }
        }
        for key in confirmed.keys() {
            match books.remove(key) {
                Some(1) => self.once += 1,
                Some(times) => self.findings.push(format!("the write {key} happened {times} times")),
                None => self.findings.push(format!("the write {key} was confirmed and did not happen")),
            }
        }
        self.findings.extend(books.keys().map(|key| format!("the write {key} happened and is in no log")));
        Ok(())
    }

    /// Keeps the richest thread that lived on both sides of the kill.
    fn keep_survivor(&mut self, id: ThreadId, log: Vec<Recorded>, killed_at: i64) {
        let both_sides =
            log.iter().skip(2).any(|it| it.at < killed_at) && log.iter().any(|it| killed_at < it.at);
        let before = self.survivor.as_ref().map_or(0, |(_, it)| it.len());
        let better = match &self.survivor {
            Some((_, kept)) => both_sides && (kept.iter().all(|it| it.at > killed_at) || before < log.len()),
            None => true,
        };
        if better {
            self.survivor = Some((id, log));
        }
    }
}
