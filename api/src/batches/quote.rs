//! What the rest of a batch will probably take, by what turns of the same strategies took before.

use axum::{Json, extract::State};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;
use shared::Tally;
use utoipa::ToSchema;

use super::{
    routes::find,
    wire::{float, name, usd},
};
use crate::{auth::Acting, extract::Path, house::Inside, problem::Problem, turns::show_ended};

/// How many past turns of a strategy are looked at.
const PAST: u64 = 50;

/// How many logs are read at once.
const AT_ONCE: usize = 16;

/// What the rest of a batch will probably take.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Quote {
    /// The batch.
    batch_id: String,
    /// `batch.quote`.
    object: &'static str,
    /// How many lines are not begun yet.
    items: u64,
    /// What they will cost, in US dollars; null where nothing is known of a strategy.
    usd: Option<f64>,
    /// How many tokens they will take.
    tokens: Option<f64>,
    /// For how many seconds models and tools will be at work for them, all added up: as many of them as workers have slots
    /// run side by side.
    seconds_of_work: Option<f64>,
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
    /// What each took of them, on average.
    seconds_each: Option<f64>,
    /// How many answers of models in them had no price: their money is not counted.
    unpriced: u64,
}

/// Quotes a batch
///
/// What its lines that are not begun yet will probably take, by the logs of past turns under the same strategies.
#[utoipa::path(
    get, path = "/v1/batches/{id}/quote", tag = "bulk", operation_id = "quote_batch",
    params(("id" = String, Path, description = "The batch.")),
    responses(
        (status = 200, description = "A prediction, and what it is based on.", body = Quote),
        (status = 404, description = "There is no such batch.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn quote(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<String>,
) -> Result<Json<Quote>, Problem> {
    let batch = find(&house, &acting, &id).await?;
    let mut based_on = Vec::new();
    for (strategy, items) in house.parts.store.waiting_by_strategy(batch.id).await? {
        let past = house.parts.store.past_turns(&batch.tenant, &strategy, PAST).await?;
        let shown: Vec<_> = past.into_iter().map(|turn| show_ended(&house, turn)).collect();
        let shown: Vec<_> = stream::iter(shown).buffered(AT_ONCE).try_collect().await?;
        let took: Vec<Tally> = shown.into_iter().map(|(_, took)| took).collect();
        based_on.push(basis(strategy, items, &took));
    }
    // What is unknown of one strategy is unknown of the whole.
    let sum = |each: fn(&Basis) -> Option<f64>| {
        based_on.iter().map(|it| Some(each(it)? * float(it.items))).sum::<Option<f64>>()
    };
    let (money, tokens, seconds_of_work) =
        (sum(|it| it.usd_each), sum(|it| it.tokens_each), sum(|it| it.seconds_each));
    let items = based_on.iter().map(|it| it.items).sum();
    Ok(Json(Quote {
        batch_id: name(batch.id),
        object: "batch.quote",
        items,
        usd: money,
        tokens,
        seconds_of_work,
        based_on,
    }))
}

fn basis(strategy: String, items: u64, past: &[Tally]) -> Basis {
    let past_turns = past.len() as u64;
    let each = |sum: f64| (past_turns > 0).then(|| sum / float(past_turns));
    Basis {
        strategy,
        items,
        past_turns,
        usd_each: each(usd(past.iter().map(|it| it.micro_usd).sum())),
        tokens_each: each(float(past.iter().map(Tally::tokens).sum())),
        seconds_each: each(float(past.iter().map(|it| it.ms).sum()) / 1000.0),
        unpriced: past.iter().map(|it| u64::from(it.unpriced)).sum(),
    }
}
