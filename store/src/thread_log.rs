//! One thread's log, open for writing: what it says (the fold) and where the next event goes.
//!
//! Whoever writes to a log, worker or api, does it through here, so that the read model moves with the events in one
//! place.

use std::{collections::BTreeMap, time::Duration};

use shared::{Event, Graph, Replay, Standing};
use tracing::debug;

use crate::{
    Error, Head, Log, Mark, Notice, Parts, Recorded, ThreadId, ThreadStatus, TurnMark, TurnStatus,
    log::heard_by,
};

/// The strategies that a worker or an api knows, by name.
#[derive(Clone)]
pub struct Strategies(BTreeMap<&'static str, &'static dyn Graph>);

impl Strategies {
    /// These.
    pub fn new(graphs: impl IntoIterator<Item = &'static dyn Graph>) -> Self {
        Self(graphs.into_iter().map(|it| (it.name(), it)).collect())
    }

    /// And this one; it takes the place of one with the same name.
    pub fn with(mut self, graph: &'static dyn Graph) -> Self {
        self.0.insert(graph.name(), graph);
        self
    }

    /// The one called `name`.
    pub fn find(&self, name: &str) -> Option<&'static dyn Graph> {
        self.0.get(name).copied()
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &'static dyn Graph> + '_ {
        self.0.values().copied()
    }

    /// Their names.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }
}

/// One thread's log, open for writing.
pub struct ThreadLog {
    thread: Box<dyn Replay>,
    head: Head,
    /// About how many bytes it takes.
    weight: usize,
    /// Folded in, and not yet stored.
    unwritten: Vec<Event>,
    /// What the read model says.
    marked: Status,
    /// What faltered last, and is not to be tried again yet.
    wait: Option<Wait>,
}

/// A pause before something is tried again.
struct Wait {
    /// In microseconds since the Unix epoch.
    until: i64,
    /// What faltered, in a line.
    why: String,
}

/// What the read model says of a thread.
#[derive(PartialEq)]
pub(crate) struct Status {
    pub(crate) thread: ThreadStatus,
    pub(crate) turn: Option<TurnMark>,
}

impl Status {
    /// Of one that has just been opened.
    pub(crate) const START: Self = Self { thread: ThreadStatus::Idle, turn: None };
}

impl ThreadLog {
    /// Reads a log and folds it.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`]; [`Error::UnknownStrategy`]; [`Error::Unreadable`] and [`Error::Stuck`] if no turnfold
    /// of this version could have written it; [`Error::Unavailable`].
    pub async fn open<L: Log>(
        parts: &Parts<L>,
        strategies: &Strategies,
        id: ThreadId,
    ) -> Result<Self, Error> {
        let (head, recorded) = parts.store.load_since(&Head::start(id)).await?;
        let mut this = Self {
            thread: begin(strategies, id, recorded.first().map(|it| &it.event))?,
            head: Head::start(id),
            weight: 0,
            unwritten: Vec::new(),
            marked: Status::START,
            wait: None,
        };
        this.take_in(head, &recorded, parts.store.now())?;
        Ok(this)
    }

    /// Reads what others have appended meanwhile, and folds it in.
    ///
    /// # Errors
    ///
    /// As [`Self::open`]; this log must then be dropped.
    pub async fn refresh<L: Log>(&mut self, parts: &Parts<L>) -> Result<(), Error> {
        let (head, recorded) = parts.store.load_since(&self.head).await?;
        self.take_in(head, &recorded, parts.store.now())
    }

    fn take_in(&mut self, head: Head, recorded: &[Recorded], now: i64) -> Result<(), Error> {
        for (wanted, it) in (self.head.seq..).zip(recorded) {
            if it.seq != wanted {
                let what = format!("event {} stands where event {wanted} belongs: some are missing", it.seq);
                return Err(Error::Corrupt { thread: self.head.thread, what });
            }
            self.fold(&it.event)?;
            self.put_off(&it.event, it.at, now);
        }
        if let Some(last) = recorded.last() {
            self.head = head;
            self.marked = status(&*self.thread, Some(&last.event));
        }
        Ok(())
    }

