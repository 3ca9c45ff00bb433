//! The sums over the logs of some threads.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use api_types::{AttemptTotal, CostBy, CostGroup, CostPage, TimeKind, TimeTotal, TurnCost};
use audit::{
    CostTotal, Purpose, Share,
    time::{Attempt, Segment, TurnTime},
};
use queue::clock::{self, rfc3339};
use store::{Store, Thread, ThreadId, TurnFilter, TurnId};

use super::log_reader::{LogReader, Start, Tasks};
use crate::{server::problem::ApiError, turns::timeline::ready_at};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Number of turns that are named for each order.
const TOP: usize = 10;

/// Number of turns of a thread whose submissions are read. The wait of earlier ones for a slot is not counted.
const TURNS_MAX: u64 = 1_000;

/// Number of events of a thread that are read: the last ones.
const LOG_MAX: u64 = 100_000;

/// Sums over threads that were read so far.
pub(super) struct Sums {
    /// Period in which the turns that count end, in microseconds since the Unix epoch.
    period: Range<i64>,
    page: CostPage,
    groups: BTreeMap<(CostBy, String), CostTotal>,
    uses: BTreeMap<TimeKind, u64>,
}

impl Sums {
    /// Creates empty sums of the turns that end in a period. The end of a turn that runs is now.
    pub(super) fn between(since: i64, until: i64) -> Self {
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
        Self { period: since..until, page, groups: BTreeMap::new(), uses: BTreeMap::new() }
    }

    /// Number of events that were read.
    pub(super) fn events(&self) -> u64 {
        self.page.events
    }

    /// Reads the log of a thread and adds its turns.
    pub(super) async fn read(&mut self, store: &Store, thread: &Thread) -> Result<(), ApiError> {
        let head = match store.head(thread.id).await {
            // It was deleted meanwhile.
            Err(store::Error::UnknownThread(_)) => return Ok(()),
            head => head?.seq,
        };
        let from = head.saturating_sub(LOG_MAX);
        if 0 < from {
            self.page.cut.push(thread.id);
        }
        let mut log = LogReader::from(from);
        let each = |recorded| {
            log.see(&recorded);
            self.page.events += 1;
            Ok::<_, ApiError>(())
        };
        store.along(thread.id, from, None, each).await?;
        let filter = TurnFilter { thread: Some(thread.id), ..TurnFilter::default() };
        let rows = store.turns(filter, None, TURNS_MAX).await?;
        let ready: HashMap<TurnId, i64> = rows.iter().map(|row| (row.id, ready_at(row))).collect();
        self.page.threads += 1;
        let mut shares: HashMap<TurnId, Vec<(&Share, &CostTotal)>> = HashMap::new();
        for share in log.spending.shares() {
            shares.entry(share.0.turn).or_default().push(share);
        }
        for time in log.keeper.finish(clock::now()) {
            let time = match ready.get(&time.turn) {
                Some(at) => time.ready_from(*at),
                None => time,
            };
            if self.period.contains(&time.to) {
                let start = log.starts.remove(&time.turn).unwrap_or_default();
                let shares = shares.get(&time.turn).map(Vec::as_slice).unwrap_or_default();
                self.count_attempts(&time, &log.tasks);
                self.add(thread, &time, shares, start);
            }
        }
        Ok(())
    }

    fn count_attempts(&mut self, time: &TurnTime, tasks: &Tasks) {
        for attempt in time.attempts.iter().filter(|attempt| !attempt.is_answered) {
            let sum = match attempt.seq {
                Some(_) => &mut self.page.failed,
                None if ends_with_worker(time, attempt) && !tasks.has(attempt) => &mut self.page.lost,
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

/// Reports whether an attempt was under way when a worker died: at the beginning of the time without one, or at a takeover.
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
