//! How turns are looked at: one, or a list of them.

use std::{collections::BTreeMap, time::Duration};

use axum::{Json, extract::State};
use serde::Deserialize;
use shared::Tally;
use store::{
    Conditions, Order, ThreadId, TurnFilter, TurnId,
    time::{self, rfc3339},
};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    auth::Acting,
    ears::{Ears, Sound},
    extract::{Path, Query},
    fold::{Log, Outcome},
    house::{House, Inside},
    page::{Page, limit},
    problem::{Kind, Problem},
    schema::{Message, Turn, TurnStatus},
};

/// The longest that a response waits, in seconds.
const WAIT_MAX: u64 = 60;

/// How often a response that waits looks by itself: a turn may end without an event, refused or called off unheard.
const LOOK: Duration = Duration::from_secs(2);

/// How long a client is ready to wait.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Patience {
    /// Waits until the turn has ended, at most so many seconds.
    #[param(minimum = 0, maximum = 60, example = 20)]
    wait: Option<u64>,
}

impl Patience {
    /// How long, if at all.
    pub(crate) fn check(self) -> Result<Option<Duration>, Problem> {
        match self.wait {
            Some(wait) if WAIT_MAX < wait => {
                Err(Kind::Malformed.because(format!("wait is 0 to {WAIT_MAX} seconds, and not {wait}")))
            }
            Some(0) | None => Ok(None),
            Some(wait) => Ok(Some(Duration::from_secs(wait))),
        }
    }
}

/// Which turns.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Those of this thread.
    thread_id: Option<Uuid>,
    /// Those in this status.
    #[param(inline)]
    status: Option<TurnStatus>,
    /// Those that fulfil these conditions: `FIELD OPERATOR VALUE`, joined by `and`. Fields are status, strategy, tenant,
    /// priority, author, thread, error, cause, created, updated and metadata.KEY; operators = != ~ (contains) < >. A
    /// value is a word or stands between quotes; a time is RFC 3339 or so long ago, as 7d.
    #[param(example = "status = failed and error ~ 'timed out' and age < 7d")]
    r#where: Option<String>,
    /// In which order: `newest` first if nobody says, or `oldest` first.
    #[param(inline)]
    order: Option<TurnOrder>,
    /// Those after this turn: the last of the page before.
    after: Option<Uuid>,
    /// At most so many; 50 if nobody says.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// In which order turns are listed.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnOrder {
    /// The last one submitted first.
    Newest,
    /// The first one submitted first.
    Oldest,
}

