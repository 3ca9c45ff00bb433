//! An in-memory log shared by all processes, and the connection of one process to it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use queue::{Lane, Priority};
use shared::{DynThread, Event, Opened, Policy, TurnStarted};
use store::{
    CancelRequest, Error, Head, Pause, Queued, ReadModelUpdate, Recorded, Runnable, ThreadId, ThreadStatus,
    Turn, TurnId, TurnStatus, Withdrawal, integrity::hash_chain,
};
use threads::Log;
use tokio::time::Instant;

use super::{
    Without,
    faults::{Dice, Life},
};

/// The log shared by all processes.
#[derive(Clone)]
pub(super) struct SimLog {
    dice: Dice,
    without: Without,
    began: Instant,
    tables: Arc<Mutex<Tables>>,
}

#[derive(Default)]
struct Tables {
    threads: BTreeMap<ThreadId, Rows>,
    turns: Vec<Turn>,
    /// Heads of logs whose append was acknowledged to a writer.
    acknowledged: Vec<Head>,
    transcript: Vec<String>,
    faults: usize,
}

struct Rows {
    status: ThreadStatus,
    events: Vec<(Recorded, [u8; 32])>,
}

impl Rows {
    fn head(&self, thread: ThreadId) -> Head {
        match self.events.last() {
            Some((last, hash)) => Head { thread, seq: last.seq + 1, hash: *hash },
            None => Head::start(thread),
        }
    }

    fn add(&mut self, head: &Head, at: i64, events: &[Event]) -> Head {
        let mut end = *head;
        for event in events {
            let payload = event.payload().unwrap();
            end.hash = hash_chain::link(&end.hash, end.seq, at, event.kind(), &payload);
            self.events.push((Recorded { seq: end.seq, at, event: event.clone() }, end.hash));
            end.seq += 1;
        }
        end
    }
}

impl SimLog {
    pub(super) fn new(dice: Dice, without: Without) -> Self {
        Self { dice, without, began: Instant::now(), tables: Arc::default() }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap()
    }

    fn now(&self) -> i64 {
        1_700_000_000_000_000 + i64::try_from(self.began.elapsed().as_micros()).unwrap()
    }

    /// Adds one line to the transcript.
    pub(super) fn note(&self, line: String) {
        let ms = self.began.elapsed().as_millis();
        self.tables().transcript.push(format!("{ms:>6} {line}"));
    }

    pub(super) fn fault(&self, line: String) {
        self.note(format!("!! {line}"));
        self.tables().faults += 1;
    }

    pub(super) fn transcript(&self) -> Vec<String> {
        self.tables().transcript.clone()
    }

    pub(super) fn faults(&self) -> usize {
        self.tables().faults
    }

    /// Creates a thread and queues its turn in one transaction, as the API does.
    pub(super) fn submit(&self, script: &[Event]) -> (ThreadId, String) {
        let (Event::Opened(opened), Event::TurnStarted(heard)) = (&script[0], &script[1]) else {
            panic!("not a fixture")
        };
        let (thread, id, now) = (self.dice.id(), self.dice.id(), self.now());
        let mut rows = Rows { status: ThreadStatus::Idle, events: Vec::new() };
        rows.add(&Head::start(thread), now, &[Opened::clone(opened).into()]);
        let mut tables = self.tables();
        let turn = Turn {
            position: i64::try_from(tables.turns.len()).unwrap(),
            id,
            thread,
            status: TurnStatus::Queued,
            tenant: opened.tenant.clone(),
            priority: Priority::Normal,
            policy: Policy::Auto,
            messages: heard.messages.clone(),
            metadata: serde_json::Value::Null,
            author: heard.actor.clone(),
            caller: heard.caller.clone(),
            started_seq: None,
            ended_seq: None,
            error: None,
            outcome: None,
            cause: None,
            answers_seq: None,
            // Some turns start later; only the sweeper enqueues them.
            due_at: (self.dice.below(3) == 0)
                .then(|| now + i64::try_from(self.dice.below(6_000_000)).unwrap()),
            created_at: now,
            updated_at: now,
        };
        let words = turn.messages.last().map(|it| it.content.clone()).unwrap_or_default();
        tables.turns.push(turn);
        tables.threads.insert(thread, rows);
        (thread, words)
    }

