//! Rebuilds the read models: the rows of `threads` and `turns` must equal the fold of the log.

use std::collections::BTreeMap;

use queue::clock;
use serde::Serialize;
use serde_json::Value;
use shared::{CallerId, DEFAULT_TENANT, Event, InputResponse, Message, Outcome, Policy, TurnKind};

use crate::{
    Counted, DryRun, Error, Head, Recorded, Store, StrategyRegistry, ThreadId, ThreadScan, ThreadStatus,
    TurnId, TurnStatus,
    log::{
        plain, turn_started_by,
        writer::{Status, begin, status},
    },
    stats::{AskedModels, Intervals, Tally},
};

/// Maximum number of differences kept; all are counted.
const KEPT: usize = 100;

/// Number of attempts for a thread that changes while it is compared.
const TRIES: usize = 3;

/// Result of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Number of threads compared.
    pub threads: u64,
    /// Number of differences, by kind.
    pub found: BTreeMap<Differs, u64>,
    /// The first differences, at most 100.
    pub differences: Vec<Difference>,
}

/// A difference between the read model and the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Id of the turn, if the row of a turn differs.
    pub turn: Option<TurnId>,
    /// Kind of the difference.
    pub differs: Differs,
    /// Description for people.
    pub what: String,
}

/// Kinds of differences between a log and its read model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Differs {
    /// The row of the thread is missing.
    ThreadMissing,
    /// The thread's row has a different strategy.
    ThreadStrategy,
    /// The thread's row has a different tenant.
    ThreadTenant,
    /// The thread's row has a different status.
    ThreadStatus,
    /// The thread's row says that a worker could not continue it; the log does not record that.
    Parked,
    /// The thread's row has a different creation time.
    ThreadCreated,
    /// The row of the turn is missing.
    TurnMissing,
    /// The turn's row has a different status.
    TurnStatus,
    /// The turn's row has a different starting event.
    TurnStarted,
    /// The turn's row has a different end.
    TurnEnded,
    /// The turn's row has a different error.
    TurnError,
    /// The turn's row has a different outcome or cause.
    TurnOutcome,
    /// `open_turns` contradicts the turn's row about whether the turn has ended.
    TurnOpen,
    /// The turn's row says that it started, but the log does not. Not repaired.
    NeverStarted,
    /// The thread or one of its turns has a row but no log. Not repaired.
    NoLog,
    /// The log cannot be folded. Not repaired.
    Unfolded,
    /// The thread changed during every comparison. Its writer keeps the rows up to date.
    Moving,
}

impl Differs {
    /// Returns true if the log can repair this difference.
    pub fn is_mendable(self) -> bool {
        match self {
            Differs::ThreadMissing
            | Differs::ThreadStrategy
            | Differs::ThreadTenant
            | Differs::ThreadStatus
            | Differs::Parked
            | Differs::ThreadCreated
            | Differs::TurnMissing
            | Differs::TurnStatus
            | Differs::TurnStarted
            | Differs::TurnEnded
            | Differs::TurnError
            | Differs::TurnOutcome
            | Differs::TurnOpen => true,
            Differs::NeverStarted | Differs::NoLog | Differs::Unfolded | Differs::Moving => false,
        }
    }

    /// Returns a description for people.
    pub fn words(self) -> &'static str {
        match self {
            Differs::ThreadMissing => "thread has no row",
            Differs::ThreadStrategy => "row has another strategy than the log",
            Differs::ThreadTenant => "row has another tenant than the log",
            Differs::ThreadStatus => "row has another status than the log",
            Differs::Parked => "thread or turn is parked by a worker",
            Differs::ThreadCreated => "row has another creation time than the log",
            Differs::TurnMissing => "turn has no row",
            Differs::TurnStatus => "row of the turn has another status than the log",
            Differs::TurnStarted => "row of the turn has another start than the log",
            Differs::TurnEnded => "row of the turn has another end than the log",
            Differs::TurnError => "row of the turn has another error than the log",
            Differs::TurnOutcome => "row of the turn has another outcome or cause than the log",
            Differs::TurnOpen => "open_turns contradicts the row of the turn",
            Differs::NeverStarted => "row says that the turn started, but the log does not (left as it is)",
            Differs::NoLog => "thread has a row and no log (left as it is)",
            Differs::Unfolded => "log cannot be folded (left as it is)",
            Differs::Moving => "thread changed during the comparison (left to its worker)",
        }
    }
}

