//! An in-memory log shared by all processes, and the connection of one process to it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use queue::{Lane, Priority};
use shared::{DynThread, Event, Opened, Policy, TurnStarted};
use shared::{ThreadStatus, TurnStatus};
use store::{
    CancelRequest, Error, ForgottenModel, Head, Pause, Queued, ReadModelUpdate, Recorded, Runnable, ThreadId,
    Turn, TurnId, Withdrawal, integrity::hash_chain,
};
use threads::Log;
use tokio::time::Instant;

use super::{Without, fault_source::FaultSource, process::Process};

/// The log shared by all processes.
#[derive(Clone)]
pub(super) struct SimLog {
    source: FaultSource,
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
    pub(super) fn new(source: FaultSource, without: Without) -> Self {
        Self { source, without, began: Instant::now(), tables: Arc::default() }
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
        let (Event::Opened(opened), Event::TurnStarted(started)) = (&script[0], &script[1]) else {
            panic!("not a fixture")
        };
        let (thread, id, now) = (self.source.id(), self.source.id(), self.now());
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
            messages: started.messages.clone(),
            reply_options: started.reply_options.clone(),
            metadata: serde_json::Value::Null,
            author: started.actor.clone(),
            caller: started.caller.clone(),
            started_seq: None,
            ended_seq: None,
            error: None,
            outcome: None,
            cause: None,
            answers_seq: None,
            // Some turns start later; only the sweeper enqueues them.
            due_at: (self.source.below(3) == 0)
                .then(|| now + i64::try_from(self.source.below(6_000_000)).unwrap()),
            created_at: now,
            updated_at: now,
        };
        let message = turn.messages.last().map(|message| message.content.clone()).unwrap_or_default();
        tables.turns.push(turn);
        tables.threads.insert(thread, rows);
        (thread, message)
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
        let asked = |turn: &&mut Turn| turn.thread == thread && turn.status == ended;
        tables.turns.iter_mut().filter(asked).for_each(|turn| turn.status = TurnStatus::Running);
    }

    pub(super) fn threads(&self) -> Vec<ThreadId> {
        self.tables().threads.keys().copied().collect()
    }

    pub(super) fn events(&self, thread: ThreadId) -> Vec<Event> {
        self.tables().threads[&thread].events.iter().map(|(row, _)| row.event.clone()).collect()
    }

    pub(super) fn fold(&self, thread: ThreadId) -> Box<dyn DynThread> {
        let events = self.events(thread);
        let Some(Event::Opened(opened)) = events.first() else { panic!("it was opened") };
        strategies::find(&opened.strategy).unwrap().fold(&events).unwrap_or_else(|_| {
            // In the control without a fence, a log may not fold; the test detects that at the end.
            strategies::find(&opened.strategy).unwrap().begin()
        })
    }

    pub(super) fn all_over(&self) -> bool {
        let tables = self.tables();
        tables.turns.iter().all(|turn| turn.status.is_over() && turn.status != TurnStatus::Interrupted)
            || tables.threads.iter().all(|(id, rows)| {
                rows.status != ThreadStatus::Busy
                    && tables.turns.iter().all(|turn| turn.thread != *id || turn.status.is_over())
                    && !matches!(rows.events.last(), Some((row, _)) if matches!(row.event, Event::InDoubt(_)))
            })
    }

    /// **Property:** every append acknowledged to a writer is in the log, and the log has no gap.
    pub(super) fn kept_all_it_acknowledged(&self) -> Result<(), String> {
        let tables = self.tables();
        for (thread, rows) in &tables.threads {
            for (nth, (row, _)) in rows.events.iter().enumerate() {
                if row.seq != nth as u64 {
                    return Err(format!("{thread} has event {} at place {nth}", row.seq));
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

    fn append(
        &self,
        head: &Head,
        events: &[Event],
        at: i64,
        update: Option<&ReadModelUpdate>,
    ) -> Result<Head, Error> {
        let stale = Error::Stale { thread: head.thread, seq: head.seq };
        let mut tables = self.tables();
        let Tables { threads, turns, .. } = &mut *tables;
        let rows = threads.get_mut(&head.thread).ok_or(Error::UnknownThread(head.thread))?;
        if rows.head(head.thread) != *head {
            if self.without != Without::Fence {
                return Err(stale);
            }
            // A store without the unique key would keep both.
            let end = rows.head(head.thread);
            return Ok(rows.add(&end, at, events));
        }
        let turn = update.and_then(|update| update.turn.as_ref());
        let starts = |event: &Event| matches!(event, Event::TurnStarted(TurnStarted { turn: id, .. }) if turn.is_some_and(|update| update.turn == *id));
        let starts = events.iter().any(starts);
        if let Some(update) = turn {
            let row =
                turns.iter_mut().find(|row| row.id == update.turn).ok_or(Error::UnknownTurn(update.turn))?;
            if starts && row.status != TurnStatus::Queued && self.without != Without::Fence {
                return Err(stale);
            }
            row.status = update.status;
        }
        if let Some(update) = update {
            rows.status = update.status;
        }
        Ok(rows.add(head, at, events))
    }
}

/// Returns true if a turn may start now.
fn may_start(turn: &Turn, now: i64) -> bool {
    turn.status == TurnStatus::Queued && turn.due_at.is_none_or(|due| due <= now)
}

/// Returns the part of a turn that a worker reads.
fn queued(turn: &Turn) -> Queued {
    let Turn { id, priority, policy, answers_seq, created_at, .. } = *turn;
    let (messages, author, caller) = (turn.messages.clone(), turn.author.clone(), turn.caller.clone());
    let reply_options = turn.reply_options.clone();
    Queued {
        id,
        priority,
        policy,
        messages,
        reply_options,
        author,
        caller,
        answers_seq,
        created_at,
        history_hash: None,
        metadata: turn.metadata.clone(),
    }
}

/// The connection of one process to the log: slow, and it may break before or after a write.
#[derive(Clone)]
pub(super) struct LogConnection {
    log: SimLog,
    process: Arc<Process>,
}

impl LogConnection {
    pub(super) fn new(log: SimLog, process: Arc<Process>) -> Self {
        Self { log, process }
    }

    async fn send(&self, what: &str) -> Result<(), Error> {
        self.process.survives(Duration::from_micros(self.log.source.below(4_000))).await;
        self.may_fail(what, 40)
    }

    async fn receive(&self) {
        self.process.survives(Duration::from_micros(self.log.source.below(4_000))).await;
    }

    fn may_fail(&self, what: &str, once_in: u64) -> Result<(), Error> {
        if !self.process.is_faulty() || !self.log.source.once_in(once_in) {
            return Ok(());
        }
        self.log.fault(format!("{}: {what}: the database is away", self.process.name()));
        Err(Error::Unavailable("simulated".to_owned()))
    }
}

impl Log for LogConnection {
    fn now(&self) -> i64 {
        self.log.now() + self.process.skew()
    }

    async fn head(&self, thread: ThreadId) -> Result<Head, Error> {
        self.send("head").await?;
        let head = self.log.tables().threads.get(&thread).map(|rows| rows.head(thread));
        self.receive().await;
        head.ok_or(Error::UnknownThread(thread))
    }

    async fn load_since(&self, head: &Head) -> Result<(Head, Vec<Recorded>), Error> {
        self.send("load").await?;
        let loaded = match self.log.tables().threads.get(&head.thread) {
            Some(rows) => {
                let from = usize::try_from(head.seq).unwrap();
                let new = rows.events.iter().skip(from).map(|(row, _)| row.clone()).collect();
                (rows.head(head.thread), new)
            }
            None => (*head, Vec::new()),
        };
        self.receive().await;
        Ok(loaded)
    }

    async fn append(
        &self,
        head: &Head,
        events: &[Event],
        at: i64,
        update: Option<&ReadModelUpdate>,
    ) -> Result<Head, Error> {
        self.send("append").await?;
        let outcome = self.log.append(head, events, at, update);
        let kinds: Vec<String> = events.iter().map(|event| event.kind().to_owned()).collect();
        let kept = if outcome.is_ok() { "kept" } else { "stale" };
        let line =
            format!("{} {} {}: {} {kept}", self.process.name(), head.thread, head.seq, kinds.join(" "));
        self.log.note(line);
        // The write succeeded, but its writer receives an error.
        self.may_fail("append, after it was written", 60)?;
        self.receive().await;
        if let Ok(end) = outcome {
            self.log.tables().acknowledged.push(end);
        }
        outcome
    }

    async fn update_read_model(&self, head: &Head, update: &ReadModelUpdate) -> Result<(), Error> {
        self.send("mend").await?;
        self.log.append(head, &[], self.now(), Some(update)).map(drop)
    }

    async fn running(&self, thread: ThreadId) -> Result<Option<TurnId>, Error> {
        self.send("running").await?;
        let of_thread = |turn: &&Turn| turn.thread == thread && turn.status == TurnStatus::Running;
        Ok(self.log.tables().turns.iter().find(of_thread).map(|turn| turn.id))
    }

    async fn next_queued(&self, thread: ThreadId) -> Result<Option<Queued>, Error> {
        self.send("next queued").await?;
        let now = self.log.now();
        let of_thread = |turn: &&Turn| turn.thread == thread && may_start(turn, now);
        let urgency = |turn: &&Turn| (turn.priority, turn.position);
        let next = self.log.tables().turns.iter().filter(of_thread).min_by_key(urgency).map(queued);
        self.receive().await;
        Ok(next)
    }

    async fn refuse_queued(&self, turn: TurnId, error: &str) -> Result<Withdrawal, Error> {
        self.send("refuse").await?;
        let mut tables = self.log.tables();
        let row = tables.turns.iter_mut().find(|row| row.id == turn).ok_or(Error::UnknownTurn(turn))?;
        if row.status != TurnStatus::Queued {
            return Ok(Withdrawal::TooLate(row.status));
        }
        row.status = TurnStatus::Failed;
        row.error = Some(error.to_owned());
        Ok(Withdrawal::Withdrawn)
    }

    async fn runnable_after(&self, after: Option<ThreadId>, limit: u64) -> Result<Vec<Runnable>, Error> {
        self.send("sweep").await?;
        if self.log.without == Without::Sweep {
            return Ok(Vec::new());
        }
        let tables = self.log.tables();
        let now = self.log.now();
        let queued =
            |id: &ThreadId| tables.turns.iter().any(|turn| turn.thread == *id && may_start(turn, now));
        let can = |id: &ThreadId, rows: &Rows| rows.status == ThreadStatus::Busy || queued(id);
        let ids = tables.threads.iter().filter(|(id, rows)| can(id, rows));
        let ids = ids.map(|(id, rows)| (*id, rows.status == ThreadStatus::Busy));
        let limit = usize::try_from(limit).unwrap();
        let ids = ids.filter(|(id, _)| after.is_none_or(|last| last < *id)).take(limit);
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

    async fn forgotten_models(&self) -> Result<Vec<ForgottenModel>, Error> {
        Ok(Vec::new())
    }
}
