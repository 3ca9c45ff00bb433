//! Costs are counted as for budgets, and nothing is counted twice.

use audit::{CostTotal, Purpose, Spending};
use shared::{Event, Forked, Usage};

use crate::fixtures::{all, fixture_log};

fn sum(log: &[Event], price: audit::Price<'_>) -> CostTotal {
    let mut spending = Spending::default();
    log.iter().for_each(|event| spending.apply(event, 0, price));
    spending.shares().values().fold(CostTotal::default(), |mut sum, total| {
        sum.add(total);
        sum
    })
}

#[test]
fn the_shares_of_a_thread_add_up_to_its_usage() {
    let mut tokens = 0;
    for fixture in all() {
        let took = *fixture.graph.fold(&fixture.log).unwrap().usage();
        let sum = sum(&fixture.log, &|_, _| None);
        tokens += took.tokens();
        assert_eq!(
            (sum.usage.input_tokens, sum.usage.output_tokens, sum.usage.micro_usd, sum.usage.duration_ms),
            (took.input_tokens, took.output_tokens, took.micro_usd, took.duration_ms),
            "{}/{}",
            fixture.graph.name(),
            fixture.name
        );
        assert_eq!(sum.micro_usd_by_todays_prices, 0);
    }
    assert!(0 < tokens, "some fixture has tokens");
}

#[test]
fn only_responses_without_a_price_are_counted_by_todays_prices() {
    let fixture = fixture_log("planner", "money_of_a_turn_is_spent");
    let then = sum(&fixture.log, &|_, _| None);
    assert!(0 < then.usage.micro_usd && then.usage.responses_without_price == 0, "{then:?}");
    assert_eq!(sum(&fixture.log, &|_, _| Some(1_000_000)), then, "a recorded price stays");
    let mut unpriced = fixture.log.clone();
    for event in &mut unpriced {
        if let Event::Answered(answered) = event
            && let Some(usage) = &mut answered.usage
        {
            usage.micro_usd = None;
        }
    }
    let calls = sum(&unpriced, &|_, _| None).usage.responses_without_price;
    assert!(0 < calls);
    let today = sum(&unpriced, &|model: &str, usage: &Usage| {
        assert_eq!(model, "openai/gpt-4o");
        Some(usage.input_tokens)
    });
    assert_eq!(
        (today.usage.responses_without_price, today.usage.micro_usd),
        (0, today.micro_usd_by_todays_prices)
    );
}

#[test]
fn answers_are_counted_by_tool_purpose_and_day() {
    const DAY: i64 = 86_400_000_000;
    let fixture = fixture_log("planner", "money_of_a_turn_is_spent");
    let mut spending = Spending::default();
    let last = fixture.log.len() - 1;
    for (n, event) in fixture.log.iter().enumerate() {
        // The last event of the log is of the next day.
        spending.apply(event, if n < last { 2 * DAY + 1 } else { 3 * DAY }, &|_, _| None);
    }
    let shares = spending.shares();
    assert!(shares.keys().all(|share| share.day == 2 && share.purpose == Purpose::Answer), "{shares:?}");
    let tools: u64 =
        shares.iter().filter(|(share, _)| !share.tool.is_empty()).map(|(_, total)| total.tool_calls).sum();
    assert_eq!(tools, shares.values().map(|total| total.tool_calls).sum::<u64>());
    let mut unusable = 0;
    for fixture in all() {
        let mut spending = Spending::default();
        fixture.log.iter().for_each(|event| spending.apply(event, 0, &|_, _| None));
        let failed = fixture
            .log
            .iter()
            .filter(|event| matches!(event, Event::AttemptFailed(failed) if failed.usage.is_some()));
        let failed = failed.count();
        let counted = spending.shares().keys().filter(|share| share.purpose == Purpose::Unusable).count();
        assert_eq!(failed == 0, counted == 0, "{}/{}", fixture.graph.name(), fixture.name);
        unusable += failed;
    }
    assert!(0 < unusable, "some fixture has an unusable answer that was paid for");
}

/// The original thread paid for the answers that a fork copied.
#[test]
fn copied_events_of_a_fork_cost_nothing() {
    let mut log = fixture_log("planner", "money_of_a_turn_is_spent").log;
    let cut = log.len() / 2;
    let forked = Forked {
        thread: uuid::Uuid::nil(),
        seq: cut as u64 - 1,
        hash: String::new(),
        config: serde_json::Value::Null,
        budget: None,
        prompts: [].into(),
        facts: Vec::new(),
        actor: String::new(),
        caller: None,
    };
    let whole = sum(&log, &|_, _| None);
    let before = sum(&log[..cut], &|_, _| None);
    log.insert(cut, forked.into());
    let fork = sum(&log, &|_, _| None);
    assert!(0 < before.usage.micro_usd && 0 < fork.usage.micro_usd, "{before:?} {fork:?}");
    assert_eq!(before.usage.micro_usd + fork.usage.micro_usd, whole.usage.micro_usd);
}