    /// Records a person's decision, as the API does.
    pub(super) fn push(&self, thread: ThreadId, event: Event) {
        let now = self.now();
        let mut tables = self.tables();
        let rows = tables.threads.get_mut(&thread).unwrap();
        let head = rows.head(thread);
        let ended = match &event {
            Event::Retried(_) => TurnStatus::Failed,
            _ => TurnStatus::Interrupted,
        };
        rows.add(&head, now, &[event]);
        rows.status = ThreadStatus::Busy;
        let asked = |it: &&mut Turn| it.thread == thread && it.status == ended;
        tables.turns.iter_mut().filter(asked).for_each(|it| it.status = TurnStatus::Running);
    }

    pub(super) fn threads(&self) -> Vec<ThreadId> {
        self.tables().threads.keys().copied().collect()
    }

    pub(super) fn events(&self, thread: ThreadId) -> Vec<Event> {
        self.tables().threads[&thread].events.iter().map(|(it, _)| it.event.clone()).collect()
    }

    pub(super) fn replay(&self, thread: ThreadId) -> Box<dyn DynThread> {
        let events = self.events(thread);
        let Some(Event::Opened(opened)) = events.first() else { panic!("it was opened") };
        strategies::find(&opened.strategy).unwrap().fold(&events).unwrap_or_else(|_| {
            // In the control without a fence, a log may not fold; the test detects that at the end.
            strategies::find(&opened.strategy).unwrap().begin()
        })
    }

    /// Returns the slot in doubt and the sequence number of its question.
    pub(super) fn doubted(&self, thread: ThreadId) -> (usize, usize) {
        let events = self.events(thread);
        let asked = events.iter().rposition(|it| matches!(it, Event::Asked(_))).unwrap();
        let mut doubted = std::collections::BTreeSet::new();
        for event in &events[asked..] {
            match event {
                Event::InDoubt(it) => drop(doubted.insert(it.slot)),
                Event::Reconciled(it) => drop(doubted.remove(&it.slot)),
                Event::Answered(it) => drop(doubted.remove(&it.slot)),
                Event::AttemptFailed(it) => drop(doubted.remove(&it.slot)),
                _ => {}
            }
        }
        (*doubted.first().unwrap(), asked)
    }

    pub(super) fn all_over(&self) -> bool {
        let tables = self.tables();
        tables.turns.iter().all(|it| it.status.is_over() && it.status != TurnStatus::Interrupted)
            || tables.threads.iter().all(|(id, rows)| {
                rows.status != ThreadStatus::Busy
                    && tables.turns.iter().all(|it| it.thread != *id || it.status.is_over())
                    && !matches!(rows.events.last(), Some((it, _)) if matches!(it.event, Event::InDoubt(_)))
            })
    }

    /// **Property:** every append acknowledged to a writer is in the log, and the log has no gap.
    pub(super) fn kept_all_it_acknowledged(&self) -> Result<(), String> {
        let tables = self.tables();
        for (thread, rows) in &tables.threads {
            for (nth, (it, _)) in rows.events.iter().enumerate() {
                if it.seq != nth as u64 {
                    return Err(format!("{thread} has event {} at place {nth}", it.seq));
                }
            }
        }
        for head in &tables.acknowledged {
            let last = usize::try_from(head.seq - 1).unwrap();
            match tables.threads[&head.thread].events.get(last) {
                Some((_, hash)) if *hash == head.hash => {}
                _ => return Err(format!("{} lost event {last}, which was acknowledged", head.thread)),
            }
        }
        Ok(())
    }

