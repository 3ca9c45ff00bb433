//! `turnfold thread cost`: tokens and money, counted from the logs, by whatever one likes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use audit::{Share, Spending, Took};
use serde_json::{Value, json};
use shared::{Event, usd};
use store::{Conditions, Error, Reader, Recorded, Store, ThreadId, TurnFilter, TurnId};
use worker::world::Price;

use crate::{
    args::{By, Round, word},
    commands::{
        Given,
        upkeep::{over_seen, spinner},
    },
    config::{ProviderSettings, Settings},
    engine::price,
    exit::Exit,
    output::{self, counted},
};

/// How many rows are read at a time.
const PAGE: u64 = 500;

/// How many groups are counted apart; what comes after is counted together.
const GROUPS: usize = 10_000;

/// Where the groups that are too many are counted.
const OTHERS: &str = "(others)";

/// What is counted, group by group; of any number of threads, only those of the ranges that are being read are in memory.
#[derive(Default)]
struct Count {
    groups: BTreeMap<String, Took>,
    all: Took,
    threads: u64,
}

/// How it is counted.
struct How {
    store: Store,
    by: By,
    /// Only of the turns that fulfil these, where any are asked for.
    turns: Option<Conditions>,
    prices: BTreeMap<String, Price>,
}

/// Counts the logs of a range.
struct Counter {
    how: Arc<How>,
    count: Arc<Mutex<Count>>,
    logs: Vec<Log>,
    unread: Option<Error>,
}

/// One of them.
struct Log {
    thread: ThreadId,
    strategy: String,
    tenant: String,
    spending: Spending,
}

pub(super) async fn cost(given: &Given, store: &Store, by: By, round: Round) -> anyhow::Result<Exit> {
    let spinner = spinner()?;
    // All turns of a thread are of one tenant, so that alone needs no look at them.
    let only_some = round.conditions.is_some() || round.since.is_some();
    let round = over_seen(given, store, round, &spinner).await?;
    let turns = only_some.then(|| round.turns.clone());
    let how = Arc::new(How { store: store.clone(), by, turns, prices: prices(&given.settings) });
    let count = Arc::new(Mutex::new(Count::default()));
    let all = Arc::clone(&count);
    let counter = move || {
        let (how, count) = (Arc::clone(&how), Arc::clone(&all));
        Counter { how, count, logs: Vec::new(), unread: None }
    };
    // Whoever counts holds the count.
    drop(store.read_logs(&round, counter).await?);
    spinner.finish_and_clear();
    let count = Arc::into_inner(count).map(|it| it.into_inner().unwrap_or_else(PoisonError::into_inner));
    tell(given, by, &count.context("somebody still counts")?)?;
    Ok(Exit::Ok)
}

impl Reader for Counter {
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>) {
        let event = match event {
            Ok(it) => it.event,
            Err(error) => {
                self.unread.get_or_insert(error);
                return;
            }
        };
        if let Event::Opened(opened) = &event {
            let (strategy, tenant) = (opened.strategy.clone(), opened.tenant.clone());
            self.logs.push(Log { thread, strategy, tenant, spending: Spending::default() });
        }
        if let Some(log) = self.logs.last_mut().filter(|it| it.thread == thread) {
            log.spending.see(&event, &|model, meter| self.how.prices.get(model)?.of(meter));
        }
    }

    async fn pause(&mut self) -> Result<(), Error> {
        if let Some(error) = self.unread.take() {
            return Err(error);
        }
        for log in std::mem::take(&mut self.logs) {
            let turns = self.how.turns(log.thread).await?;
            let batch = self.how.batch(log.thread).await?;
            let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
            count.threads += 1;
            for (share, took) in log.spending.shares() {
                if turns.as_ref().is_none_or(|it| it.contains(&share.turn)) {
                    count.add(group(self.how.by, &log, batch.as_deref(), share), took);
                }
            }
        }
        Ok(())
    }
}

impl Count {
    fn add(&mut self, group: String, took: &Took) {
        self.all.add(took);
        let full = GROUPS <= self.groups.len() && !self.groups.contains_key(&group);
        self.groups.entry(if full { OTHERS.to_owned() } else { group }).or_default().add(took);
    }
}

