//! What a batch will probably take, by what turns of the same strategies took before and by what holds them back: of a
//! batch that is there, the rest of it; of one that nobody has made yet, all of it.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use shared::usd;
use store::{
    bulk::{FileId, ItemState},
    limits::{Cap, Subject},
};
use utoipa::{IntoParams, ToSchema};

use super::{
    line::{Judge, Terms},
    past::{Average, Use, average},
    routes::find,
    validate::{Place, read},
    wire::{float, name},
};
use crate::{
    auth::Acting,
    extract::{Path, Query},
    files,
    house::{House, Inside},
    openai::error::ErrorReply,
    problem::Problem,
};

/// What there is to run turns with, and what may be taken of the world: what the operator told workers, once more for quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// How many nodes a worker works on at once.
    pub slots: u64,
    /// What all workers together may take.
    pub caps: BTreeMap<Subject, Cap>,
}

/// How it is quoted.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct How {
    /// How many workers there will be, as the api does not know; 1 if nobody says.
    #[param(minimum = 1)]
    workers: Option<u64>,
}

/// What a batch, or the rest of it, will probably take.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Quote {
    /// The batch; null, if there is none yet.
    batch_id: Option<String>,
    /// `batch.quote`.
    object: &'static str,
    /// How many lines are to be run.
    items: u64,
    /// How many have an earlier result, which costs nothing. Of a batch that is there, those that were reused so far.
    reused: u64,
    /// How many cannot be run.
    bad: u64,
    /// What they will cost, in US dollars; null where nothing is known of a strategy.
    usd: Option<f64>,
    /// How many tokens they will take.
    tokens: Option<f64>,
    /// For how many seconds turns will be under way for them, all added up.
    seconds_of_work: Option<f64>,
    /// After how many seconds it will be done, if nothing else is.
    seconds: Option<f64>,
    /// What it will have waited for most.
    held_by: Option<String>,
    /// What that is based on, strategy by strategy.
    based_on: Vec<Basis>,
}

/// What is known of one strategy.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Basis {
    /// Which.
    strategy: String,
    /// How many lines are its.
    items: u64,
    /// How many past turns of it were looked at, the last ones of this tenant; with none, nothing is known.
    past_turns: u64,
    /// What each took of them, on average.
    usd_each: Option<f64>,
    /// What each took of them, on average.
    tokens_each: Option<f64>,
    /// How long each was under way, on average, its waits for limits included.
    seconds_each: Option<f64>,
    /// How many answers of models in them had no price: their money is not counted.
    unpriced: u64,
}

/// What is to be quoted.
#[derive(Default)]
struct Work {
    batch: Option<String>,
    /// How many lines are to be run, by strategy.
    lines: BTreeMap<String, u64>,
    reused: u64,
    bad: u64,
}

/// Quotes a batch
///
/// What its lines that were looked at and are not begun yet will probably take, by the logs of past turns under the same strategies, and when
/// they will be done, by the limits of models and servers and the slots of workers. `POST /v1/batches?quote=true` tells the
/// same of a batch before there is one.
#[utoipa::path(
    get, path = "/v1/batches/{id}/quote", tag = "bulk", operation_id = "quote_batch",
    params(("id" = String, Path, description = "The batch."), How),
    responses(
        (status = 200, description = "A prediction, and what it is based on.", body = Quote),
        (status = 404, description = "There is no such batch.", body = ErrorReply)
    )
)]
pub(crate) async fn quote(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<String>,
    Query(how): Query<How>,
) -> Result<Json<Quote>, Problem> {
    let batch = find(&house, &acting, &id).await?;
    let work = Work {
        batch: Some(name(batch.id)),
        lines: house.parts.store.waiting_by_strategy(batch.id).await?.into_iter().collect(),
        reused: batch.counts.of(ItemState::Reused),
        bad: batch.counts.of(ItemState::Bad),
    };
    Ok(Json(of(&house, &batch.tenant, batch.window, how.workers, work).await?))
}

/// Quotes a batch that is not made: its file is read as it would be, and nothing is written.
pub(super) async fn before(
    house: &House,
    new: &store::bulk::NewBatch,
    workers: Option<u64>,
) -> Result<Quote, Problem> {
    let terms =
        Terms { endpoint: &new.endpoint, tenant: &new.tenant, author: &new.author, priority: new.priority };
    let judge = Judge::new(house, terms)?;
    // A file is long, and each line of it is read: so few are at once that the api does other things besides.
    let _turn = house.quotes.acquire().await;
    let work = look_through(house, &judge, new).await?;
    of(house, &new.tenant, new.window, workers, work).await
}

