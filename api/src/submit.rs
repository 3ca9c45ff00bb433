//! How a turn comes in.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{HeaderName, HeaderValue, StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use shared::{Budget, FORMAT, Graph, Message, Opened};
use store::{
    Idempotency, Lane, Opening, Submitted, ThreadId, When, limits::LONGEST_PAUSE, queue::LONGEST_DELAY, time,
};

use crate::{
    auth::{Acting, By},
    extract::{Body, IdempotencyKey, Query},
    house::{House, Inside},
    problem::{Kind, Problem},
    said::said,
    schema::{NewTurn, Turn, Words},
    threads::find,
    turns::{Patience, show, until_over},
};

/// Says that the turn was submitted before.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Submits a turn
///
/// Opens a thread under `strategy`, or goes on with `thread_id`; exactly one of them. The turn waits for its thread's
/// rest and is then heard, not before `not_before` or `delay_seconds` if one of them is said. With `wait`, the response waits until the turn has ended, at most so many seconds.
///
/// With `Idempotency-Key`, the same body sent again gives the same turn.
#[utoipa::path(
    post, path = "/v1/turns", tag = "turns", operation_id = "submit_turn", request_body = NewTurn,
    params(
        Patience,
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated submission the same one."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who submits it; `api` if nobody says."),
        ("X-Turnfold-Tenant" = Option<String>, Header, description = "For whom, where the key is an operator's; in every request it narrows what is seen to that tenant. `default` if nobody says.")
    ),
    responses(
        (status = 202, description = "It is queued, or under way.", body = Turn,
         headers(("Location" = String, description = "The turn."),
                 ("Idempotency-Replayed" = Option<String>, description = "`true` if it was submitted before."))),
        (status = 200, description = "It has ended within `wait`.", body = Turn),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The idempotency key belongs to another request.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "It makes no sense; the detail names the field.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many turns wait: send it again after `Retry-After`.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn submit(
    State(house): Inside,
    acting: Acting,
    By(author): By,
    IdempotencyKey(key): IdempotencyKey,
    Query(patience): Query<Patience>,
    Body { value: new, raw }: Body<NewTurn>,
) -> Result<Response, Problem> {
    let wait = patience.check()?;
    let thread = match (new.strategy, new.thread_id) {
        (Some(strategy), None) => {
            let tuned = Tuned { config: new.config, budget: new.budget };
            Opening::New(opened(&house, &acting, &strategy, tuned, &author)?)
        }
        (None, Some(_)) if new.config.is_some() => {
            let words =
                "config: the thread is configured since it opened; only a new thread takes a configuration";
            return Err(Kind::Invalid
                .because(words)
                .mend("leave `config` out, or open a thread with `strategy`"));
        }
        (None, Some(_)) if new.budget.is_some() => {
            let words =
                "budget: the thread has the one that it opened with; only a new thread takes a budget";
            return Err(Kind::Invalid
                .because(words)
                .mend("leave `budget` out, or open a thread with `strategy`"));
        }
        (None, Some(thread)) => Opening::Existing(find(&house, &acting, thread).await?.id),
        (Some(_), Some(_)) | (None, None) => {
            return Err(
                Kind::Invalid.because("exactly one of `strategy` and `thread_id` says where the turn goes")
            );
        }
    };
    let due_at = due(new.not_before.as_deref(), new.delay_seconds)?;
    let turn = store::NewTurn {
        thread,
        policy: new.policy.into(),
        priority: new.priority.unwrap_or_default().into(),
        messages: words(new.input)?,
        metadata: Value::Object(new.metadata.unwrap_or_default()),
        author,
        idempotency: key.map(|key| Idempotency { key, request_hash: hex::encode(Sha256::digest(&raw)) }),
        due_at,
    };
    take_in(&house, turn, wait).await
}

/// Queues a turn, rings for its thread, and tells how far it has come.
pub(crate) async fn take_in(
    house: &House,
    turn: store::NewTurn,
    wait: Option<Duration>,
) -> Result<Response, Problem> {
    let (turn, known) = enqueue(house, turn).await?;
    if known { told_again(house, turn, wait).await } else { told(house, turn, wait).await }
}

/// Queues a turn and rings for its thread; the turn, and whether it was submitted before.
pub(crate) async fn enqueue(house: &House, turn: store::NewTurn) -> Result<(store::Turn, bool), Problem> {
    let tenant = match &turn.thread {
        Opening::New(opened) => opened.tenant.clone(),
        Opening::Existing(id) | Opening::Asking(id, _) => {
            let thread = house.parts.store.thread(*id).await?;
            thread.ok_or(store::Error::UnknownThread(*id))?.tenant
        }
    };
    if let Err(full) = house.threshold.pass(&house.parts.store, &tenant).await {
        // What is in already is no more than there was.
        let Some(idempotency) = &turn.idempotency else { return Err(full) };
        let known = house.parts.store.submitted(&tenant, idempotency).await?;
        return known.map(|turn| (turn, true)).ok_or(full);
    }
    let submitted = house.parts.store.submit(turn).await?;
    let (known, at_rest) = match &submitted {
        Submitted::New(_) => (false, true),
        Submitted::Behind(_) => (false, false),
        // It was rung for when it was new; should that ring have been lost, a sweep rings.
        Submitted::Known(_) => (true, false),
    };
    let turn = submitted.into_turn();
    tracing::info!(thread = %turn.thread, turn = %turn.id, known, "submitted");
    let early = turn.due_at.map_or(0, |it| it.saturating_sub(time::now()));
    let early = Duration::from_micros(u64::try_from(early).unwrap_or_default());
    // One that is due much later is the sweep's: a ring that waits for it would hide from the sweep, all that time, that
    // the ring of another turn of its thread was lost.
    if at_rest && early <= LONGEST_PAUSE {
        let when = if early.is_zero() { When::Now } else { When::After(early) };
        house.ring_in(turn.thread, &Lane::new(&turn.tenant, turn.priority), when).await;
    }
    Ok((turn, known))
}

