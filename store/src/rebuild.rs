//! Makes the read models again from the events: what `threads` and `turns` must say is the fold of the log.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use shared::{DEFAULT_TENANT, Event, Hearing, Message, Policy, Supply};

use crate::{
    DryRun, Error, Head, Recorded, Round, Store, Strategies, ThreadId, ThreadStatus, TurnId, TurnStatus,
    log::{heard_by, plain},
    thread_log::{Status, begin, status},
    time,
};

/// How many differences are kept; all are counted.
const KEPT: usize = 100;

/// How often a thread is folded again that moved while it was compared.
const TRIES: usize = 3;

/// What a rebuilding found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// How many threads were looked at.
    pub threads: u64,
    /// How many differences there were, by what differed.
    pub found: BTreeMap<Differs, u64>,
    /// The first of them, at most a hundred.
    pub differences: Vec<Difference>,
}

/// Where the read model is not as the log says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Of which thread.
    pub thread: ThreadId,
    /// Of which turn, if it is one's row.
    pub turn: Option<TurnId>,
    /// What differs.
    pub differs: Differs,
    /// How, in words.
    pub what: String,
}

/// What may differ between a log and the read model of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Differs {
    /// The thread had no row.
    ThreadMissing,
    /// Another strategy stood in the thread's row.
    ThreadStrategy,
    /// Another tenant stood in the thread's row.
    ThreadTenant,
    /// Another status stood in the thread's row.
    ThreadStatus,
    /// The row says that a worker could not go on with the thread, which no log tells.
    Parked,
    /// Another time of opening stood in the thread's row.
    ThreadCreated,
    /// The turn had no row.
    TurnMissing,
    /// Another status stood in the turn's row.
    TurnStatus,
    /// Another place of hearing stood in the turn's row.
    TurnHeard,
    /// Another end stood in the turn's row.
    TurnEnded,
    /// Another error stood in the turn's row.
    TurnError,
    /// `open_turns` said otherwise than the turn's row whether it is over.
    TurnOpen,
    /// The turn's row says that it was heard, and the log does not: left as it is.
    Unheard,
    /// The thread, or a turn of it, has a row, and there is no log: left as it is.
    NoLog,
    /// The log cannot be folded: left as it is.
    Unfolded,
    /// The thread moved whenever it was compared: whoever moves it writes its rows.
    Moving,
}

impl Differs {
    /// Whether the log knows better.
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
            | Differs::TurnHeard
            | Differs::TurnEnded
            | Differs::TurnError
            | Differs::TurnOpen => true,
            Differs::Unheard | Differs::NoLog | Differs::Unfolded | Differs::Moving => false,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Differs::ThreadMissing => "thread had no row",
            Differs::ThreadStrategy => "thread had another strategy",
            Differs::ThreadTenant => "thread had another tenant",
            Differs::ThreadStatus => "thread had another status",
            Differs::Parked => "thread or turn was parked",
            Differs::ThreadCreated => "thread had another time of opening",
            Differs::TurnMissing => "turn had no row",
            Differs::TurnStatus => "turn had another status",
            Differs::TurnHeard => "turn had another place of hearing",
            Differs::TurnEnded => "turn had another end",
            Differs::TurnError => "turn had another error",
            Differs::TurnOpen => "turn was wrongly told as open, or as over",
            Differs::Unheard => "turn is heard in its row only (left as it is)",
            Differs::NoLog => "thread has a row and no log (left as it is)",
            Differs::Unfolded => "log cannot be folded (left as it is)",
            Differs::Moving => "thread moved meanwhile (left to whoever moves it)",
        }
    }
}

/// What the read model must say of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Folded {
    pub(crate) head: Head,
    pub(crate) strategy: String,
    pub(crate) tenant: String,
    pub(crate) status: ThreadStatus,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) turns: BTreeMap<TurnId, FoldedTurn>,
}

/// What the read model must say of a turn that was heard.
#[derive(Clone, Debug)]
pub(crate) struct FoldedTurn {
    pub(crate) status: TurnStatus,
    pub(crate) heard_seq: u64,
    pub(crate) ended_seq: Option<u64>,
    pub(crate) error: Option<String>,
    pub(crate) policy: Policy,
    pub(crate) messages: Vec<Message>,
    pub(crate) author: String,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

impl Rebuilt {
    fn find(&mut self, differences: Vec<Difference>) {
        for it in &differences {
            *self.found.entry(it.differs).or_default() += 1;
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
        self.differences.sort_by_key(|it| (it.thread, it.turn, it.differs));
        self.differences.truncate(KEPT);
        self
    }
}

impl Store {
    /// Folds every log, and writes into the rows of its thread and of its turns what does not stand there as the log
    /// says; in a dry run, nothing is written. Beside workers it is safe: rows are compared and written only while
    /// their thread stands still. A turn that waits unheard is in no log: if its row is lost, nobody knows of it.
    ///
    /// A thread that was parked because a worker could not go on with it is as its log says again: it will be tried
    /// once more.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if there is not the one that alone was meant, [`Error::Unavailable`] if the database
    /// does not answer.
    pub async fn rebuild(
        &self,
        strategies: &Strategies,
        round: &Round,
        dry_run: DryRun,
    ) -> Result<Rebuilt, Error> {
        let (store, strategies, alone) = (self.clone(), strategies.clone(), round.thread.is_some());
        let ranges = round.go(self, move |range| {
            let (store, strategies) = (store.clone(), strategies.clone());
            async move {
                let mut rebuilt = Rebuilt::default();
                for thread in range.threads {
                    match store.rebuild_one(&strategies, thread, dry_run).await {
                        Err(Error::UnknownThread(_)) if !alone => continue,
                        outcome => rebuilt.find(outcome?),
                    }
                    rebuilt.threads += 1;
                }
                Ok(rebuilt)
            }
        });
        Ok(ranges.await?.into_iter().fold(Rebuilt::default(), Rebuilt::and))
    }