/// Lists turns
///
/// Newest first, unless `order` says otherwise.
#[utoipa::path(
    get, path = "/v1/turns", tag = "turns", operation_id = "list_turns", params(Which),
    responses(
        (status = 200, description = "A page of turns.", body = Page<Turn>),
        (status = 422, description = "The conditions make no sense; the detail names the place.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list(
    State(house): Inside,
    acting: Acting,
    Query(which): Query<Which>,
) -> Result<Json<Page<Turn>>, Problem> {
    let limit = limit(which.limit)?;
    if let Some(after) = which.after {
        find(&house, &acting, after).await?;
    }
    let (tenant, status) = (acting.only(), which.status.map(Into::into));
    let conditions = conditions(which.r#where.as_deref(), time::now())?;
    let order = match which.order {
        Some(TurnOrder::Oldest) => Order::OldestFirst,
        Some(TurnOrder::Newest) | None => Order::NewestFirst,
    };
    let filter =
        TurnFilter { tenant, thread: which.thread_id, status, conditions: conditions.as_ref(), order };
    let rows = house.parts.store.turns(filter, which.after, limit + 1).await?;
    let Page { data, has_more } = Page::cut(rows, limit);
    Ok(Json(Page { data: show_all(&house, data).await?, has_more }))
}

/// Reads conditions, if there are any.
pub(crate) fn conditions(text: Option<&str>, now: i64) -> Result<Option<Conditions>, Problem> {
    let read = |text| {
        Conditions::parse(text, now).map_err(|it| {
            Kind::Invalid.because(format!("where: at character {}: {}", it.at, it.what)).mend(it.mend)
        })
    };
    text.map(read).transpose()
}

/// Shows a turn
///
/// With `wait`, once it has ended, or after so many seconds.
#[utoipa::path(
    get, path = "/v1/turns/{id}", tag = "turns", operation_id = "get_turn",
    params(("id" = Uuid, Path, description = "The turn."), Patience),
    responses(
        (status = 200, description = "The turn.", body = Turn),
        (status = 404, description = "There is no such turn.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<Uuid>,
    Query(patience): Query<Patience>,
) -> Result<Json<Turn>, Problem> {
    let wait = patience.check()?;
    let turn = until_over(&house, find(&house, &acting, id).await?, wait).await?;
    Ok(Json(show(&house, turn).await?))
}

/// The row of a turn, if whoever asks sees it: what is another tenant's is not there.
pub(crate) async fn find(house: &House, acting: &Acting, id: TurnId) -> Result<store::Turn, Problem> {
    let turn = house.parts.store.turn(id).await?.filter(|it| acting.sees(&it.tenant));
    turn.ok_or_else(|| store::Error::UnknownTurn(id).into())
}

/// The row of a turn that was found before, as it is now.
pub(crate) async fn look(house: &House, id: TurnId) -> Result<store::Turn, Problem> {
    let turn = house.parts.store.turn(id).await?;
    turn.ok_or_else(|| store::Error::UnknownTurn(id).into())
}

/// The turn as it is once it is over, or after `wait`, or when the door closes.
pub(crate) async fn until_over(
    house: &House,
    turn: store::Turn,
    wait: Option<Duration>,
) -> Result<store::Turn, Problem> {
    let Some(wait) = wait.filter(|_| !turn.status.is_over()) else { return Ok(turn) };
    let deadline = Instant::now() + wait;
    let mut ears = Ears::listen(house, turn.thread, LOOK).await;
    loop {
        // After it began to listen, so that nothing falls between.
        let turn = look(house, turn.id).await?;
        if turn.status.is_over() {
            return Ok(turn);
        }
        match tokio::time::timeout_at(deadline, news(&mut ears)).await {
            Ok(Sound::Notice(_) | Sound::Silence) => (),
            Ok(Sound::Stop) | Err(_) => return look(house, turn.id).await,
        }
    }
}

/// The next sound that is more than a piece of somebody's words.
async fn news(ears: &mut Ears) -> Sound {
    loop {
        match ears.next().await {
            Sound::Notice(
                store::Notice::Delta { .. } | store::Notice::Recalled { .. } | store::Notice::Paused,
            ) => (),
            sound @ (Sound::Notice(store::Notice::Appended { .. }) | Sound::Silence | Sound::Stop) => {
                return sound;
            }
        }
    }
}

/// A turn as clients see it.
pub(crate) async fn show(house: &House, turn: store::Turn) -> Result<Turn, Problem> {
    let mut shown = show_all(house, vec![turn]).await?;
    shown.pop().ok_or_else(|| Kind::Internal.because("a turn was lost on its way out"))
}

/// A turn that has ended as clients see it, and what its thread took up to its end, if its log can be read.
pub(crate) async fn show_ended(house: &House, turn: store::Turn) -> Result<(Turn, Option<Tally>), Problem> {
    let said = ask(house, turn.thread, &[&turn]).await?;
    let took = match said.outcomes.get(&turn.id) {
        Some(outcome) => Some(outcome.thread_took),
        // It ended without being heard, or its log says nothing.
        None => match took(house, turn.thread).await {
            Err(problem) if problem.kind == Kind::Damaged => None,
            took => Some(took?),
        },
    };
    let mut said = BTreeMap::from([(turn.thread, said)]);
    Ok((compose(turn, &mut said), took))
}

/// What all turns of a thread took so far.
pub(crate) async fn took(house: &House, thread: ThreadId) -> Result<Tally, Problem> {
    let thread = Log::load(house, thread).await?.thread()?;
    Ok(*thread.took())
}

/// What the log of a thread says of some of its turns.
struct Said {
    strategy: String,
    outcomes: BTreeMap<TurnId, Outcome>,
    /// Why it says nothing.
    unreadable: Option<String>,
}

async fn show_all(house: &House, turns: Vec<store::Turn>) -> Result<Vec<Turn>, Problem> {
    let mut by_thread: BTreeMap<ThreadId, Vec<&store::Turn>> = BTreeMap::new();
    for turn in &turns {
        by_thread.entry(turn.thread).or_default().push(turn);
    }
    let mut said = BTreeMap::new();
    for (thread, turns) in by_thread {
        said.insert(thread, ask(house, thread, &turns).await?);
    }
    Ok(turns.into_iter().map(|turn| compose(turn, &mut said)).collect())
}

/// A log is read only where a turn has ended in it, and the thread's row only where no log was.
async fn ask(house: &House, thread: ThreadId, turns: &[&store::Turn]) -> Result<Said, Problem> {
    let unreadable = if turns.iter().any(|it| it.ended_seq.is_some()) {
        let told = |log: &Log| Ok((log.graph.name().to_owned(), log.outcomes(turns)?));
        match Log::load(house, thread).await.and_then(|log| told(&log)) {
            Ok((strategy, outcomes)) => return Ok(Said { strategy, outcomes, unreadable: None }),
            // One log that cannot be read must not hide the turns of others.
            Err(problem) if problem.kind == Kind::Damaged => Some(problem.detail().to_owned()),
            Err(problem) => return Err(problem),
        }
    } else {
        None
    };
    let row = house.parts.store.thread(thread).await?.ok_or(store::Error::UnknownThread(thread))?;
    Ok(Said { strategy: row.strategy, outcomes: BTreeMap::new(), unreadable })
}

fn compose(turn: store::Turn, said: &mut BTreeMap<ThreadId, Said>) -> Turn {
    let said = said.get_mut(&turn.thread);
    let (strategy, outcome, unreadable) = match said {
        Some(said) => {
            let outcome = said.outcomes.remove(&turn.id).unwrap_or_default();
            (said.strategy.clone(), outcome, said.unreadable.clone())
        }
        None => (String::new(), Outcome::default(), None),
    };
    Turn {
        id: turn.id,
        thread_id: turn.thread,
        tenant: turn.tenant,
        strategy,
        status: turn.status.into(),
        priority: turn.priority.into(),
        input: turn.messages.iter().map(Message::from).collect(),
        output: outcome.output,
        interrupt: outcome.interrupt,
        took: outcome.took,
        spent: outcome.spent,
        error: turn.error.or(unreadable),
        cause: turn.cause,
        not_before: turn.due_at.map(rfc3339),
        metadata: turn.metadata,
        author: turn.author,
        created_at: rfc3339(turn.created_at),
        updated_at: rfc3339(turn.updated_at),
        heard_seq: turn.heard_seq,
        ended_seq: turn.ended_seq,
    }
}
