//! `turnfold thread cost`: tokens and cost of threads, summed up from their logs.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use audit::{CostTotal, Purpose, Share, Spending};
use queue::clock;
use serde_json::{Value, json};
use shared::{Event, UsageTotal, is_template_hash, usd};
use store::{Conditions, Error, Reader, Recorded, Selected, Store, ThreadId, TurnFilter, TurnId};
use world::Price;

use crate::{
    args::{CostBy, CostOrder, Selection, value_name},
    commands::{
        Context,
        selection::{select_visible, spinner},
    },
    engine::prices,
    exit::Exit,
    output::{self, counted},
};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Number of rows read at a time.
const PAGE: u64 = 500;

/// Maximum number of groups; further groups are counted together as [`OTHERS`].
const MAX_GROUPS: usize = 10_000;

/// Name of the group that counts what exceeds [`MAX_GROUPS`].
const OTHERS: &str = "(others)";

/// Grouping and order of the sums.
#[derive(Clone, Copy)]
pub(super) struct View {
    pub(super) by: CostBy,
    pub(super) order: CostOrder,
    /// Maximum number of groups shown.
    pub(super) top: Option<usize>,
}

/// Sums by group. Memory is bounded by the groups and the threads being read, not by the number of threads.
#[derive(Default)]
struct Totals {
    groups: BTreeMap<String, CostTotal>,
    all: CostTotal,
    threads: u64,
}

/// Parameters of the summation.
struct Parameters {
    store: Store,
    by: CostBy,
    /// Count only turns that match, if a filter is given.
    turns: Option<Conditions>,
    prices: BTreeMap<String, Price>,
}

/// Reads the logs of one range of threads.
struct Counter {
    parameters: Arc<Parameters>,
    totals: Arc<Mutex<Totals>>,
    logs: Vec<Log>,
    error: Option<Error>,
}

/// A log that is being read.
struct Log {
    thread: ThreadId,
    strategy: String,
    tenant: String,
    spending: Spending,
}

pub(super) async fn run(
    ctx: &Context,
    store: &Store,
    view: View,
    selection: Selection,
) -> anyhow::Result<Exit> {
    let spinner = spinner()?;
    // All turns of a thread belong to one tenant, so a tenant alone needs no filter on turns.
    let has_filter = selection.filter.is_some() || selection.since.is_some();
    let round = select_visible(ctx, store, selection, &spinner).await?;
    let turns = match &round.threads {
        Selected::With(turns) if has_filter => Some(turns.clone()),
        Selected::All | Selected::One(_) | Selected::With(_) | Selected::UpTo(_) => None,
    };
    let by = view.by;
    let parameters = Arc::new(Parameters { store: store.clone(), by, turns, prices: prices(&ctx.settings) });
    let totals = Arc::new(Mutex::new(Totals::default()));
    let shared_totals = Arc::clone(&totals);
    let counter = move || {
        let (parameters, totals) = (Arc::clone(&parameters), Arc::clone(&shared_totals));
        Counter { parameters, totals, logs: Vec::new(), error: None }
    };
    // Dropping the counters releases their references to the totals.
    drop(store.read_logs(&round, counter).await?);
    spinner.finish_and_clear();
    let totals =
        Arc::into_inner(totals).map(|totals| totals.into_inner().unwrap_or_else(PoisonError::into_inner));
    print(ctx, view, &totals.context("a counter is still running")?)?;
    Ok(Exit::Ok)
}

impl Reader for Counter {
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>) {
        let Recorded { event, at, .. } = match event {
            Ok(recorded) => recorded,
            Err(error) => {
                self.error.get_or_insert(error);
                return;
            }
        };
        if let Event::Opened(opened) = &event {
            let (strategy, tenant) = (opened.strategy.clone(), opened.tenant.clone());
            self.logs.push(Log { thread, strategy, tenant, spending: Spending::default() });
        }
        if let Some(log) = self.logs.last_mut().filter(|log| log.thread == thread) {
            log.spending.apply(&event, at, &|model, meter| self.parameters.prices.get(model)?.of(meter));
        }
    }

    async fn pause(&mut self) -> Result<(), Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        for log in std::mem::take(&mut self.logs) {
            let turns = self.parameters.turns(log.thread).await?;
            let batch = self.parameters.batch(log.thread).await?;
            let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
            totals.threads += 1;
            for (share, total) in log.spending.shares() {
                if turns.as_ref().is_none_or(|turns| turns.contains(&share.turn)) {
                    totals.add(group(self.parameters.by, &log, batch.as_deref(), share), total);
                }
            }
        }
        Ok(())
    }
}

impl Totals {
    fn add(&mut self, group: String, total: &CostTotal) {
        self.all.add(total);
        let full = MAX_GROUPS <= self.groups.len() && !self.groups.contains_key(&group);
        self.groups.entry(if full { OTHERS.to_owned() } else { group }).or_default().add(total);
    }
}

impl Parameters {
    /// Returns the turns of a thread that match the filter, or `None` if there is no filter.
    async fn turns(&self, thread: ThreadId) -> Result<Option<Vec<TurnId>>, Error> {
        let Some(conditions) = &self.turns else { return Ok(None) };
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let filter =
                TurnFilter { thread: Some(thread), conditions: Some(conditions), ..TurnFilter::default() };
            let page = self.store.turns(filter, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(Some(all)) };
            after = Some(last.id);
            all.extend(page.iter().map(|row| row.id));
        }
    }

    /// Returns the batch that created a thread, if batches are the groups.
    async fn batch(&self, thread: ThreadId) -> Result<Option<String>, Error> {
        Ok(match self.by {
            CostBy::Batch => self.store.batch_of(thread).await?.map(|batch| batch.to_string()),
            CostBy::Node
            | CostBy::Turn
            | CostBy::Thread
            | CostBy::Tenant
            | CostBy::Strategy
            | CostBy::Model
            | CostBy::Prompt
            | CostBy::Tool
            | CostBy::Day
            | CostBy::Purpose => None,
        })
    }
}

