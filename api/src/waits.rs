//! Why turns do not run right now, put together from the rows, the queue and the pauses.
//!
//! ## Why some are only counted
//!
//! The rows tell by SQL who waits behind another turn, for a time, or for a person. Why a turn that could go on does not
//! is known to the queue alone; so of those the first ten thousand are looked at, one by one, and the rest is counted. The
//! queue in turn lists its first thousand tokens, and of a turn whose token is not among them nobody knows what it waits for; nor
//! of one whose token a node of a Redis Cluster has that is away.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use serde::Deserialize;
use store::{
    Listed, Pause, PauseKind, Place, Rung, Stance, ThreadId, Unfinished,
    queue::{HeldBy, LIST_MAX},
    time::{self, rfc3339},
};
use utoipa::IntoParams;

use crate::{
    auth::Acting,
    extract::Query,
    house::{House, Inside},
    page::{Page, limit},
    problem::{Kind, Problem},
    schema::{WaitCause, WaitGroup, WaitLine, WaitPage},
};

/// What a turn waits for that was rung for and not heard, as its thread waits for a person.
const ASKED: &str = "its thread waits for a person";

/// How many turns that could go on are looked at.
const LOOKED_AT: u64 = 10_000;

/// How many.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// At most so many turns; 50 if nobody says. The counts are of all.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Tells why turns do not run right now
///
/// Every turn that is not over and not under way, counted by what it waits for, and the first of each in full.
#[utoipa::path(
    get, path = "/v1/queue", tag = "queue", operation_id = "list_waits", params(Which),
    responses((status = 200, description = "What turns wait for.", body = WaitPage))
)]
pub(crate) async fn list(
    State(house): Inside,
    acting: Acting,
    Query(which): Query<Which>,
) -> Result<Json<WaitPage>, Problem> {
    let limit = limit(which.limit)?;
    let (tenant, store) = (acting.only(), &house.parts.store);
    let stances = store.stances(tenant).await?;
    let could = store.unfinished(Stance::Could, tenant, LOOKED_AT).await?;
    let all = stances.get(&Stance::Could).map_or(0, |it| it.turns);
    let count = |some: &[Unfinished]| u64::try_from(some.len()).unwrap_or(u64::MAX);
    let queue = Tokens::look(&house).await?;
    let beyond = all.saturating_sub(count(&could));
    let (unlisted, could): (Vec<_>, Vec<_>) = could.into_iter().partition(|it| queue.is_unlisted(it));
    let not_looked_at = beyond.saturating_add(count(&unlisted));
    let mut waits: Vec<Wait> = could.into_iter().filter_map(|it| queue.wait(it)).collect();
    waits.sort_by_key(|it| (it.cause, it.why.clone(), it.place, it.turn.since));
    let mut groups = grouped(&waits);
    for (stance, cause) in [
        (Stance::Behind, WaitCause::Behind),
        (Stance::NotDue, WaitCause::NotDue),
        (Stance::Person, WaitCause::Person),
    ] {
        let Some(crowd) = stances.get(&stance) else { continue };
        let some = store.unfinished(stance, tenant, limit + 1).await?;
        let until = crowd.due_at.filter(|_| cause == WaitCause::NotDue);
        let (turns, since, until) = (crowd.turns, rfc3339(crowd.since), until.map(rfc3339));
        groups.push(WaitGroup { cause, why: None, turns, since, until, places: None });
        waits.extend(some.into_iter().map(|turn| Wait {
            cause,
            why: None,
            place: None,
            until: turn.due_at.filter(|_| cause == WaitCause::NotDue),
            turn,
        }));
    }
    let Page { data, has_more } = Page::cut(waits, limit).map(WaitLine::from);
    Ok(Json(WaitPage { groups, not_looked_at, data, has_more }))
}

/// A turn, and why it waits.
struct Wait {
    cause: WaitCause,
    why: Option<String>,
    place: Option<u64>,
    until: Option<i64>,
    turn: Unfinished,
}

/// What the queue and the pauses know of threads.
struct Tokens {
    listed: BTreeMap<ThreadId, Listed>,
    /// All that are rung for.
    rung: Rung,
    pauses: Vec<Pause>,
    now: i64,
}

