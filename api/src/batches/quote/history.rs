//! Average usage of past turns of a strategy.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use queue::rate_limits::Subject;
use shared::{Event, Request, Usage, UsageTotal, usd};
use store::Turn;

use crate::{
    logs::folded::Folded,
    server::{
        openai_ids::float,
        problem::{ApiError, Kind},
        state::AppState,
    },
};

/// Maximum number of past turns that are averaged.
const PAST: u64 = 50;

/// Number of logs read concurrently.
const AT_ONCE: usize = 16;

/// Usage of one model, provider or MCP server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    pub(super) requests: f64,
    pub(super) tokens: f64,
    pub(super) usd: f64,
    pub(super) seconds: f64,
}

/// Average usage of a turn.
#[derive(Debug)]
pub(super) struct Average {
    pub(super) turns: u64,
    pub(super) usd: f64,
    pub(super) tokens: f64,
    /// Duration from start to end.
    pub(super) seconds: f64,
    /// Model responses without a price, in all turns together.
    pub(super) responses_without_price: u64,
    pub(super) of: BTreeMap<Subject, Use>,
}

impl Use {
    /// Adds another usage, multiplied.
    pub(super) fn add(&mut self, other: &Self, times: f64) {
        self.requests += other.requests * times;
        self.tokens += other.tokens * times;
        self.usd += other.usd * times;
        self.seconds += other.seconds * times;
    }

    fn note(&mut self, meter: &Usage) {
        self.requests += 1.0;
        self.tokens += float(meter.input_tokens.saturating_add(meter.output_tokens));
        self.usd += usd(meter.micro_usd.unwrap_or_default());
        self.seconds += float(meter.duration_ms) / 1000.0;
    }
}

/// Returns the average usage of a tenant's last turns with a strategy. Returns none if there are none.
pub(super) async fn average(
    app: &AppState,
    tenant: &str,
    strategy: &str,
) -> Result<Option<Average>, ApiError> {
    let turns = app.backends.store.past_turns(tenant, strategy, PAST).await?;
    let pending: Vec<_> = turns.into_iter().map(|turn| usage_of(app, turn)).collect();
    let averages: Vec<Option<Average>> = stream::iter(pending).buffered(AT_ONCE).try_collect().await?;
    let mut all = averages.into_iter().flatten();
    let Some(mut sum) = all.next() else { return Ok(None) };
    for average in all {
        sum.turns += average.turns;
        sum.usd += average.usd;
        sum.tokens += average.tokens;
        sum.seconds += average.seconds;
        sum.responses_without_price += average.responses_without_price;
        for (subject, used) in average.of {
            sum.of.entry(subject).or_default().add(&used, 1.0);
        }
    }
    let each = 1.0 / float(sum.turns);
    for used in sum.of.values_mut() {
        let whole = std::mem::take(used);
        used.add(&whole, each);
    }
    Ok(Some(Average { usd: sum.usd * each, tokens: sum.tokens * each, seconds: sum.seconds * each, ..sum }))
}

/// Returns the usage of one turn. Returns none if its log cannot be read, or if it belongs to the copied part of a
/// fork, where the source thread counts it.
async fn usage_of(app: &AppState, turn: Turn) -> Result<Option<Average>, ApiError> {
    let Some((started, ended)) = turn.started_seq.zip(turn.ended_seq) else { return Ok(None) };
    let readable = |folded: Result<Arc<Folded>, ApiError>| match folded {
        Err(error) if error.kind == Kind::Damaged => Ok(None),
        folded => folded.map(Some),
    };
    let Some(whole) = readable(Folded::load(app, turn.thread, None).await)? else { return Ok(None) };
    if whole.forked.as_ref().is_some_and(|forked| started <= forked.seq) {
        return Ok(None);
    }
    let (mut before, mut began) = (UsageTotal::default(), 0);
    let mut of: BTreeMap<Subject, Use> = BTreeMap::new();
    let seen = |folded: &Folded| {
        let Some(last) = folded.last() else { return };
        if last.seq == started {
            (before, began) = (*folded.thread.usage(), last.at);
        }
        let ends_attempt = matches!(last.event, Event::Answered(_) | Event::AttemptFailed(_));
        let Some(slot) = last.event.slot().filter(|_| ends_attempt) else { return };
        let usage = last.event.spent().map(|(_, usage)| usage).unwrap_or_default();
        // A request made before the turn started may be answered in it, if the turn provides the input that the request
        // needed.
        let Some(request) = folded.request(slot).filter(|_| started < last.seq) else { return };
        for subject in subjects(request) {
            of.entry(subject).or_default().note(&usage);
        }
    };
    let walked = Folded::walk(app, turn.thread, started.saturating_sub(1), ended, seen).await;
    let Some(folded) = readable(walked)? else { return Ok(None) };
    let (took, over) = (folded.thread.usage(), folded.last().map_or(began, |last| last.at));
    Ok(Some(Average {
        turns: 1,
        usd: usd(took.micro_usd.saturating_sub(before.micro_usd)),
        tokens: float(took.tokens().saturating_sub(before.tokens())),
        seconds: float(u64::try_from(over.saturating_sub(began)).unwrap_or_default()) / 1e6,
        responses_without_price: took.responses_without_price.saturating_sub(before.responses_without_price),
        of,
    }))
}

/// Returns the models, providers and servers whose limits a request counts against.
fn subjects(request: &Request) -> Vec<Subject> {
    match request {
        Request::Chat { model, .. } => {
            let provider = model.split_once('/').map(|(provider, _)| Subject::Provider(provider.to_owned()));
            [Some(Subject::Model(model.clone())), provider].into_iter().flatten().collect()
        }
        Request::ListTools { server }
        | Request::CallTool { server, .. }
        | Request::ListPrompts { server }
        | Request::GetPrompt { server, .. } => vec![Subject::Server(server.clone())],
        Request::ReadMore { .. }
        | Request::Describe { .. }
        | Request::Search { .. }
        | Request::Index { .. }
        | Request::Simulate(_) => Vec::new(),
    }
}