    fn append(&self, head: &Head, events: &[Event], mark: Option<&ReadModelUpdate>) -> Result<Head, Error> {
        let stale = Error::Stale { thread: head.thread, seq: head.seq };
        let now = self.now();
        let mut tables = self.tables();
        let Tables { threads, turns, .. } = &mut *tables;
        let rows = threads.get_mut(&head.thread).ok_or(Error::UnknownThread(head.thread))?;
        if rows.head(head.thread) != *head {
            if self.without != Without::Fence {
                return Err(stale);
            }
            // A store without the unique key would keep both.
            let end = rows.head(head.thread);
            return Ok(rows.add(&end, now, events));
        }
        let turn = mark.and_then(|it| it.turn.as_ref());
        let hears = |it: &Event| matches!(it, Event::TurnStarted(TurnStarted { turn: id, .. }) if turn.is_some_and(|it| it.turn == *id));
        let hears = events.iter().any(hears);
        if let Some(mark) = turn {
            let row = turns.iter_mut().find(|it| it.id == mark.turn).ok_or(Error::UnknownTurn(mark.turn))?;
            if hears && row.status != TurnStatus::Queued && self.without != Without::Fence {
                return Err(stale);
            }
            row.status = mark.status;
        }
        if let Some(mark) = mark {
            rows.status = mark.status;
        }
        Ok(rows.add(head, now, events))
    }
}

/// Returns true if a turn may start now.
fn waits(turn: &Turn, now: i64) -> bool {
    turn.status == TurnStatus::Queued && turn.due_at.is_none_or(|it| it <= now)
}

/// Returns the part of a turn that a worker reads.
fn queued(turn: &Turn) -> Queued {
    let Turn { id, priority, policy, answers_seq, created_at, .. } = *turn;
    let (messages, author, caller) = (turn.messages.clone(), turn.author.clone(), turn.caller.clone());
    Queued { id, priority, policy, messages, author, caller, answers_seq, created_at }
}

/// The connection of one process to the log: slow, and it may break before or after a write.
#[derive(Clone)]
pub(super) struct Wire {
    log: SimLog,
    life: Arc<Life>,
}

impl Wire {
    pub(super) fn new(log: SimLog, life: Arc<Life>) -> Self {
        Self { log, life }
    }

    async fn there(&self, what: &str) -> Result<(), Error> {
        self.life.reaches(Duration::from_micros(self.log.dice.below(4_000))).await;
        self.breaks(what, 40)
    }

    async fn back(&self) {
        self.life.reaches(Duration::from_micros(self.log.dice.below(4_000))).await;
    }

    fn breaks(&self, what: &str, once_in: u64) -> Result<(), Error> {
        if !self.life.is_faulty() || !self.log.dice.once_in(once_in) {
            return Ok(());
        }
        self.log.fault(format!("{}: {what}: the database is away", self.life.name()));
        Err(Error::Unavailable("simulated".to_owned()))
    }
}

impl Log for Wire {
    fn now(&self) -> i64 {
        self.log.now() + self.life.skew()
    }

    async fn head(&self, thread: ThreadId) -> Result<Head, Error> {
        self.there("head").await?;
        let head = self.log.tables().threads.get(&thread).map(|it| it.head(thread));
        self.back().await;
        head.ok_or(Error::UnknownThread(thread))
    }

    async fn load_since(&self, head: &Head) -> Result<(Head, Vec<Recorded>), Error> {
        self.there("load").await?;
        let loaded = match self.log.tables().threads.get(&head.thread) {
            Some(rows) => {
                let from = usize::try_from(head.seq).unwrap();
                let new = rows.events.iter().skip(from).map(|(it, _)| it.clone()).collect();
                (rows.head(head.thread), new)
            }
            None => (*head, Vec::new()),
        };
        self.back().await;
        Ok(loaded)
    }

