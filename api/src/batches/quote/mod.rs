//! Predictions of the cost and duration of a batch, based on past turns of the same strategies and on the limits. A
//! quote covers the remaining lines of an existing batch, or all lines of a batch that has not been created.

mod history;

use std::collections::{BTreeMap, HashSet};

use api_types::{Bottleneck, BottleneckKind, Problem, Quote, QuoteBasis};
use axum::{Json, extract::State};
use queue::rate_limits::Subject;
use serde::Deserialize;
use shared::usd;
use store::batches::{FileId, ItemState};
use utoipa::IntoParams;

use self::history::{Average, Use, average};
use super::{
    endpoint::BatchEndpoint,
    line::{BatchTerms, LineReader},
    lines::{FilePosition, Names, read},
    lookup::find,
};
use crate::{
    files::lookup::unknown_file,
    server::{
        bounds,
        extract::{Path, Query},
        openai_ids::{batch_name, file_name, float},
        principal::{Actor, Principal},
        problem::ApiError,
        state::{AppState, SharedState},
        tenant_rules::Submitter,
    },
};

/// Query parameters of a quote.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct QuoteParams {
    /// Number of workers, which the API does not know. Default: 1.
    #[param(minimum = 1, maximum = 1000000)]
    workers: Option<u64>,
}

/// Lines to be quoted.
#[derive(Default)]
struct Work {
    batch: Option<String>,
    /// Number of lines to run, by strategy.
    lines: BTreeMap<String, u64>,
    reused: u64,
    invalid: u64,
}

/// Quote a batch
///
/// Predicts the cost of the batch's validated lines that were not submitted, from the logs of past turns with the same
/// strategies, and the duration, from the limits of models and servers and the slots of workers. `POST
/// /v1/batches?quote=true` does the same before a batch is created.
#[utoipa::path(
    get, path = "/v1/batches/{id}/quote", tag = "bulk", operation_id = "quote_batch",
    params(("id" = String, Path, description = "Id of the batch."), QuoteParams),
    responses(
        (status = 200, description = "The prediction and its basis.", body = Quote),
        (status = 404, description = "The batch does not exist.", body = Problem)
    )
)]
pub(crate) async fn quote(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<String>,
    Query(params): Query<QuoteParams>,
) -> Result<Json<Quote>, ApiError> {
    let batch = find(&app, &principal, &id).await?;
    let work = Work {
        batch: Some(batch_name(batch.id)),
        lines: app.backends.store.waiting_by_strategy(batch.id).await?.into_iter().collect(),
        reused: batch.counts.of(ItemState::Reused),
        invalid: batch.counts.of(ItemState::Invalid),
    };
    Ok(Json(predict(&app, &batch.tenant, batch.window, params.workers, work).await?))
}

/// Quotes a batch that has not been created. Validates its file without writing anything.
pub(super) async fn quote_new(
    app: &AppState,
    new: &store::batches::NewBatch,
    workers: Option<u64>,
) -> Result<Quote, ApiError> {
    let terms = BatchTerms {
        submitter: Submitter { tenant: &new.tenant, is_operator: new.by_operator },
        author: Actor { name: new.author.clone(), caller: new.caller.clone(), trace_parent: None },
        priority: new.priority,
    };
    let parser = LineReader::new(app, BatchEndpoint::of_batch(&new.endpoint)?, terms);
    // Validating a file takes long, so the number of concurrent quotes is limited to leave capacity for other requests.
    let _permit = app.quotes.acquire().await;
    let work = read_lines(app, &parser, new).await?;
    predict(app, &new.tenant, new.window, workers, work).await
}

async fn read_lines(
    app: &AppState,
    parser: &LineReader<'_>,
    new: &store::batches::NewBatch,
) -> Result<Work, ApiError> {
    let (store, file): (_, FileId) = (&app.backends.store, new.input_file);
    let (mut work, mut names, mut from) = (Work::default(), Names::default(), FilePosition::default());
    while let Some(chunk) = store.chunk(file, from.chunk).await? {
        let (lines, last) = read(parser, from, &chunk, app.batches.line_max);
        from = FilePosition { chunk: from.chunk + 1, line: last };
        let (mut fresh, all) = (Vec::new(), lines.len() as u64);
        for line in lines {
            // If several lines have the same `custom_id`, the first one runs.
            let is_first = names.add(line.custom_id.as_deref(), line.nth).is_ok();
            if let Ok(cache_key) = line.checked
                && is_first
            {
                fresh.push((line.custom_id.unwrap_or_default(), cache_key));
            }
        }
        work.invalid += all - fresh.len() as u64;
        let known = match new.reuse {
            true => store.known_lines(&new.tenant, &fresh).await?,
            false => HashSet::new(),
        };
        for (nth, (_, cache_key)) in fresh.into_iter().enumerate() {
            if known.contains(&nth) {
                work.reused += 1;
            } else {
                *work.lines.entry(cache_key.strategy).or_default() += 1;
            }
        }
    }
    // A file that is deleted while it is read ends early.
    if store.file(file).await?.is_none() {
        return Err(unknown_file(&file_name(file)));
    }
    Ok(work)
}

