//! The sums over the logs of some threads.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use api_types::{AttemptTotal, CostBy, CostGroup, CostPage, TimeKind, TimeTotal, TurnCost};
use audit::{
    CostTotal, Purpose, Share, Spending,
    time::{Attempt, Segment, Timekeeper, TurnTime},
};
use queue::clock::{self, rfc3339};
use shared::Event;
use store::{Recorded, Store, Thread, ThreadId, TurnFilter, TurnId};

use crate::{server::problem::ApiError, turns::timeline::ready_at};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Number of turns that are named for each order.
const TOP: usize = 10;

/// Number of turns of a thread whose submissions are read. The wait of earlier ones for a slot is not counted.
const TURNS_MAX: u64 = 1_000;

/// Number of events of a thread that are read: the last ones.
const LOG_MAX: u64 = 100_000;

/// Number of characters of the message of a turn.
const INPUT: usize = 200;

/// Sums over threads that were read so far.
pub(super) struct Sums {
    /// Time after which turns count, in microseconds since the Unix epoch.
    since: i64,
    page: CostPage,
    groups: BTreeMap<(CostBy, String), CostTotal>,
    uses: BTreeMap<TimeKind, u64>,
}

/// The start of a turn.
#[derive(Default)]
struct Start {
    seq: u64,
    input: String,
}

/// The requests on which a server worked as a task, by the event that made them. A task survives its worker.
#[derive(Default)]
struct Tasks {
    asked_seq: u64,
    known: BTreeSet<(u64, usize)>,
}

impl Tasks {
    fn see(&mut self, recorded: &Recorded) {
        if let Event::Asked(_) = recorded.event {
            self.asked_seq = recorded.seq;
        } else if let Event::TaskStarted(started) = &recorded.event {
            self.known.insert((self.asked_seq, started.slot));
        }
    }
}

impl Sums {
    /// Creates empty sums of the turns that end after a time.
    pub(super) fn since(since: i64) -> Self {
        let (failed, lost) = (AttemptTotal::default(), AttemptTotal::default());
        let page = CostPage {
            threads: 0,
            events: 0,
            turns: 0,
            ms: 0,
            time: Vec::new(),
            groups: Vec::new(),
            failed,
            lost,
            takeovers: 0,
            top: Vec::new(),
            cut: Vec::new(),
            next: None,
        };
        Self { since, page, groups: BTreeMap::new(), uses: BTreeMap::new() }
    }

    /// Number of events that were read.
    pub(super) fn events(&self) -> u64 {
        self.page.events
    }

    /// Reads the log of a thread and adds its turns.
    pub(super) async fn read(&mut self, store: &Store, thread: &Thread) -> Result<(), ApiError> {
        let (mut spending, mut keeper) = (Spending::default(), Timekeeper::default());
        let (mut starts, mut tasks) = (HashMap::<TurnId, Start>::new(), Tasks::default());
        let from = store.head(thread.id).await?.seq.saturating_sub(LOG_MAX);
        if 0 < from {
            self.page.cut.push(thread.id);
        }
        // A turn that brings an input continues the requests of the one before it.
        let mut is_whole = from == 0;
        let events = &mut self.page.events;
        store
            .along(thread.id, from, None, |recorded| {
                *events += 1;
                is_whole |= matches!(recorded.event, Event::TurnStarted(_));
                if !is_whole {
                    if !matches!(recorded.event, Event::InputProvided(_)) {
                        keeper.see(&recorded);
                    }
                    return Ok(());
                }
                tasks.see(&recorded);
                spending.apply(&recorded.event, recorded.at, &|_, _| None);
                if let Some(turn) = recorded.event.turn_started() {
                    starts.insert(turn, Start { seq: recorded.seq, input: input(&recorded.event) });
                }
                keeper.see(&recorded);
                Ok::<_, ApiError>(())
            })
            .await?;
        let filter = TurnFilter { thread: Some(thread.id), ..TurnFilter::default() };
        let rows = store.turns(filter, None, TURNS_MAX).await?;
        let ready: HashMap<TurnId, i64> = rows.iter().map(|row| (row.id, ready_at(row))).collect();
        self.page.threads += 1;
        let mut shares: HashMap<TurnId, Vec<(&Share, &CostTotal)>> = HashMap::new();
        for share in spending.shares() {
            shares.entry(share.0.turn).or_default().push(share);
        }
        for time in keeper.finish(clock::now()) {
            let time = match ready.get(&time.turn) {
                Some(at) => time.ready_from(*at),
                None => time,
            };
            if self.since <= time.to {
                let start = starts.remove(&time.turn).unwrap_or_default();
                let shares = shares.get(&time.turn).map(Vec::as_slice).unwrap_or_default();
                self.count_attempts(&time, &tasks);
                self.add(thread, &time, shares, start);
            }
        }
        Ok(())
    }