/// What a request of which this one is a repetition was told, if there was one. Asked first where a request makes
/// sense only once: what it did must not stand in its own way.
pub(crate) async fn repeated(
    house: &House,
    tenant: &str,
    idempotency: Option<&Idempotency>,
    wait: Option<Duration>,
) -> Result<Option<Response>, Problem> {
    let Some(idempotency) = idempotency else { return Ok(None) };
    match house.parts.store.submitted(tenant, idempotency).await? {
        Some(turn) => told_again(house, turn, wait).await.map(Some),
        None => Ok(None),
    }
}

async fn told_again(house: &House, turn: store::Turn, wait: Option<Duration>) -> Result<Response, Problem> {
    let mut response = told(house, turn, wait).await?;
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// Tells how far a turn has come: once it is over, or after `wait`.
pub(crate) async fn told(
    house: &House,
    turn: store::Turn,
    wait: Option<Duration>,
) -> Result<Response, Problem> {
    let turn = until_over(house, turn, wait).await?;
    let status = if turn.status.is_over() { StatusCode::OK } else { StatusCode::ACCEPTED };
    let turn = show(house, turn).await?;
    let place = format!("/v1/turns/{}", turn.id);
    let mut response = (status, Json(turn)).into_response();
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(LOCATION, place);
    }
    Ok(response)
}

/// What a repeated request to do something to a thread must repeat to be the same.
pub(crate) fn hash_of(what: &str, thread: ThreadId, raw: &[u8]) -> String {
    let hash = Sha256::new().chain_update(what).chain_update([0]).chain_update(thread).chain_update(raw);
    hex::encode(hash.finalize())
}

/// What a client tunes of a new thread.
pub(crate) struct Tuned {
    pub(crate) config: Option<Map<String, Value>>,
    pub(crate) budget: Option<Budget>,
}

/// When a turn is due, in microseconds since the Unix epoch; none, if at once.
fn due(not_before: Option<&str>, delay_seconds: Option<u64>) -> Result<Option<i64>, Problem> {
    let (field, at) = match (not_before, delay_seconds) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            let words = "not_before, delay_seconds: at most one of them says when the turn is due";
            return Err(Kind::Invalid.because(words));
        }
        (Some(text), None) => {
            let wrong = || {
                Kind::Invalid
                    .because(format!("not_before: {text:?} is no time"))
                    .mend("write it as RFC 3339, such as 2026-12-24T18:00:00Z")
            };
            ("not_before", time::micros(text).ok_or_else(wrong)?)
        }
        (None, Some(0)) => return Ok(None),
        (None, Some(seconds)) => {
            ("delay_seconds", time::now().saturating_add(time::span(Duration::from_secs(seconds))))
        }
    };
    if at <= time::now().saturating_add(time::span(LONGEST_DELAY)) {
        return Ok(Some(at));
    }
    Err(Kind::Invalid
        .because(format!("{field}: that is more than a year ahead"))
        .mend("submit it when it is less than 366 days ahead"))
}

/// How a thread under this strategy opens.
pub(crate) fn opened(
    house: &House,
    acting: &Acting,
    name: &str,
    tuned: Tuned,
    by: &str,
) -> Result<Opened, Problem> {
    let graph = house.strategies.find(name).ok_or_else(|| unknown(Kind::NamesNoStrategy, house, name))?;
    let config = configure(graph, house.tuned.get(name), tuned.config)?;
    Ok(Opened {
        format: FORMAT,
        strategy: graph.name().to_owned(),
        version: graph.version(),
        config,
        experts: house.experts.clone(),
        budget: tuned.budget.unwrap_or_default().within(&house.budget),
        by: by.to_owned(),
        tenant: acting.tenant().to_owned(),
    })
}

/// No strategy is called so.
pub(crate) fn unknown(kind: Kind, house: &House, name: &str) -> Problem {
    let known = house.strategies.names().join(", ");
    kind.because(format!("strategy: none is called {name:?}; known: {known}"))
}

/// What a client tunes, over what the operator tuned; null if nobody tunes anything.
fn configure(
    graph: &dyn Graph,
    tuned: Option<&Value>,
    asked: Option<Map<String, Value>>,
) -> Result<Value, Problem> {
    let mut config = tuned.cloned().unwrap_or_default();
    if let Some(asked) = asked {
        overlay(&mut config, Value::Object(asked));
    }
    graph.check_config(&config).map_err(|err| {
        Kind::Invalid
            .because(format!("config: {}", said(&err)))
            .mend(format!("GET /v1/strategies/{} tells what may be configured", graph.name()))
    })?;
    Ok(config)
}

/// Lays one configuration over another: objects field by field, anything else as a whole.
pub(crate) fn overlay(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                overlay(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// The words of a turn, if there are any.
pub(crate) fn words(input: Words) -> Result<Vec<Message>, Problem> {
    let messages = match input {
        Words::Text(text) => vec![Message::user(text)],
        Words::Messages(it) => {
            it.messages.into_iter().map(|it| Message::new(it.role.into(), it.content)).collect()
        }
    };
    if messages.is_empty() {
        return Err(Kind::Invalid.because("input: there are no messages"));
    }
    match messages.iter().position(|it| it.content.trim().is_empty()) {
        Some(nth) if messages.len() > 1 => {
            Err(Kind::Invalid.because(format!("input: message {nth} is empty")))
        }
        Some(_) => Err(Kind::Invalid.because("input: it is empty")),
        None => Ok(messages),
    }
}