async fn predict(
    app: &AppState,
    tenant: &str,
    window: u64,
    workers: Option<u64>,
    work: Work,
) -> Result<Quote, ApiError> {
    let workers = bounds::check("workers", workers, &bounds::WORKERS)?;
    let mut known = Vec::new();
    for (strategy, items) in work.lines {
        let average = average(app, tenant, &strategy).await?;
        known.push((strategy, items, average));
    }
    // If one strategy is unknown, the total is unknown. Folding from 0.0 avoids the sum -0.0 of an empty list.
    let sum = |each: fn(&Average) -> f64| {
        let mut each = known.iter().map(|(_, items, average)| Some(each(average.as_ref()?) * float(*items)));
        each.try_fold(0.0, |sum, amount| Some(sum + amount?))
    };
    let (money, tokens, seconds_of_work) =
        (sum(|used| used.usd), sum(|used| used.tokens), sum(|used| used.seconds));
    let slowest = seconds_of_work.map(|work| {
        let mut taken: BTreeMap<&Subject, Use> = BTreeMap::new();
        for (_, items, average) in &known {
            for (subject, used) in average.iter().flat_map(|average| &average.of) {
                taken.entry(subject).or_default().add(used, float(*items));
            }
        }
        bottleneck(app, work, window, workers.unwrap_or(1), &taken)
    });
    let (seconds, bottleneck) = slowest.unzip();
    Ok(Quote {
        batch_id: work.batch,
        object: "batch.quote".to_owned(),
        items: known.iter().map(|(_, items, _)| items).sum(),
        reused: work.reused,
        invalid: work.invalid,
        usd: money,
        tokens,
        seconds_of_work,
        seconds,
        bottleneck,
        based_on: known.into_iter().map(basis).collect(),
    })
}

/// Returns the duration in seconds and the limit that determines it: the largest duration that any limit requires on
/// its own.
fn bottleneck(
    app: &AppState,
    work: f64,
    window: u64,
    workers: u64,
    taken: &BTreeMap<&Subject, Use>,
) -> (f64, Bottleneck) {
    let slots = app.capacity.slots.saturating_mul(workers).max(1);
    let mut all = vec![match window < slots {
        true => (work / float(window.max(1)), limit_of(BottleneckKind::Window, None, float(window))),
        false => (work / float(slots), limit_of(BottleneckKind::Slots, None, float(slots))),
    }];
    for (subject, used) in taken {
        let Some(cap) = app.capacity.caps.get(subject) else { continue };
        let limits = [
            (cap.concurrency.map(float), used.seconds, BottleneckKind::Concurrency),
            (cap.requests_per_minute.map(float), used.requests * 60.0, BottleneckKind::RequestsPerMinute),
            (cap.tokens_per_minute.map(float), used.tokens * 60.0, BottleneckKind::TokensPerMinute),
            (cap.micro_usd_per_day.map(usd), used.usd * 86_400.0, BottleneckKind::UsdPerDay),
        ];
        for (limit, amount, kind) in limits {
            if let Some(limit) = limit.filter(|limit| *limit > 0.0) {
                all.push((amount / limit, limit_of(kind, Some(subject.to_string()), limit)));
            }
        }
    }
    all.into_iter()
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or_else(|| (0.0, limit_of(BottleneckKind::Slots, None, float(slots))))
}

fn limit_of(kind: BottleneckKind, subject: Option<String>, limit: f64) -> Bottleneck {
    Bottleneck { kind, subject, limit }
}

fn basis((strategy, items, average): (String, u64, Option<Average>)) -> QuoteBasis {
    QuoteBasis {
        strategy,
        items,
        past_turns: average.as_ref().map_or(0, |average| average.turns),
        usd_each: average.as_ref().map(|average| average.usd),
        tokens_each: average.as_ref().map(|average| average.tokens),
        seconds_each: average.as_ref().map(|average| average.seconds),
        responses_without_price: average.as_ref().map_or(0, |average| average.responses_without_price),
    }
}