    async fn rebuild_one(
        &self,
        strategies: &Strategies,
        thread: ThreadId,
        dry_run: DryRun,
    ) -> Result<Vec<Difference>, Error> {
        let left = |differs, what| Ok(vec![Difference { thread, turn: None, differs, what }]);
        for _ in 0..TRIES {
            let folded = match self.load_since(&Head::start(thread)).await {
                Ok((head, recorded)) if !recorded.is_empty() => fold(strategies, head, &recorded),
                Ok(_) if self.lost_its_log(thread).await? => {
                    return left(Differs::NoLog, "it has rows and no event".to_owned());
                }
                Ok(_) => return Err(Error::UnknownThread(thread)),
                Err(error) => Err(error),
            };
            let folded = match folded {
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
            if self.differences(&folded).await?.is_empty() {
                return Ok(Vec::new());
            }
            match self.put_right(folded, dry_run).await {
                Err(Error::Stale { .. }) => {}
                outcome => return outcome,
            }
        }
        left(Differs::Moving, "it moved whenever it was compared".to_owned())
    }
}

/// What the read model must say, as it was said event by event.
pub(crate) fn fold(strategies: &Strategies, head: Head, recorded: &[Recorded]) -> Result<Folded, Error> {
    let id = head.thread;
    let mut thread = begin(strategies, id, recorded.first().map(|it| &it.event))?;
    let opened_at = recorded.first().map(|it| it.at).unwrap_or_default();
    let tenant = match recorded.first().map(|it| &it.event) {
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
    };
    let mut said = Status::START;
    for it in recorded {
        thread.apply(&it.event).map_err(|error| Error::Stuck { thread: id, what: error.to_string() })?;
        if let Some(turn) = heard_by(&it.event) {
            folded.turns.insert(turn, FoldedTurn::heard(it));
        }
        let now = status(&*thread, Some(&it.event));
        // A fork goes on with what had failed. It leaves what rests as it stood, and does not tell whether that was called off.
        let rests = matches!(it.event, Event::Forked(_)) && now.thread == ThreadStatus::Idle;
        if now == said || rests {
            continue;
        }
        if let Some(mark) = &now.turn
            && let Some(turn) = folded.turns.get_mut(&mark.turn)
        {
            turn.status = mark.status;
            turn.error = mark.error.as_deref().map(plain);
            turn.ended_seq = mark.status.is_over().then_some(it.seq);
            turn.updated_at = it.at;
        }
        (folded.status, folded.updated_at) = (now.thread, it.at);
        said = now;
    }
    Ok(folded)
}

impl FoldedTurn {
    /// A turn that is heard with this event. The log does not keep what the client wants to find again, nor the key of
    /// the submission; whether words were to be taken as new or as they fit makes no difference once they are heard.
    fn heard(recorded: &Recorded) -> Self {
        let mut turn = Self {
            status: TurnStatus::Running,
            heard_seq: recorded.seq,
            ended_seq: None,
            error: None,
            policy: Policy::Auto,
            messages: Vec::new(),
            author: String::new(),
            created_at: recorded.at,
            updated_at: recorded.at,
        };
        if let Event::Heard(it) = &recorded.event {
            turn.messages = it.messages.clone();
            turn.author = plain(&it.by);
            turn.created_at = time::micros(&it.time).unwrap_or(recorded.at);
            turn.policy = match it.hearing {
                Hearing::Input => Policy::Auto,
                Hearing::Answer => Policy::Answer,
            };
        }
        if let Event::Supplied(it) = &recorded.event {
            turn.messages = vec![Message::user(words(&it.answer))];
            turn.author = plain(&it.by);
            turn.policy = Policy::Answer;
        }
        turn
    }
}

/// Words that are read as this answer: those that it came in are in no log.
fn words(answer: &Supply) -> String {
    match answer {
        Supply::Accept(Value::Null) => "done".to_owned(),
        Supply::Accept(fields) => fields.to_string(),
        Supply::Decline => "decline".to_owned(),
        Supply::Cancel => "cancel".to_owned(),
    }
}