impl Tokens {
    async fn look(house: &House) -> Result<Self, Problem> {
        let pauses = house.parts.store.pauses().await?;
        let away = |error: store::QueueError| Kind::Unavailable.because(error.to_string());
        let queue = &house.parts.queue;
        let list = queue.list(LIST_MAX).await.map_err(away)?;
        let rung = queue.rung().await.map_err(away)?;
        let mut listed: BTreeMap<ThreadId, Listed> = BTreeMap::new();
        for it in list {
            // Of several tokens of a thread the first counts: those that are held come before those that wait.
            listed.entry(it.thread).or_insert(it);
        }
        Ok(Self { listed, rung, pauses, now: time::now() })
    }

    /// Whether the queue has a token for a turn and did not say where, or may have one in a part of it that does not answer.
    fn is_unlisted(&self, turn: &Unfinished) -> bool {
        !self.listed.contains_key(&turn.thread)
            && self.rung.has(turn.thread) != Some(false)
            && self.paused(turn).is_none()
    }

    /// Why a turn that could go on does not; none, if it does.
    fn wait(&self, turn: Unfinished) -> Option<Wait> {
        let place = self.listed.get(&turn.thread).map(|it| &it.place);
        let (cause, why, place, until) = match (place, self.paused(&turn)) {
            (Some(Place::InFlight { .. }), _) => return None,
            (_, Some(pause)) => (WaitCause::Paused, Some(pause.to_string()), None, None),
            (Some(Place::Waiting { position }), None) => (WaitCause::Worker, None, Some(position + 1), None),
            (Some(Place::Delayed { due_in, why: Some(why) }), None) => {
                let cause = match why.held {
                    HeldBy::Retry => WaitCause::Retry,
                    HeldBy::Pause => WaitCause::Paused,
                    HeldBy::Limit => WaitCause::Limit,
                    HeldBy::Worker => return None,
                };
                (cause, Some(why.words.clone()), None, Some(self.now.saturating_add(time::span(*due_in))))
            }
            // A ring that waits for another turn of its thread is none for this one.
            (Some(Place::Delayed { why: None, .. }) | None, None) if turn.is_asked => {
                (WaitCause::Behind, Some(ASKED.to_owned()), None, None)
            }
            (Some(Place::Delayed { why: None, .. }) | None, None) => (WaitCause::Unrung, None, None, None),
        };
        let why = match cause {
            WaitCause::Worker => Some(format!("tenant {}, {}", turn.tenant, turn.priority)),
            WaitCause::Limit
            | WaitCause::Paused
            | WaitCause::Retry
            | WaitCause::Unrung
            | WaitCause::Behind
            | WaitCause::NotDue
            | WaitCause::Person => why,
        };
        Some(Wait { cause, why, place, until, turn })
    }

    fn paused(&self, turn: &Unfinished) -> Option<&Pause> {
        let holds = |it: &&Pause| match it.kind {
            PauseKind::Strategy => it.name == turn.strategy,
            PauseKind::Tenant => it.name == turn.tenant,
            PauseKind::Model => false,
        };
        self.pauses.iter().find(holds)
    }
}

/// Counts what is sorted.
fn grouped(waits: &[Wait]) -> Vec<WaitGroup> {
    let alike = |a: &Wait, b: &Wait| a.cause == b.cause && a.why == b.why;
    let group = |some: &[Wait]| {
        let first = some.first()?;
        let places = || some.iter().filter_map(|it| it.place);
        Some(WaitGroup {
            cause: first.cause,
            why: first.why.clone(),
            turns: u64::try_from(some.len()).unwrap_or(u64::MAX),
            since: rfc3339(some.iter().map(|it| it.turn.since).min()?),
            until: some.iter().filter_map(|it| it.until).min().map(rfc3339),
            places: places().min().zip(places().max()),
        })
    };
    waits.chunk_by(alike).filter_map(group).collect()
}

impl From<Wait> for WaitLine {
    fn from(it: Wait) -> Self {
        let Wait { cause, why, place, until, turn } = it;
        let Unfinished { turn: turn_id, thread: thread_id, tenant, strategy, priority, since, .. } = turn;
        let (priority, since, until) = (priority.into(), rfc3339(since), until.map(rfc3339));
        Self { turn_id, thread_id, tenant, strategy, priority, cause, why, place, since, until }
    }
}