async fn look_through(
    house: &House,
    judge: &Judge<'_>,
    new: &store::bulk::NewBatch,
) -> Result<Work, Problem> {
    let (store, file): (_, FileId) = (&house.parts.store, new.input_file);
    let (mut work, mut names, mut from) = (Work::default(), HashSet::new(), Place::default());
    while let Some(chunk) = store.chunk(file, from.chunk).await? {
        let (lines, last) = read(judge, from, &chunk, house.bulk.line_max);
        from = Place { chunk: from.chunk + 1, line: last };
        let (mut fresh, all) = (Vec::new(), lines.len() as u64);
        for line in lines {
            // Of lines of one name the first is run. Of names only hashes are kept: a file may have a million.
            let is_first = line.custom_id.as_ref().is_none_or(|it| names.insert(hash(it)));
            if let Ok(memo) = line.checked
                && is_first
            {
                fresh.push((line.custom_id.unwrap_or_default(), memo));
            }
        }
        work.bad += all - fresh.len() as u64;
        let known = match new.reuse {
            true => store.known_lines(&new.tenant, &fresh).await?,
            false => HashSet::new(),
        };
        for (nth, (_, memo)) in fresh.into_iter().enumerate() {
            if known.contains(&nth) {
                work.reused += 1;
            } else {
                *work.lines.entry(memo.strategy).or_default() += 1;
            }
        }
    }
    // One that is thrown away meanwhile ends too soon.
    if store.file(file).await?.is_none() {
        return Err(files::unknown(&files::name(file)));
    }
    Ok(work)
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

async fn of(
    house: &House,
    tenant: &str,
    window: u64,
    workers: Option<u64>,
    work: Work,
) -> Result<Quote, Problem> {
    let mut known = Vec::new();
    for (strategy, items) in work.lines {
        let average = average(house, tenant, &strategy).await?;
        known.push((strategy, items, average));
    }
    // What is unknown of one strategy is unknown of the whole. Folded from 0, as the sum of none is -0.
    let sum = |each: fn(&Average) -> f64| {
        let mut each = known.iter().map(|(_, items, it)| Some(each(it.as_ref()?) * float(*items)));
        each.try_fold(0.0, |sum, it| Some(sum + it?))
    };
    let (money, tokens, seconds_of_work) = (sum(|it| it.usd), sum(|it| it.tokens), sum(|it| it.seconds));
    let held = seconds_of_work.map(|work| {
        let mut taken: BTreeMap<&Subject, Use> = BTreeMap::new();
        for (_, items, average) in &known {
            for (subject, used) in average.iter().flat_map(|it| &it.of) {
                taken.entry(subject).or_default().add(used, float(*items));
            }
        }
        held(house, work, window, workers.unwrap_or(1).max(1), &taken)
    });
    let (seconds, held_by) = held.unzip();
    Ok(Quote {
        batch_id: work.batch,
        object: "batch.quote",
        items: known.iter().map(|(_, items, _)| items).sum(),
        reused: work.reused,
        bad: work.bad,
        usd: money,
        tokens,
        seconds_of_work,
        seconds,
        held_by,
        based_on: known.into_iter().map(basis).collect(),
    })
}

/// After how many seconds it is done, and what holds it back most: each limit alone would take so long.
fn held(
    house: &House,
    work: f64,
    window: u64,
    workers: u64,
    taken: &BTreeMap<&Subject, Use>,
) -> (f64, String) {
    let slots = house.capacity.slots.saturating_mul(workers).max(1);
    let mut all = vec![match window < slots {
        true => (work / float(window.max(1)), format!("the batch's window of {window} lines")),
        false => (work / float(slots), format!("the slots of the workers, {slots}")),
    }];
    for (subject, used) in taken {
        let Some(cap) = house.capacity.caps.get(subject) else { continue };
        let limits = [
            (cap.concurrency.map(float), used.seconds, "requests at once"),
            (cap.requests_per_minute.map(float), used.requests * 60.0, "requests a minute"),
            (cap.tokens_per_minute.map(float), used.tokens * 60.0, "tokens a minute"),
            (cap.micro_usd_per_day.map(usd), used.usd * 86_400.0, "US dollars a day"),
        ];
        for (limit, amount, what) in limits {
            if let Some(limit) = limit.filter(|it| *it > 0.0) {
                all.push((amount / limit, format!("the limit of {subject}, {limit} {what}")));
            }
        }
    }
    all.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
}

fn basis((strategy, items, average): (String, u64, Option<Average>)) -> Basis {
    Basis {
        strategy,
        items,
        past_turns: average.as_ref().map_or(0, |it| it.turns),
        usd_each: average.as_ref().map(|it| it.usd),
        tokens_each: average.as_ref().map(|it| it.tokens),
        seconds_each: average.as_ref().map(|it| it.seconds),
        unpriced: average.as_ref().map_or(0, |it| it.unpriced),
    }
}