    fn fold(&mut self, event: &Event) -> Result<(), Error> {
        let stuck = |err: shared::Corrupt| Error::Stuck { thread: self.head.thread, what: err.to_string() };
        self.weight = self.weight.saturating_add(event.weight());
        self.thread.apply(event).map_err(stuck)
    }

    /// Takes note of how long the thread must wait after this event, which is read now.
    ///
    /// ## Why a pause may be passed over
    ///
    /// Another worker's clock may be ahead. If it is by more than the pause is long, nobody can tell when that is over, and to
    /// wait for that worker's hour would be worse than to ask once too soon.
    fn put_off(&mut self, event: &Event, at: i64, now: i64) {
        if ends_pauses(event) {
            self.wait = None;
        }
        if let Event::Faltered(faltered) = event {
            let pause = i64::try_from(faltered.again_after_ms.unwrap_or(0)).unwrap_or(i64::MAX);
            let pause = pause.saturating_mul(1_000);
            let until = at.saturating_add(pause);
            if at.saturating_sub(now) <= pause && self.wait.as_ref().is_none_or(|it| it.until < until) {
                let why = faltered.error.lines().next().unwrap_or_default().to_owned();
                self.wait = Some(Wait { until, why });
            }
        }
    }

    /// What the log says.
    pub fn thread(&self) -> &dyn Replay {
        &*self.thread
    }

    /// Which thread it is.
    pub fn id(&self) -> ThreadId {
        self.head.thread
    }

    /// About how many bytes it takes in memory, without what every thread takes.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// For how long nothing is to be tried again from `now` on, in microseconds since the Unix epoch, and what faltered; none,
    /// if something may be. What is not stored has not begun to wait.
    pub fn waits(&self, now: i64) -> Option<(Duration, &str)> {
        let Wait { until, why } = self.wait.as_ref()?;
        let left = u64::try_from(until.saturating_sub(now)).ok().filter(|it| *it > 0)?;
        Some((Duration::from_micros(left), why))
    }

    /// Folds an event in; [`Self::flush`] stores it.
    ///
    /// # Errors
    ///
    /// [`Error::Stuck`] if it cannot happen here.
    pub fn push(&mut self, event: Event) -> Result<(), Error> {
        self.fold(&event)?;
        // At once, as whoever takes the next step does not wait until this is stored.
        if ends_pauses(&event) {
            self.wait = None;
        }
        self.unwritten.push(event);
        Ok(())
    }

    /// Stores what was folded in, all or nothing, and moves the read model with it.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if another was faster: this log is then out of date and must be dropped.
    pub async fn flush<L: Log>(&mut self, parts: &Parts<L>) -> Result<(), Error> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let now = status(&*self.thread, self.unwritten.last());
        let mark = (now != self.marked).then(|| Mark { status: now.thread, turn: now.turn.clone() });
        self.head = parts.store.append(&self.head, &self.unwritten, mark.as_ref()).await?;
        debug!(thread = %self.head.thread, seq = self.head.seq, events = self.unwritten.len(), "appended");
        let at = parts.store.now();
        for event in std::mem::take(&mut self.unwritten) {
            self.put_off(&event, at, at);
        }
        self.marked = now;
        parts.news.publish(self.head.thread, Notice::Appended { seq: self.head.seq }).await;
        Ok(())
    }

    /// Writes once more what the read model says already: whether the store takes anything now.
    ///
    /// # Errors
    ///
    /// As [`Self::flush`], and whatever keeps the store from writing.
    pub async fn rewrite<L: Log>(&self, parts: &Parts<L>) -> Result<(), Error> {
        let mark = Mark { status: self.marked.thread, turn: self.marked.turn.clone() };
        parts.store.mend(&self.head, &mark).await
    }

    /// Stores answers the moment they land, while the thread is still lent to the requests under way; the caller
    /// folds them in with [`Self::settle`] once it is free.
    ///
    /// # Errors
    ///
    /// As [`Self::flush`].
    pub async fn store_landed<L: Log>(
        head: &mut Head,
        parts: &Parts<L>,
        landed: &[Event],
    ) -> Result<(), Error> {
        *head = parts.store.append(head, landed, None).await?;
        parts.news.publish(head.thread, Notice::Appended { seq: head.seq }).await;
        Ok(())
    }

    /// Folds in what [`Self::store_landed`] stored up to `head`, the last of it at that time.
    ///
    /// # Errors
    ///
    /// [`Error::Stuck`] if it could not have happened.
    pub fn settle(&mut self, head: Head, landed: &[Event], at: i64) -> Result<(), Error> {
        for event in landed {
            self.fold(event)?;
            self.put_off(event, at, at);
        }
        self.head = head;
        Ok(())
    }

    /// Whether the event by which a turn is heard is folded in, and not yet stored.
    pub fn begins_turn(&self) -> bool {
        self.unwritten.iter().any(|it| heard_by(it).is_some())
    }

    /// Where what is stored ends.
    pub fn head(&self) -> &Head {
        &self.head
    }
}