impl How {
    /// The turns of a thread that count, if not all do.
    async fn turns(&self, thread: ThreadId) -> Result<Option<Vec<TurnId>>, Error> {
        let Some(conditions) = &self.turns else { return Ok(None) };
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let filter =
                TurnFilter { thread: Some(thread), conditions: Some(conditions), ..TurnFilter::default() };
            let page = self.store.turns(filter, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(Some(all)) };
            after = Some(last.id);
            all.extend(page.iter().map(|it| it.id));
        }
    }

    /// The batch that opened a thread, if that is what is counted by.
    async fn batch(&self, thread: ThreadId) -> Result<Option<String>, Error> {
        Ok(match self.by {
            By::Batch => self.store.batch_of(thread).await?.map(|it| it.to_string()),
            By::Node | By::Turn | By::Thread | By::Tenant | By::Strategy | By::Model => None,
        })
    }
}

fn group(by: By, log: &Log, batch: Option<&str>, share: &Share) -> String {
    match by {
        By::Node => format!("{}/{}", log.strategy, share.node),
        By::Turn => share.turn.to_string(),
        By::Thread => log.thread.to_string(),
        By::Batch => batch.unwrap_or("(no batch)").to_owned(),
        By::Tenant => log.tenant.clone(),
        By::Strategy => log.strategy.clone(),
        By::Model if share.model.is_empty() => "(no model)".to_owned(),
        By::Model => share.model.clone(),
    }
}

/// What models cost today, by `provider/model`.
fn prices(settings: &Settings) -> BTreeMap<String, Price> {
    let of = |(provider, it): (&String, &ProviderSettings)| match it {
        ProviderSettings::Http { prices, .. } => {
            prices.iter().map(|(name, it)| (format!("{provider}/{name}"), price(it))).collect()
        }
        ProviderSettings::Script { .. } => Vec::new(),
    };
    settings.providers.iter().flat_map(of).collect()
}

fn tell(given: &Given, by: By, count: &Count) -> anyhow::Result<()> {
    let name = word(&by);
    let name = name.as_str();
    let mut groups: Vec<(&String, &Took)> = count.groups.iter().collect();
    groups.sort_by_key(|(name, it)| (u64::MAX - it.micro_usd, u64::MAX - it.input_tokens, *name));
    let took = |it: &Took| {
        json!({
            "model_calls": it.model_calls, "tool_calls": it.tool_calls, "input_tokens": it.input_tokens,
            "output_tokens": it.output_tokens, "usd": usd(it.micro_usd),
            "usd_by_todays_prices": usd(it.micro_usd_by_todays_prices), "ms": it.ms, "untold": it.untold,
            "unpriced": it.unpriced,
        })
    };
    let line = |(group, it): &(&String, &Took)| {
        let mut thing = took(it);
        thing[name] = (*group).clone().into();
        thing
    };
    let things: Vec<Value> = groups.iter().map(line).collect();
    let thing = json!({"by": name, "threads": count.threads, "all": took(&count.all), "groups": things});
    output::one(given.format, &thing, || {
        let row = |name: &str, it: &Took| {
            let [models, tools, input, output] =
                [it.model_calls, it.tool_calls, it.input_tokens, it.output_tokens].map(|it| it.to_string());
            vec![name.to_owned(), models, tools, input, output, format!("{:.6}", usd(it.micro_usd))]
        };
        let rows = groups.iter().map(|(name, it)| row(name, it));
        let head = [name, "model calls", "tool calls", "tokens in", "tokens out", "usd"];
        let table = output::table(&head, rows.chain([row("all", &count.all)]));
        format!("{table}{}", remarks(&count.all))
    })
}

fn remarks(all: &Took) -> String {
    let mut told = String::new();
    if 0 < all.micro_usd_by_todays_prices {
        let usd = usd(all.micro_usd_by_todays_prices);
        told += &format!("\nof that, {usd:.6} had no price then and is counted by the prices of today");
    }
    if 0 < all.unpriced {
        told +=
            &format!("\nwithout the price of {}: see providers.NAME.prices", counted(all.unpriced, "answer"));
    }
    if 0 < all.untold {
        told += &format!("\nwithout the tokens of {}, which nobody told", counted(all.untold, "answer"));
    }
    told
}
