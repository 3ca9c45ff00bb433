//! Costs are counted as for budgets, and nothing is counted twice.

use audit::{CostTotal, Spending};
use shared::{Event, Forked, Usage};

use crate::fixtures::{all, lived};

fn sum(log: &[Event], price: audit::Price<'_>) -> CostTotal {
    let mut spending = Spending::default();
    log.iter().for_each(|it| spending.apply(it, price));
    spending.shares().values().fold(CostTotal::default(), |mut sum, it| {
        sum.add(it);
        sum
    })
}

#[test]
fn all_shares_together_are_what_the_thread_took() {
    let mut tokens = 0;
    for it in all() {
        let took = *it.graph.fold(&it.log).unwrap().usage();
        let sum = sum(&it.log, &|_, _| None);
        tokens += took.tokens();
        assert_eq!(
            (sum.input_tokens, sum.output_tokens, sum.micro_usd, sum.ms),
            (took.input_tokens, took.output_tokens, took.micro_usd, took.duration_ms),
            "{}/{}",
            it.graph.name(),
            it.name
        );
        assert_eq!(sum.micro_usd_by_todays_prices, 0);
    }
    assert!(0 < tokens, "some fixture tells its tokens");
}

#[test]
fn what_had_no_price_is_counted_by_the_prices_of_today_and_what_had_one_is_not() {
    let it = lived("planner", "money_of_a_turn_is_spent");
    let then = sum(&it.log, &|_, _| None);
    assert!(0 < then.micro_usd && then.responses_without_price == 0, "{then:?}");
    assert_eq!(sum(&it.log, &|_, _| Some(1_000_000)), then, "a price of then stands");
    let mut unpriced = it.log.clone();
    for event in &mut unpriced {
        if let Event::Answered(it) = event
            && let Some(meter) = &mut it.usage
        {
            meter.micro_usd = None;
        }
    }
    let calls = sum(&unpriced, &|_, _| None).responses_without_price;
    assert!(0 < calls);
    let today = sum(&unpriced, &|model: &str, meter: &Usage| {
        assert_eq!(model, "openai/gpt-4o");
        Some(meter.input_tokens)
    });
    assert_eq!((today.responses_without_price, today.micro_usd), (0, today.micro_usd_by_todays_prices));
}

/// The original thread paid for the answers that a fork copied.
#[test]
fn a_fork_takes_nothing_for_what_was_copied() {
    let mut log = lived("planner", "money_of_a_turn_is_spent").log;
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
    assert!(0 < before.micro_usd && 0 < fork.micro_usd, "{before:?} {fork:?}");
    assert_eq!(before.micro_usd + fork.micro_usd, whole.micro_usd);
}