/// Whether what faltered is over with this, or tried again at once: its pause is nobody else's.
fn ends_pauses(event: &Event) -> bool {
    matches!(
        event,
        Event::Asked(_)
            | Event::Decided(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::Cancelled(_)
            | Event::Forked(_)
    )
}

/// A thread with nothing folded in yet, under the strategy that its log begins with.
pub(crate) fn begin(
    strategies: &Strategies,
    id: ThreadId,
    first: Option<&Event>,
) -> Result<Box<dyn Replay>, Error> {
    let name = match first {
        Some(Event::Opened(opened)) => &opened.strategy,
        None => return Err(Error::UnknownThread(id)),
        Some(_) => return Err(Error::Stuck { thread: id, what: "the log has no beginning".to_owned() }),
    };
    let graph = strategies.find(name).ok_or_else(|| {
        let known = strategies.names().into_iter().map(str::to_owned).collect();
        Error::UnknownStrategy { thread: id, name: name.clone(), known }
    })?;
    Ok(graph.begin())
}

/// What the read model must say of a thread that stands so after `last`.
pub(crate) fn status(thread: &dyn Replay, last: Option<&Event>) -> Status {
    let (status, turn, error) = match thread.standing() {
        Standing::Busy => (ThreadStatus::Busy, TurnStatus::Running, None),
        Standing::Waiting(_) => (ThreadStatus::Interrupted, TurnStatus::Interrupted, None),
        Standing::Failed { node, reason } => {
            (ThreadStatus::Error, TurnStatus::Failed, Some(format!("{node}: {reason}")))
        }
        Standing::Idle if matches!(last, Some(Event::Cancelled(_))) => {
            (ThreadStatus::Idle, TurnStatus::Cancelled, None)
        }
        Standing::Idle => (ThreadStatus::Idle, TurnStatus::Completed, None),
    };
    Status { thread: status, turn: thread.turn().map(|id| TurnMark { turn: id, status: turn, error }) }
}

/// Takes a thread out of the way that cannot go on: its turn fails with the reason, and nobody rings for it again.
///
/// # Errors
///
/// [`Error::Stale`] if the thread moved meanwhile; [`Error::Unavailable`].
pub async fn park<L: Log>(parts: &Parts<L>, thread: ThreadId, error: &str) -> Result<(), Error> {
    let head = parts.store.head(thread).await?;
    let failed = |turn| TurnMark { turn, status: TurnStatus::Failed, error: Some(error.to_owned()) };
    let turn = parts.store.running(thread).await?.map(failed);
    parts.store.mend(&head, &Mark { status: ThreadStatus::Error, turn }).await?;
    while let Some(queued) = parts.store.next_queued(thread).await? {
        parts.store.refuse_queued(queued.id, error).await?;
    }
    Ok(())
}
