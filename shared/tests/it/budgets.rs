//! Laws of budgets that hold for every strategy: each fixture is lived again within each budget that it can spend.

use std::collections::BTreeSet;

use shared::{
    Answered, Budget, Event, Faltered, Goto, Graph, Limits, Measure, Meter, Next, Role, Scope, Spent,
    Standing, transcript,
};

use crate::fixtures::each_fixture;

/// What each answer takes in these lives: one of each measure.
const TOOK: u64 = 1;

/// Once a budget is spent, nothing more is put to the world: no model, no tool. And the turn ends in words.
#[test]
fn nothing_is_asked_once_a_budget_is_spent() {
    let mut seen = BTreeSet::new();
    each_fixture(|graph, name, script| {
        for (of, measure) in budgets() {
            for limit in 1..=6 {
                let told = format!("{} {name}, {limit} {measure:?} for a {of:?}", graph.name());
                let ends = live(graph, &script, Spent { of, measure }, limit, &told);
                assert!(ends.iter().all(|it| *it == Spent { of, measure }), "{told}: {ends:?}");
                if !ends.is_empty() {
                    seen.insert(format!("{} {of:?} {measure:?}", graph.name()));
                }
            }
        }
    });
    assert_eq!(seen.len(), 7 * 6, "every strategy comes to the end of every budget: {seen:#?}");
}

fn budgets() -> impl Iterator<Item = (Scope, Measure)> {
    let measures = [Measure::Tokens, Measure::Usd, Measure::Seconds];
    [Scope::Turn, Scope::Thread].into_iter().flat_map(move |of| measures.map(move |it| (of, it)))
}

fn budget(of: Scope, measure: Measure, limit: u64) -> Budget {
    let limits = match measure {
        Measure::Tokens => Limits { tokens: Some(limit), ..Limits::default() },
        Measure::Usd => {
            Limits { usd: Some(f64::from(u32::try_from(limit).unwrap()) / 1e6), ..Limits::default() }
        }
        Measure::Seconds => Limits { seconds: Some(limit), ..Limits::default() },
    };
    match of {
        Scope::Turn => Budget { turn: limits, ..Budget::default() },
        Scope::Thread => Budget { thread: limits, ..Budget::default() },
    }
}

/// Lives a thread within a budget: what of the script nobody asks for any more is passed over. Gives back the ends that
/// a budget made.
fn live(
    graph: &dyn Graph,
    script: &[Event],
    Spent { of, measure }: Spent,
    limit: u64,
    told: &str,
) -> Vec<Spent> {
    let budget = budget(of, measure, limit);
    let mut outside = script.iter().filter(|it| it.is_outside()).map(|it| metered(it, &budget));
    let mut thread = graph.begin();
    let (mut log, mut ends) = (Vec::new(), Vec::new());
    let mut took = 0;
    loop {
        let next = thread.next().unwrap();
        let asks = matches!(&next, Next::Perform(_) | Next::Append(Event::Asked(_) | Event::Attempted(_)));
        assert!(!asks || took < limit, "{told}: asks for more\n{}", transcript(&log));
        let event = match next {
            Next::Append(event) => event,
            Next::Rest | Next::Perform(_) => match outside.next() {
                Some(Event::Answered(it)) => thread.receive(it.slot, Ok((it.response, it.meter)), 0),
                Some(event) => event,
                None => return ends,
            },
        };
        if thread.apply(&event).is_err() {
            assert!(event.is_outside(), "{told}: {event}");
            continue;
        }
        match (&event, of) {
            (Event::Heard(_), Scope::Turn) => took = 0,
            (Event::Answered(_) | Event::Faltered(_), _) => took += TOOK,
            (_, Scope::Turn | Scope::Thread) => (),
        }
        if let Event::Decided(it) = &event
            && let Some(spent) = it.spent
        {
            let last = it.said.last().map(|it| (it.role, it.content.contains("is spent")));
            assert_eq!(last, Some((Role::Assistant, true)), "{told}: {event}");
            assert_eq!((&it.to, thread.standing()), (&Goto::End, Standing::Idle), "{told}");
            assert!(it.why.as_ref().is_some_and(|it| it.contains("the budget of")), "{told}: {event}");
            ends.push(spent);
        }
        log.push(event);
    }
}

/// The event, where each answer takes one of everything and a thread opens within `budget`.
fn metered(event: &Event, budget: &Budget) -> Event {
    let meter = Meter {
        by: "model".to_owned(),
        input_tokens: TOOK,
        micro_usd: Some(TOOK),
        ms: TOOK * 1_000,
        ..Meter::default()
    };
    let mut event = event.clone();
    if let Event::Opened(it) = &mut event {
        it.budget = budget.clone();
    }
    if let Event::Answered(Answered { meter: took, .. }) | Event::Faltered(Faltered { meter: took, .. }) =
        &mut event
    {
        *took = Some(meter);
    }
    event
}
