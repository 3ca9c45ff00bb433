//! What turns of a strategy took before: the base of a quote.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use shared::{Asked, Event, Meter, Request, Tally, usd};
use store::{Turn, limits::Subject};

use super::wire::float;
use crate::{
    fold::Log,
    house::House,
    problem::{Kind, Problem},
};

/// How many past turns of a strategy are looked at.
const PAST: u64 = 50;

/// How many logs are read at once.
const AT_ONCE: usize = 16;

/// What was taken of one subject of limits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    pub(super) requests: f64,
    pub(super) tokens: f64,
    pub(super) usd: f64,
    pub(super) seconds: f64,
}

/// What a turn took on average, by those that were looked at.
#[derive(Debug)]
pub(super) struct Average {
    pub(super) turns: u64,
    pub(super) usd: f64,
    pub(super) tokens: f64,
    /// From when it was heard to its end.
    pub(super) seconds: f64,
    /// Answers of models without a price, of all turns.
    pub(super) unpriced: u64,
    pub(super) of: BTreeMap<Subject, Use>,
}

impl Use {
    /// So much more.
    pub(super) fn add(&mut self, other: &Self, times: f64) {
        self.requests += other.requests * times;
        self.tokens += other.tokens * times;
        self.usd += other.usd * times;
        self.seconds += other.seconds * times;
    }

    fn note(&mut self, meter: &Meter) {
        self.requests += 1.0;
        self.tokens += float(meter.input_tokens.saturating_add(meter.output_tokens));
        self.usd += usd(meter.micro_usd.unwrap_or_default());
        self.seconds += float(meter.ms) / 1000.0;
    }
}

/// What the last turns of this tenant under a strategy took on average; none, if there are none.
pub(super) async fn average(house: &House, tenant: &str, strategy: &str) -> Result<Option<Average>, Problem> {
    let turns = house.parts.store.past_turns(tenant, strategy, PAST).await?;
    let looked: Vec<_> = turns.into_iter().map(|turn| one(house, turn)).collect();
    let looked: Vec<Option<Average>> = stream::iter(looked).buffered(AT_ONCE).try_collect().await?;
    let mut all = looked.into_iter().flatten();
    let Some(mut sum) = all.next() else { return Ok(None) };
    for it in all {
        sum.turns += it.turns;
        sum.usd += it.usd;
        sum.tokens += it.tokens;
        sum.seconds += it.seconds;
        sum.unpriced += it.unpriced;
        for (subject, used) in it.of {
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

/// What one turn took by itself, of all that its thread did; nothing, if its log cannot be read, or if it was heard in what
/// that has copied of another's: it is told there.
async fn one(house: &House, turn: Turn) -> Result<Option<Average>, Problem> {
    let Some((heard, ended)) = turn.heard_seq.zip(turn.ended_seq) else { return Ok(None) };
    let log = match Log::load(house, turn.thread).await {
        Err(problem) if problem.kind == Kind::Damaged => return Ok(None),
        log => log?,
    };
    if log.forked().is_some_and(|it| heard <= it.seq) {
        return Ok(None);
    }
    let mut thread = log.graph.begin();
    let (mut before, mut began, mut over) = (Tally::default(), 0, 0);
    let mut of: BTreeMap<Subject, Use> = BTreeMap::new();
    let mut asked: Option<&Asked> = None;
    for it in log.recorded.iter().take_while(|it| it.seq <= ended) {
        if thread.apply(&it.event).is_err() {
            return Ok(None);
        }
        if it.seq <= heard {
            (before, began) = (*thread.took(), it.at);
        }
        over = it.at;
        let (slot, meter) = match &it.event {
            Event::Asked(it) => {
                asked = Some(it);
                continue;
            }
            Event::Answered(it) => (it.slot, it.meter.as_ref()),
            Event::Faltered(it) => (it.slot, it.meter.as_ref()),
            Event::Opened(_)
            | Event::Heard(_)
            | Event::Attempted(_)
            | Event::Doubted(_)
            | Event::Reconciled(_)
            | Event::GaveUp(_)
            | Event::Wanted(_)
            | Event::Supplied(_)
            | Event::Decided(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::Cancelled(_)
            | Event::Forked(_) => continue,
        };
        // What was asked before it was heard may be answered in it, where it supplies what was wanted for that.
        let Some(request) = asked.filter(|_| heard < it.seq).and_then(|it| it.requests.get(slot)) else {
            continue;
        };
        for subject in subjects(request) {
            of.entry(subject).or_default().note(meter.unwrap_or(&Meter::default()));
        }
    }
    let took = thread.took();
    Ok(Some(Average {
        turns: 1,
        usd: usd(took.micro_usd.saturating_sub(before.micro_usd)),
        tokens: float(took.tokens().saturating_sub(before.tokens())),
        seconds: float(u64::try_from(over.saturating_sub(began)).unwrap_or_default()) / 1e6,
        unpriced: u64::from(took.unpriced.saturating_sub(before.unpriced)),
        of,
    }))
}

/// Whose limits a request counts against.
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
        Request::Describe { .. } | Request::Search { .. } | Request::Index { .. } | Request::Rehearse(_) => {
            Vec::new()
        }
    }
}