/// Expected read model of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Folded {
    pub(crate) head: Head,
    pub(crate) strategy: String,
    pub(crate) tenant: String,
    pub(crate) status: ThreadStatus,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) turns: BTreeMap<TurnId, FoldedTurn>,
    /// Turns that ended and responses of models, without those that a fork copied.
    pub(crate) tally: Tally,
}

/// Expected read model of a turn that has started.
#[derive(Clone, Debug)]
pub(crate) struct FoldedTurn {
    pub(crate) status: TurnStatus,
    pub(crate) started_seq: u64,
    pub(crate) ended_seq: Option<u64>,
    pub(crate) error: Option<String>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) policy: Policy,
    pub(crate) messages: Vec<Message>,
    pub(crate) author: String,
    pub(crate) caller: Option<CallerId>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

impl Rebuilt {
    fn find(&mut self, differences: Vec<Difference>) {
        for difference in &differences {
            *self.found.entry(difference.differs).or_default() += 1;
        }
        self.differences.extend(differences);
        self.differences.truncate(KEPT);
    }

    fn and(mut self, other: Self) -> Self {
        self.threads += other.threads;
        for (differs, count) in other.found {
            *self.found.entry(differs).or_default() += count;
        }
        self.differences.extend(other.differences);
        self.differences.sort_by_key(|difference| (difference.thread, difference.turn, difference.differs));
        self.differences.truncate(KEPT);
        self
    }
}

impl Store {
    /// Folds every log and repairs the rows of its thread and turns where they differ; a dry run writes nothing. Safe
    /// while workers run, because rows are compared and written only while their thread is locked and unchanged. A turn
    /// that has not started is in no log, so a lost row of it cannot be restored.
    ///
    /// A thread that was parked because a worker could not continue it returns to the status in its log, and will be
    /// tried once more.
    ///
    /// A rebuild of all threads also counts again what the statistics show, up to the last complete interval.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if only one thread was requested and it does not exist, and [`Error::Unavailable`] if
    /// the database does not answer.
    pub async fn rebuild(
        &self,
        strategies: &StrategyRegistry,
        round: &ThreadScan,
        dry_run: DryRun,
    ) -> Result<Rebuilt, Error> {
        let (store, strategies, alone) = (self.clone(), strategies.clone(), round.thread.is_some());
        let ranges = round.for_each(self, move |range| {
            let (store, strategies) = (store.clone(), strategies.clone());
            async move {
                let (mut rebuilt, mut counts) = (Rebuilt::default(), Intervals::default());
                let now = clock::now();
                for thread in range.threads {
                    match store.rebuild_one(&strategies, thread, dry_run).await {
                        Err(Error::UnknownThread(_)) if !alone => continue,
                        outcome => {
                            let (differences, tally) = outcome?;
                            rebuilt.find(differences);
                            counts.add(&tally, now);
                        }
                    }
                    rebuilt.threads += 1;
                }
                Ok((rebuilt, counts))
            }
        });
        let (mut rebuilt, mut counts) = (Rebuilt::default(), Intervals::default());
        for (more, more_counts) in ranges.await? {
            rebuilt = rebuilt.and(more);
            counts.merge(more_counts);
        }
        if round.is_of_all() && dry_run == DryRun::No {
            self.replace_counts(counts).await?;
        }
        Ok(rebuilt)
    }

    async fn rebuild_one(
        &self,
        strategies: &StrategyRegistry,
        thread: ThreadId,
        dry_run: DryRun,
    ) -> Result<(Vec<Difference>, Tally), Error> {
        let left =
            |differs, what| Ok((vec![Difference { thread, turn: None, differs, what }], Tally::default()));
        for _ in 0..TRIES {
            let folded = match self.load_since(&Head::start(thread)).await {
                Ok((head, recorded)) if !recorded.is_empty() => fold(strategies, head, &recorded),
                Ok(_) if self.lost_its_log(thread).await? => {
                    return left(Differs::NoLog, "it has rows but no events".to_owned());
                }
                Ok(_) => return Err(Error::UnknownThread(thread)),
                Err(error) => Err(error),
            };
            let mut folded = match folded {
                Ok(folded) => folded,
                Err(
                    error @ (Error::Stuck { .. }
                    | Error::Unreadable { .. }
                    | Error::UnknownStrategy { .. }
                    | Error::TooNew { .. }
                    | Error::Corrupt { .. }),
                ) => return left(Differs::Unfolded, error.to_string()),
                Err(error) => return Err(error),
            };
            let tally = std::mem::take(&mut folded.tally);
            if self.differences(&folded).await?.is_empty() {
                return Ok((Vec::new(), tally));
            }
            match self.put_right(folded, dry_run).await {
                Err(Error::Stale { .. }) => {}
                outcome => return Ok((outcome?, tally)),
            }
        }
        left(Differs::Moving, "it changed during every comparison".to_owned())
    }
}