fn group(by: CostBy, log: &Log, batch: Option<&str>, share: &Share) -> String {
    match by {
        CostBy::Node => format!("{}/{}", log.strategy, share.node),
        CostBy::Turn => share.turn.to_string(),
        CostBy::Thread => log.thread.to_string(),
        CostBy::Batch => batch.unwrap_or("(no batch)").to_owned(),
        CostBy::Tenant => log.tenant.clone(),
        CostBy::Strategy => log.strategy.clone(),
        CostBy::Model if share.model.is_empty() => "(no model)".to_owned(),
        CostBy::Model => share.model.clone(),
        CostBy::Prompt if share.model.is_empty() => "(no model)".to_owned(),
        CostBy::Prompt => {
            let name = share.prompt.get(..12).unwrap_or_default();
            let built_in = name.is_empty() || is_template_hash(&share.prompt);
            let prompt = [if built_in { "built-in" } else { "" }, name].join(" ");
            format!("{}/{} {}", log.strategy, share.node, prompt.trim())
        }
        CostBy::Tool if share.tool.is_empty() => "(no tool)".to_owned(),
        CostBy::Tool => share.tool.clone(),
        CostBy::Day => {
            let midnight = clock::rfc3339(share.day.saturating_mul(MICROS_PER_DAY));
            midnight.split('T').next().unwrap_or_default().to_owned()
        }
        CostBy::Purpose => match share.purpose {
            Purpose::Answer => "answers".to_owned(),
            Purpose::Unusable => "unusable answers".to_owned(),
            Purpose::Summary => "summaries".to_owned(),
        },
    }
}

/// Sorts the groups. Those after the first `top` become one.
fn ordered(view: View, totals: &Totals) -> Vec<(String, CostTotal)> {
    let rank = |total: &CostTotal| {
        let UsageTotal { micro_usd, input_tokens, output_tokens, duration_ms, .. } = total.usage;
        let tokens = input_tokens.saturating_add(output_tokens);
        Reverse(match view.order {
            CostOrder::Usd => [micro_usd, input_tokens],
            CostOrder::Time => [duration_ms, micro_usd],
            CostOrder::Tokens => [tokens, micro_usd],
        })
    };
    let mut groups: Vec<(String, CostTotal)> =
        totals.groups.iter().map(|(name, total)| (name.clone(), *total)).collect();
    groups.sort_by_key(|(name, total)| (rank(total), name.clone()));
    let top = view.top.unwrap_or(groups.len()).min(groups.len());
    let mut rest = CostTotal::default();
    groups.drain(top..).for_each(|(_, total)| rest.add(&total));
    if rest != CostTotal::default() {
        groups.push((OTHERS.to_owned(), rest));
    }
    groups
}

fn print(ctx: &Context, view: View, totals: &Totals) -> anyhow::Result<()> {
    let name = value_name(&view.by);
    let name = name.as_str();
    let groups = ordered(view, totals);
    let to_json = |total: &CostTotal| {
        json!({
            "model_calls": total.model_calls, "tool_calls": total.tool_calls, "input_tokens": total.usage.input_tokens,
            "output_tokens": total.usage.output_tokens, "usd": usd(total.usage.micro_usd),
            "usd_by_todays_prices": usd(total.micro_usd_by_todays_prices), "ms": total.usage.duration_ms, "responses_without_usage": total.usage.responses_without_usage,
            "responses_without_price": total.usage.responses_without_price,
        })
    };
    let line = |(group, total): &(String, CostTotal)| {
        let mut item = to_json(total);
        item[name] = group.clone().into();
        item
    };
    let things: Vec<Value> = groups.iter().map(line).collect();
    let thing = json!({"by": name, "threads": totals.threads, "all": to_json(&totals.all), "groups": things});
    output::one(ctx.format, &thing, || {
        let row = |name: &str, total: &CostTotal| {
            let [models, tools, input, output] =
                [total.model_calls, total.tool_calls, total.usage.input_tokens, total.usage.output_tokens]
                    .map(|count| count.to_string());
            let seconds = format!("{:.1} s", total.usage.duration_ms as f64 / 1000.0);
            let usd = format!("{:.6}", usd(total.usage.micro_usd));
            vec![name.to_owned(), models, tools, input, output, seconds, usd]
        };
        let rows = groups.iter().map(|(name, total)| row(name, total));
        let head = [name, "model calls", "tool calls", "tokens in", "tokens out", "time", "usd"];
        let table = output::table(&head, rows.chain([row("all", &totals.all)]));
        format!("{table}{}", notes(&totals.all))
    })
}

fn notes(all: &CostTotal) -> String {
    let mut text = String::new();
    if 0 < all.micro_usd_by_todays_prices {
        let usd = usd(all.micro_usd_by_todays_prices);
        text += &format!("\n{usd:.6} of that had no price when it was recorded; counted at today's prices");
    }
    if 0 < all.usage.responses_without_price {
        text += &format!(
            "\nwithout the cost of {}: set providers.NAME.prices",
            counted(all.usage.responses_without_price, "response")
        );
    }
    if 0 < all.usage.responses_without_usage {
        text += &format!(
            "\nwithout the tokens of {}, which the provider did not report",
            counted(all.usage.responses_without_usage, "response")
        );
    }
    text
}