    async fn append(
        &self,
        head: &Head,
        events: &[Event],
        mark: Option<&ReadModelUpdate>,
    ) -> Result<Head, Error> {
        self.there("append").await?;
        let outcome = self.log.append(head, events, mark);
        let told: Vec<String> = events.iter().map(|it| it.kind().to_owned()).collect();
        let kept = if outcome.is_ok() { "kept" } else { "stale" };
        let line = format!("{} {} {}: {} {kept}", self.life.name(), head.thread, head.seq, told.join(" "));
        self.log.note(line);
        // The write succeeded, but its writer receives an error.
        self.breaks("append, after it was written", 60)?;
        self.back().await;
        if let Ok(end) = outcome {
            self.log.tables().acknowledged.push(end);
        }
        outcome
    }

    async fn update_read_model(&self, head: &Head, mark: &ReadModelUpdate) -> Result<(), Error> {
        self.there("mend").await?;
        self.log.append(head, &[], Some(mark)).map(drop)
    }

    async fn running(&self, thread: ThreadId) -> Result<Option<TurnId>, Error> {
        self.there("running").await?;
        let of_thread = |it: &&Turn| it.thread == thread && it.status == TurnStatus::Running;
        Ok(self.log.tables().turns.iter().find(of_thread).map(|it| it.id))
    }

    async fn next_queued(&self, thread: ThreadId) -> Result<Option<Queued>, Error> {
        self.there("next queued").await?;
        let now = self.log.now();
        let of_thread = |it: &&Turn| it.thread == thread && waits(it, now);
        let urgency = |it: &&Turn| (it.priority, it.position);
        let next = self.log.tables().turns.iter().filter(of_thread).min_by_key(urgency).map(queued);
        self.back().await;
        Ok(next)
    }

    async fn refuse_queued(&self, turn: TurnId, error: &str) -> Result<Withdrawal, Error> {
        self.there("refuse").await?;
        let mut tables = self.log.tables();
        let row = tables.turns.iter_mut().find(|it| it.id == turn).ok_or(Error::UnknownTurn(turn))?;
        if row.status != TurnStatus::Queued {
            return Ok(Withdrawal::TooLate(row.status));
        }
        row.status = TurnStatus::Failed;
        row.error = Some(error.to_owned());
        Ok(Withdrawal::Withdrawn)
    }

    async fn runnable_after(&self, after: Option<ThreadId>, limit: u64) -> Result<Vec<Runnable>, Error> {
        self.there("sweep").await?;
        if self.log.without == Without::Sweep {
            return Ok(Vec::new());
        }
        let tables = self.log.tables();
        let now = self.log.now();
        let queued = |id: &ThreadId| tables.turns.iter().any(|it| it.thread == *id && waits(it, now));
        let can = |id: &ThreadId, rows: &Rows| rows.status == ThreadStatus::Busy || queued(id);
        let ids = tables.threads.iter().filter(|(id, rows)| can(id, rows));
        let ids = ids.map(|(id, rows)| (*id, rows.status == ThreadStatus::Busy));
        let limit = usize::try_from(limit).unwrap();
        let ids = ids.filter(|(id, _)| after.is_none_or(|it| it < *id)).take(limit);
        let runnable = |(thread, is_running)| Runnable { thread, lane: Lane::default(), is_running };
        Ok(ids.map(runnable).collect())
    }

    async fn lane(&self, _: ThreadId) -> Result<Option<Lane>, Error> {
        Ok(Some(Lane::default()))
    }

    async fn cancel_request(&self, _: ThreadId) -> Result<Option<CancelRequest>, Error> {
        Ok(None)
    }

    async fn drop_cancel_request(&self, _: &CancelRequest) -> Result<(), Error> {
        Ok(())
    }

    async fn pauses(&self) -> Result<Vec<Pause>, Error> {
        Ok(Vec::new())
    }
}