    fn count_attempts(&mut self, time: &TurnTime, tasks: &Tasks) {
        for attempt in time.attempts.iter().filter(|attempt| !attempt.is_answered) {
            let is_task = || tasks.known.contains(&(attempt.asked_seq, attempt.slot));
            let sum = match attempt.seq {
                Some(_) => &mut self.page.failed,
                None if ends_with_worker(time, attempt) && !is_task() => &mut self.page.lost,
                // It is under way, or ended with its node or turn.
                None => continue,
            };
            sum.attempts += 1;
            sum.ms += attempt.to.saturating_sub(attempt.from).max(0).unsigned_abs() / 1_000;
        }
    }

    fn add(&mut self, thread: &Thread, time: &TurnTime, shares: &[(&Share, &CostTotal)], start: Start) {
        let mut spent = CostTotal::default();
        for (share, total) in shares {
            spent.add(total);
            for group in groups(&thread.strategy, share) {
                self.groups.entry(group).or_default().add(total);
            }
        }
        let timeline = time.timeline(thread.id);
        self.page.turns += 1;
        self.page.ms += timeline.ms;
        self.page.takeovers += timeline.takeovers.len() as u64;
        for total in &timeline.totals {
            *self.uses.entry(total.kind).or_default() += total.ms;
        }
        self.page.top.push(TurnCost {
            turn_id: time.turn,
            thread_id: thread.id,
            seq: start.seq,
            strategy: thread.strategy.clone(),
            input: start.input,
            from: rfc3339(time.from),
            ms: timeline.ms,
            usage: (&spent.usage).into(),
        });
        if 8 * TOP < self.page.top.len() {
            self.page.top = top(std::mem::take(&mut self.page.top));
        }
    }

    /// Returns the sums. Threads after `next` were not read.
    pub(super) fn page(self, next: Option<ThreadId>) -> CostPage {
        let group = |((by, name), total): ((CostBy, String), CostTotal)| CostGroup {
            by,
            name,
            model_calls: total.model_calls,
            tool_calls: total.tool_calls,
            usage: (&total.usage).into(),
        };
        CostPage {
            time: self.uses.into_iter().map(|(kind, ms)| TimeTotal { kind, ms }).collect(),
            groups: self.groups.into_iter().map(group).collect(),
            top: top(self.page.top),
            next,
            ..self.page
        }
    }
}

/// Reports whether an attempt was under way when a worker died: at the begin of the time without one, or at a takeover.
fn ends_with_worker(time: &TurnTime, attempt: &Attempt) -> bool {
    let is_silence = |part: &Segment| part.kind == TimeKind::NoWorker && part.from == attempt.to;
    time.segments.iter().any(is_silence) || time.takeovers.iter().any(|(at, ..)| *at == attempt.to)
}

/// Returns the properties of a share that have a value.
fn groups(strategy: &str, share: &Share) -> impl Iterator<Item = (CostBy, String)> {
    let midnight = rfc3339(share.day.saturating_mul(MICROS_PER_DAY));
    let purpose = match share.purpose {
        Purpose::Answer => "answer",
        Purpose::Unusable => "unusable",
        Purpose::Summary => "summary",
    };
    [
        (CostBy::Strategy, strategy),
        (CostBy::Model, &share.model),
        (CostBy::Tool, &share.tool),
        (CostBy::Day, midnight.split('T').next().unwrap_or_default()),
        (CostBy::Purpose, purpose),
    ]
    .map(|(by, name)| (by, name.to_owned()))
    .into_iter()
    .filter(|(_, name)| !name.is_empty())
}

/// Returns the turns with the highest cost and those that took longest.
fn top(mut turns: Vec<TurnCost>) -> Vec<TurnCost> {
    turns.sort_by_key(|turn| Reverse(turn.ms));
    let mut rest = turns.split_off(TOP.min(turns.len()));
    rest.sort_by(|one, other| other.usage.usd.total_cmp(&one.usage.usd));
    // Those that took longest may be among the dearest, which only makes the list longer.
    turns.extend(rest.into_iter().take(TOP));
    turns
}

/// Returns the beginning of the message that starts a turn.
fn input(event: &Event) -> String {
    let Event::TurnStarted(started) = event else { return String::new() };
    let last = started.messages.last();
    last.map(|message| message.content.chars().take(INPUT).collect()).unwrap_or_default()
}
