//! `turnfold thread cost`: tokens and money, counted from the logs, by whatever one likes.

use std::collections::BTreeMap;

use audit::{Share, Spending, Took};
use serde_json::{Value, json};
use shared::Meter;
use store::{Conditions, Store, Thread, ThreadFilter, ThreadId, Turn, TurnFilter, TurnId, time};
use worker::world::Price;

use crate::{
    args::By,
    commands::Given,
    config::{ProviderSettings, Settings},
    exit::{Exit, Stop},
    output,
};

/// How many rows are read at a time.
const PAGE: u64 = 500;

/// How many groups are counted apart; what comes after is counted together.
const GROUPS: usize = 10_000;

/// Where the groups that are too many are counted.
const OTHERS: &str = "(others)";

/// What was asked for.
pub(super) struct Asked<'a> {
    pub(super) thread: Option<ThreadId>,
    pub(super) by: By,
    pub(super) conditions: Option<&'a str>,
    pub(super) since: Option<&'a str>,
}

/// What is counted, group by group; of any number of threads, only the one that is read is in memory.
struct Count<'a> {
    store: &'a Store,
    by: By,
    conditions: Option<Conditions>,
    groups: BTreeMap<String, Took>,
    all: Took,
    threads: u64,
}

pub(super) async fn cost(given: &Given, store: &Store, asked: Asked<'_>) -> anyhow::Result<Exit> {
    let conditions = conditions(&asked)?;
    let (groups, all) = (BTreeMap::new(), Took::default());
    let mut count = Count { store, by: asked.by, conditions, groups, all, threads: 0 };
    let price = |model: &str, meter: &Meter| priced(&given.settings, model, meter);
    match asked.thread {
        Some(id) => {
            let row = store.thread(id).await?.ok_or(store::Error::UnknownThread(id))?;
            count.thread(&row, &price).await?;
        }
        None => {
            let tenant = given.tenant.as_deref();
            let mut after = None;
            loop {
                let filter = ThreadFilter { tenant, status: None };
                let page = store.threads(filter, after, PAGE).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.id);
                for row in &page {
                    count.thread(row, &price).await?;
                }
            }
        }
    }
    tell(given, &count)?;
    Ok(Exit::Ok)
}

fn conditions(asked: &Asked<'_>) -> anyhow::Result<Option<Conditions>> {
    let since = asked.since.map(|it| format!("created > {it}"));
    let words: Vec<&str> = asked.conditions.into_iter().chain(since.as_deref()).collect();
    if words.is_empty() {
        return Ok(None);
    }
    let read = Conditions::parse(&words.join(" and "), time::now());
    let wrong = |err| Stop::because(Exit::Usage, format!("--where or --since, {err}"));
    read.map(Some).map_err(wrong)
}

impl Count<'_> {
    async fn thread(
        &mut self,
        row: &Thread,
        price: &(dyn Fn(&str, &Meter) -> Option<u64> + Sync),
    ) -> anyhow::Result<()> {
        // Turns are asked for in the language of turns; a log that none of them is in needs no reading.
        let turns = match &self.conditions {
            Some(conditions) => Some(self.turns(row.id, conditions).await?),
            None => None,
        };
        if turns.as_ref().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        let mut spending = Spending::default();
        self.store
            .along(row.id, 0, None, |it| {
                spending.see(&it.event, &|model, meter| price(model, meter));
                Ok::<_, store::Error>(())
            })
            .await?;
        let batch = match self.by {
            By::Batch => self.store.batch_of(row.id).await?.map(|it| it.to_string()),
            By::Node | By::Turn | By::Thread | By::Tenant | By::Strategy | By::Model => None,
        };
        self.threads += 1;
        for (share, took) in spending.shares() {
            if turns.as_ref().is_some_and(|it| !it.contains(&share.turn)) {
                continue;
            }
            self.all.add(took);
            let group = group(self.by, row, batch.as_deref(), share);
            let full = GROUPS <= self.groups.len() && !self.groups.contains_key(&group);
            self.groups.entry(if full { OTHERS.to_owned() } else { group }).or_default().add(took);
        }
        Ok(())
    }

    async fn turns(&self, thread: ThreadId, conditions: &Conditions) -> anyhow::Result<Vec<TurnId>> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let filter =
                TurnFilter { thread: Some(thread), conditions: Some(conditions), ..TurnFilter::default() };
            let page: Vec<Turn> = self.store.turns(filter, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(all) };
            after = Some(last.id);
            all.extend(page.iter().map(|it| it.id));
        }
    }
}

fn group(by: By, row: &Thread, batch: Option<&str>, share: &Share) -> String {
    match by {
        By::Node => format!("{}/{}", row.strategy, share.node),
        By::Turn => share.turn.to_string(),
        By::Thread => row.id.to_string(),
        By::Batch => batch.unwrap_or("(no batch)").to_owned(),
        By::Tenant => row.tenant.clone(),
        By::Strategy => row.strategy.clone(),
        By::Model if share.model.is_empty() => "(no model)".to_owned(),
        By::Model => share.model.clone(),
    }
}

/// What the tokens cost by the prices of today, in millionths of a US dollar.
fn priced(settings: &Settings, model: &str, meter: &Meter) -> Option<u64> {
    let (provider, name) = model.split_once('/')?;
    match settings.providers.get(provider)? {
        ProviderSettings::Http { prices, .. } => {
            let it = prices.get(name)?;
            Price { input: it.input, output: it.output }.of(meter)
        }
        ProviderSettings::Script { .. } => None,
    }
}

fn tell(given: &Given, count: &Count<'_>) -> anyhow::Result<()> {
    let name = count.by.name();
    let mut groups: Vec<(&String, &Took)> = count.groups.iter().collect();
    groups.sort_by_key(|(name, it)| (u64::MAX - it.micro_usd, u64::MAX - it.input_tokens, *name));
    let took = |it: &Took| {
        json!({
            "model_calls": it.model_calls, "tool_calls": it.tool_calls, "input_tokens": it.input_tokens,
            "output_tokens": it.output_tokens, "usd": dollars(it.micro_usd),
            "usd_by_todays_prices": dollars(it.micro_usd_by_todays_prices), "ms": it.ms, "untold": it.untold,
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
            let counted =
                [it.model_calls, it.tool_calls, it.input_tokens, it.output_tokens].map(|it| it.to_string());
            let [models, tools, input, output] = counted;
            vec![name.to_owned(), models, tools, input, output, format!("{:.6}", dollars(it.micro_usd))]
        };
        let rows = groups.iter().map(|(name, it)| row(name, it));
        let head = [name, "model calls", "tool calls", "tokens in", "tokens out", "usd"];
        let table = output::table(&head, rows.chain([row("all", &count.all)]));
        format!("{table}{}", remarks(&count.all))
    })
}

fn remarks(all: &Took) -> String {
    let answers = |n: u64| if n == 1 { "1 answer".to_owned() } else { format!("{n} answers") };
    let mut told = String::new();
    if 0 < all.micro_usd_by_todays_prices {
        let usd = dollars(all.micro_usd_by_todays_prices);
        told += &format!("\nof that, {usd:.6} had no price then and is counted by the prices of today");
    }
    if 0 < all.unpriced {
        told += &format!("\nwithout the price of {}: see providers.NAME.prices", answers(all.unpriced));
    }
    if 0 < all.untold {
        told += &format!("\nwithout the tokens of {}, which nobody told", answers(all.untold));
    }
    told
}

#[expect(clippy::cast_precision_loss, reason = "as `Tally::usd`")]
fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}