/// Computes the expected read model from the events, in order.
pub(crate) fn fold(
    strategies: &StrategyRegistry,
    head: Head,
    recorded: &[Recorded],
) -> Result<Folded, Error> {
    let id = head.thread;
    let mut thread = begin(strategies, id, recorded.first().map(|recorded| &recorded.event))?;
    let opened_at = recorded.first().map(|recorded| recorded.at).unwrap_or_default();
    let tenant = match recorded.first().map(|recorded| &recorded.event) {
        Some(Event::Opened(opened)) => &opened.tenant,
        Some(_) | None => DEFAULT_TENANT,
    };
    let mut folded = Folded {
        head,
        strategy: plain(thread.strategy()),
        tenant: plain(tenant),
        status: ThreadStatus::Idle,
        created_at: opened_at,
        updated_at: opened_at,
        turns: BTreeMap::new(),
        tally: Tally::default(),
    };
    let (mut said, mut asked) = (Status::START, AskedModels::default());
    for event in recorded {
        thread.apply(&event.event).map_err(|error| Error::Stuck { thread: id, what: error.to_string() })?;
        let is_fork = matches!(event.event, Event::Forked(_));
        if is_fork {
            folded.tally = Tally::default();
        }
        let mut counted =
            Counted { at: event.at, tenant, strategy: thread.strategy(), ended: None, responses: Vec::new() };
        counted.responses.extend(asked.see(&event.event));
        if let Some(turn) = turn_started_by(&event.event) {
            folded.turns.insert(turn, FoldedTurn::heard(event));
        }
        let now = status(&*thread, Some(&event.event));
        // A fork retries failed work but leaves an idle thread unchanged, and does not record whether its last turn was
        // cancelled.
        let rests = is_fork && now.thread == ThreadStatus::Idle;
        if now == said || rests {
            folded.tally.add(&counted);
            continue;
        }
        counted.ended = now.turn.as_ref().filter(|_| !is_fork);
        folded.tally.add(&counted);
        if let Some(mark) = &now.turn
            && let Some(turn) = folded.turns.get_mut(&mark.turn)
        {
            turn.status = mark.status;
            turn.error = mark.error.as_deref().map(plain);
            turn.outcome.clone_from(&mark.outcome);
            turn.ended_seq = mark.status.is_over().then_some(event.seq);
            turn.updated_at = event.at;
        }
        (folded.status, folded.updated_at) = (now.thread, event.at);
        said = now;
    }
    Ok(folded)
}

impl FoldedTurn {
    /// Builds the turn that starts with this event. The log records neither the client's metadata nor the idempotency
    /// key. The input mode is irrelevant once the turn has started.
    fn heard(recorded: &Recorded) -> Self {
        let mut turn = Self {
            status: TurnStatus::Running,
            started_seq: recorded.seq,
            ended_seq: None,
            error: None,
            outcome: None,
            policy: Policy::Auto,
            messages: Vec::new(),
            author: String::new(),
            caller: None,
            created_at: recorded.at,
            updated_at: recorded.at,
        };
        if let Event::TurnStarted(started) = &recorded.event {
            turn.messages = started.messages.clone();
            (turn.author, turn.caller) = (plain(&started.actor), started.caller.clone());
            turn.created_at = clock::parse_rfc3339(&started.time).unwrap_or(recorded.at);
            turn.policy = match started.kind {
                TurnKind::New => Policy::Auto,
                TurnKind::Answer => Policy::Answer,
            };
        }
        if let Event::InputProvided(provided) = &recorded.event {
            turn.messages = vec![Message::user(words(&provided.response))];
            (turn.author, turn.caller) = (plain(&provided.actor), provided.caller.clone());
            turn.policy = Policy::Answer;
        }
        turn
    }
}

/// Formats this answer as a message. The original wording is not in the log.
fn words(answer: &InputResponse) -> String {
    match answer {
        InputResponse::Accept(Value::Null) => "done".to_owned(),
        InputResponse::Accept(fields) => fields.to_string(),
        InputResponse::Decline => "decline".to_owned(),
        InputResponse::Cancel => "cancel".to_owned(),
    }
}
