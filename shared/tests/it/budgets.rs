//! Budget laws that hold for every strategy: each fixture runs again under every budget that it can exceed.

use std::collections::BTreeSet;

use shared::{
    Answered, AttemptFailed, Budget, BudgetExceeded, Event, Goto, Graph, Limits, Measure, Next, Role,
    RunStatus, Scope, Usage, transcript,
};

use crate::fixtures::each_fixture;

/// Usage of each answer in these runs, the same for every measure.
const USED_BY_A_REQUEST: u64 = 1;

/// After a budget is exceeded, no model or tool is called, and the turn ends with a text.
#[test]
fn no_request_is_made_after_a_budget_is_spent() {
    let mut seen = BTreeSet::new();
    each_fixture(|graph, name, script| {
        for (scope, measure) in budgets() {
            for limit in 1..=6 {
                let case = format!("{} {name}, {limit} {measure:?} for a {scope:?}", graph.name());
                let ends = run(graph, &script, BudgetExceeded { scope, measure }, limit, &case);
                assert!(
                    ends.iter().all(|exceeded| *exceeded == BudgetExceeded { scope, measure }),
                    "{case}: {ends:?}"
                );
                if !ends.is_empty() {
                    seen.insert(format!("{} {scope:?} {measure:?}", graph.name()));
                }
            }
        }
    });
    assert_eq!(seen.len(), 8 * 6, "every strategy comes to the end of every budget: {seen:#?}");
}

fn budgets() -> impl Iterator<Item = (Scope, Measure)> {
    let measures = [Measure::Tokens, Measure::Usd, Measure::Seconds];
    [Scope::Turn, Scope::Thread].into_iter().flat_map(move |of| measures.map(move |measure| (of, measure)))
}

fn budget(scope: Scope, measure: Measure, limit: u64) -> Budget {
    let limits = match measure {
        Measure::Tokens => Limits { tokens: Some(limit), ..Limits::default() },
        Measure::Usd => {
            Limits { usd: Some(f64::from(u32::try_from(limit).unwrap()) / 1e6), ..Limits::default() }
        }
        Measure::Seconds => Limits { seconds: Some(limit), ..Limits::default() },
    };
    match scope {
        Scope::Turn => Budget { turn: limits, ..Budget::default() },
        Scope::Thread => Budget { thread: limits, ..Budget::default() },
    }
}

/// Runs a thread under a budget, skipping the parts of the script that are no longer requested. Returns the ends that
/// the budget caused.
fn run(
    graph: &dyn Graph,
    script: &[Event],
    BudgetExceeded { scope, measure }: BudgetExceeded,
    limit: u64,
    case: &str,
) -> Vec<BudgetExceeded> {
    let budget = budget(scope, measure, limit);
    let mut outside = script.iter().filter(|event| event.is_external()).map(|event| metered(event, &budget));
    let mut thread = graph.begin();
    let (mut log, mut ends) = (Vec::new(), Vec::new());
    let mut used = 0;
    loop {
        let next = thread.next().unwrap();
        let asks = matches!(&next, Next::Perform(_) | Next::Append(Event::Asked(_) | Event::Attempted(_)));
        assert!(!asks || used < limit, "{case}: asks for more\n{}", transcript(&log));
        let event = match next {
            Next::Append(event) => event,
            Next::Wait | Next::Perform(_) => match outside.next() {
                Some(Event::Answered(answered)) => {
                    thread.receive(answered.slot, Ok((answered.response, answered.usage)), 0)
                }
                Some(event) => event,
                None => return ends,
            },
        };
        if thread.apply(&event).is_err() {
            assert!(event.is_external(), "{case}: {event}");
            continue;
        }
        match (&event, scope) {
            (Event::TurnStarted(_), Scope::Turn) => used = 0,
            (Event::Answered(_) | Event::AttemptFailed(_), _) => used += USED_BY_A_REQUEST,
            (_, Scope::Turn | Scope::Thread) => (),
        }
        if let Event::Decided(decision) = &event
            && let Some(spent) = decision.budget_exceeded
        {
            let last =
                decision.messages.last().map(|message| (message.role, message.content.contains("is spent")));
            assert_eq!(last, Some((Role::Assistant, true)), "{case}: {event}");
            assert_eq!((&decision.to, thread.status()), (&Goto::End, RunStatus::Idle), "{case}");
            assert!(
                decision.reason.as_ref().is_some_and(|reason| reason.contains("the budget of")),
                "{case}: {event}"
            );
            ends.push(spent);
        }
        log.push(event);
    }
}

/// Returns the event with a usage of [`TOOK`] in each answer, and with `budget` in the opening.
fn metered(event: &Event, budget: &Budget) -> Event {
    let usage = Usage {
        model: "model".to_owned(),
        input_tokens: USED_BY_A_REQUEST,
        micro_usd: Some(USED_BY_A_REQUEST),
        duration_ms: USED_BY_A_REQUEST * 1_000,
        ..Usage::default()
    };
    let mut event = event.clone();
    if let Event::Opened(opened) = &mut event {
        opened.budget = budget.clone();
    }
    if let Event::Answered(Answered { usage: used, .. })
    | Event::AttemptFailed(AttemptFailed { usage: used, .. }) = &mut event
    {
        *used = Some(usage);
    }
    event
}
