//! Effects of `forked` on a thread: existing answers remain, and changes apply from the fork on.

use serde_json::{Value, json};
use shared::{Budget, Event, Forked, Graph, Limits, Next, Request, RunStatus, replay, rerun};

use crate::fixtures::each_fixture;

fn forked(seq: usize) -> Forked {
    let (thread, hash, by) = (uuid::Uuid::nil(), String::new(), String::new());
    let (config, prompts, learned) = (Value::Null, [].into(), Vec::new());
    Forked {
        thread,
        seq: seq as u64,
        hash,
        config,
        budget: None,
        prompts,
        facts: learned,
        actor: by,
        caller: None,
    }
}

fn lived(strategy: &str, fixture: &str) -> (&'static dyn Graph, Vec<Event>) {
    let mut found = None;
    each_fixture(|graph, name, script| {
        if (graph.name(), name) == (strategy, fixture) {
            found = Some((graph, rerun(graph, &script).unwrap().log));
        }
    });
    found.unwrap()
}

/// A fork without changes continues like its source, and its log can be run again like any other.
#[test]
fn after_a_decision_or_its_answers_it_goes_on_as_before() {
    let mut forks = 0;
    each_fixture(|graph, name, script| {
        let whole = rerun(graph, &script).unwrap().log;
        for cut in 0..whole.len() {
            let last_answer = matches!(whole[cut], Event::Answered(_))
                && matches!(whole.get(cut + 1), Some(Event::Decided(_)));
            if !last_answer && !matches!(whole[cut], Event::Decided(_)) {
                continue;
            }
            let mut log = whole.clone();
            log.insert(cut + 1, forked(cut).into());
            assert_eq!(replay(graph, &log).unwrap(), [], "{name} {cut}");
            assert_eq!(rerun(graph, &log).unwrap().log, log, "{name} {cut}");
            forks += 1;
        }
    });
    assert!(500 < forks, "{forks}");
}

/// A request without an answer is issued again, because a fork may change it. A request with an answer is not.
#[test]
fn a_question_is_asked_anew_until_it_has_an_answer() {
    let (graph, log) = lived("planner", "two_tasks");
    let asked = log.iter().position(|it| matches!(it, Event::Asked(_))).unwrap();
    let mut fork = forked(asked);
    fork.config = json!({"model": "openai/other"});
    fork.prompts = [("plan".to_owned(), "Be brief. {prompt}".to_owned())].into();
    let mut thread = graph.fold(&log[..=asked]).unwrap();
    thread.apply(&fork.clone().into()).unwrap();
    let Next::Append(Event::Asked(anew)) = thread.next().unwrap() else { panic!("it is not asked anew") };
    let (Request::Chat { model, system, .. }, Event::Asked(then)) = (&anew.requests[0], &log[asked]) else {
        panic!("no chat")
    };
    let Request::Chat { system: own, .. } = &then.requests[0] else { panic!("no chat") };
    assert_eq!((model.as_str(), system.as_str()), ("openai/other", format!("Be brief. {own}").as_str()));

    let mut thread = graph.fold(&log[..=asked + 1]).unwrap();
    thread.apply(&fork.into()).unwrap();
    assert!(matches!(thread.next().unwrap(), Next::Append(Event::Decided(_))), "the answer stands");
}

#[test]
fn a_node_that_failed_asks_anew() {
    let (graph, log) = lived("probe", "fails_for_good");
    let failed = log.iter().position(|it| matches!(it, Event::Failed(_))).unwrap();
    let mut thread = graph.fold(&log[..=failed]).unwrap();
    thread.apply(&forked(failed).into()).unwrap();
    assert_eq!(thread.status(), RunStatus::Busy);
    assert!(matches!(thread.next().unwrap(), Next::Append(Event::Asked(_))));
}

/// A turn that a budget ended continues under a larger one, and a turn that continued ends under a smaller one. Copied
/// usage counts.
#[test]
fn a_budget_counts_from_there_on() {
    let (graph, log) = lived("planner", "money_of_a_thread_is_spent");
    let spent = |it: &Event| matches!(it, Event::Decided(it) if it.budget_exceeded.is_some());
    let end = log.iter().position(spent).unwrap();
    let ends = |at: usize, budget: Option<Budget>| {
        let mut thread = graph.fold(&log[..=at]).unwrap();
        thread.apply(&Forked { budget, ..forked(at) }.into()).unwrap();
        let Next::Append(next) = thread.next().unwrap() else { panic!("nothing follows") };
        spent(&next)
    };
    assert!(ends(end - 1, None), "the budget is as it was");
    assert!(!ends(end - 1, Some(Budget::default())));
    let first = log.iter().position(|it| matches!(it, Event::Decided(_))).unwrap();
    assert!(!ends(first, None) && first < end);
    let little = Limits { usd: Some(0.000_001), ..Limits::default() };
    assert!(ends(first, Some(Budget { thread: little.clone(), ..Budget::default() })));
    assert!(ends(first, Some(Budget { turn: little, ..Budget::default() })));
}

#[test]
fn what_it_takes_for_concluded_is_remembered() {
    let (graph, log) = lived("planner", "two_tasks");
    let planned = log.iter().position(|it| matches!(it, Event::Decided(it) if it.node == "plan")).unwrap();
    let mut thread = graph.fold(&log[..=planned]).unwrap();
    let Event::Decided(decided) = &log[planned] else { unreachable!() };
    let mut fact = decided.facts[0].clone();
    *fact.pointer_mut("/planned/tasks/0/task").unwrap() = json!("something else");
    let mut fork = forked(planned);
    fork.facts = vec![fact];
    thread.apply(&fork.clone().into()).unwrap();
    assert_eq!(thread.state().unwrap().pointer("/plan/tasks/0/task").unwrap(), "something else");
    fork.facts = vec![json!("nonsense")];
    assert!(thread.apply(&fork.into()).is_err());
    let mut nothing = strategies::all()[0].begin();
    assert!(nothing.apply(&forked(0).into()).is_err(), "there is nothing yet to be forked");
}
