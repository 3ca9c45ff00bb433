//! Outcomes of turns, over the fixtures of every strategy.

use std::collections::{BTreeMap, BTreeSet};

use shared::{Cause, Event, Goto, TurnKind, rerun};

use crate::fixtures::each_fixture;

/// Causes that the engine adds in words of its own.
const ENGINE_REASONS: [&str; 4] = ["index unreachable", "no reply", "no typed answer", "reply cut off"];

/// Every end of every strategy other than an answer, as its fixtures show it. Names of servers and tools are left out.
const ENDS: [(&str, &[&str]); 8] = [
    (
        "action_plan",
        &[
            "declined: no command fits",
            "declined: no commands",
            "declined: no valid plan",
            "declined: person declined",
            "declined: plan dropped",
            "partial: command failed",
            "partial: model_calls",
            "partial: no clear answer",
            "partial: person declined",
            "partial: step skipped",
            "partial: steps_max",
            "partial: stopped by a result",
        ],
    ),
    ("index_builder", &["partial: servers not indexed"]),
    (
        "planner",
        &[
            "declined: gave up",
            "declined: no expert fits",
            "declined: no valid plan",
            "declined: person declined",
            "partial: task failed",
            "partial: gave up",
            "partial: model_calls",
            "partial: no expert fits",
            "partial: person declined",
            "partial: repeated calls",
            "partial: rounds",
        ],
    ),
    (
        "planner_with_prompts",
        &[
            "declined: gave up",
            "declined: no expert fits",
            "declined: no valid plan",
            "declined: person declined",
            "partial: rounds",
            "partial: task failed",
        ],
    ),
    (
        "probe",
        &[
            "declined: not understood",
            "declined: nothing fits",
            "declined: person declined",
            "declined: told to",
            "partial: person declined",
            "partial: rounds",
            "partial: told to",
        ],
    ),
    (
        "research",
        &[
            "declined: person declined",
            "partial: every search failed",
            "partial: loops",
            "partial: model_calls",
            "partial: no sources",
            "partial: nothing new to search",
            "partial: nothing to search",
            "partial: person declined",
        ],
    ),
    ("chat", &["partial: repeated calls", "partial: rounds"]),
    (
        "retriever",
        &[
            "declined: no server fits",
            "declined: no server left",
            "declined: person declined",
            "declined: reroutes",
            "partial: no server left",
            "partial: person declined",
            "partial: reroutes",
            "partial: repeated calls",
            "partial: rounds",
        ],
    ),
];

/// The decisions of a strategy that add to the outcome, before the engine adds causes of its own.
#[test]
fn every_outcome_without_a_full_answer_has_a_fixture_and_a_line_in_the_book() {
    let mut seen = BTreeMap::<&str, BTreeSet<String>>::new();
    each_fixture(|graph, _, script| {
        let ends = seen.entry(graph.name()).or_default();
        for event in rerun(graph, &script).unwrap().log {
            let Event::Decided(decision) = event else { continue };
            let ends_turn = decision.to == Goto::End;
            let Some(outcome) = decision.outcome.filter(|_| decision.budget_exceeded.is_none()) else {
                continue;
            };
            // Only some strategies add a cause in the decision that ends the turn; it has those of earlier ones too.
            let of_engine = |text: &str| text.starts_with("budget") || ENGINE_REASONS.contains(&text);
            let own = |cause: &&Cause| matches!(cause, Cause::Reason(text) if !of_engine(text));
            let own: Vec<&Cause> = outcome.causes.iter().filter(own).collect();
            if let ([own], true) = (&own[..], !ends_turn || outcome.causes.len() == 1) {
                ends.insert(format!("{}: {own}", outcome.kind.name()));
            }
        }
    });
    let expected = ENDS.map(|(name, ends)| (name, ends.iter().map(|end| (*end).to_owned()).collect()));
    assert_eq!(seen, BTreeMap::from(expected));
    let book = include_str!("../../../docs/outcomes.md");
    let causes = ENDS.iter().flat_map(|(_, ends)| *ends).filter_map(|end| end.split_once(": "));
    for (kind, cause) in causes.filter(|(_, cause)| !["told to", "nothing fits"].contains(cause)) {
        assert!(book.contains(&format!("`{cause}`")), "docs/outcomes.md does not explain {kind}: {cause}");
    }
}

/// The outcome at the end of a turn follows from the turn's own events, whatever the strategy does.
#[test]
fn the_engine_adds_the_causes_that_it_knows() {
    let mut seen = BTreeSet::new();
    each_fixture(|graph, name, script| {
        let log = rerun(graph, &script).unwrap().log;
        let mut thread = graph.begin();
        let mut abandoned = 0;
        for event in &log {
            thread.apply(event).unwrap();
            match event {
                Event::TurnStarted(started) if started.kind == TurnKind::New => abandoned = 0,
                Event::Abandoned(_) => abandoned += 1,
                Event::Decided(decision) if decision.to == Goto::End => {
                    let outcome = decision.outcome.clone().unwrap_or_default();
                    assert_eq!(*thread.outcome(), outcome, "{name}: the fold returns the recorded outcome");
                    assert_eq!(outcome.is_answered(), outcome.causes.is_empty(), "{name}: {event}");
                    let is_budget = |cause: &Cause| cause.to_string().starts_with("budget");
                    if decision.budget_exceeded.is_some() {
                        assert!(outcome.causes.iter().any(is_budget), "{name}: {event}");
                    }
                    // The probe takes its causes from its input.
                    if abandoned == 0 && graph.name() != "probe" {
                        assert!(!outcome.lacked_server(), "{name}: {event}");
                    }
                    seen.extend(
                        outcome
                            .causes
                            .into_iter()
                            .filter(|_| graph.name() != "probe")
                            .filter(|cause| !matches!(cause, Cause::Reason(text) if text != "reply cut off")),
                    );
                }
                _ => {}
            }
        }
    });
    let seen: Vec<String> = seen.iter().map(|cause| cause.to_string()).collect();
    let expected = [
        "reply cut off",
        "mcp unreachable: amber",
        "mcp unreachable: birch",
        "mcp unreachable: calendar",
        "mcp unreachable: cedar",
        "mcp unreachable: contacts",
        "mcp unreachable: dogwood",
        "mcp unreachable: elm",
        "mcp unreachable: giftWrap",
        "mcp unreachable: hazel",
        "mcp unreachable: ivy",
        "mcp unreachable: juniper",
        "mcp unreachable: shop",
        "mcp unreachable: web",
        "pin changed: calendar",
        "write skipped: calendar.cancel",
    ];
    assert_eq!(seen, expected);
}

/// A server that answers later in the turn is no cause. One that is unreachable in a turn that asks a person is still
/// a cause when the answer ends the request, and none of the next request.
#[test]
fn an_unreachable_server_is_a_cause_until_it_answers() {
    let planner = strategies::find("action_plan").unwrap();
    let log = |lines: &[&str]| {
        lines.iter().map(|line| serde_json::from_str::<Event>(line).unwrap()).collect::<Vec<_>>()
    };
    let opened = r#"{"event":"opened","strategy":"action_plan","servers":{"calendar":"dates"}}"#;
    let started = r#"{"event":"turn_started","messages":[{"role":"user","content":"Book"}]}"#;
    let refused = r#"{"event":"attempt_failed","slot":0,"error":"connection refused"}"#;
    let tools = r#"{"event":"answered","slot":0,"response":{"response":"tools","tools":[{"name":"book","safety":"read"}]}}"#;
    let none =
        r#"{"event":"answered","slot":0,"response":{"response":"reply","content":"{\"action_plan\":[]}"}}"#;
    let text = r#"{"event":"answered","slot":0,"response":{"response":"reply","content":"Sorry."}}"#;
    let ends = |lines: &[&str]| {
        let log = rerun(planner, &log(lines)).unwrap().log;
        log.iter()
            .filter_map(|event| if let Event::Decided(decided) = event { Some(decided) } else { None })
            .filter(|decision| decision.to == Goto::End)
            .map(|decision| decision.outcome.as_ref().map(ToString::to_string).unwrap_or_default())
            .collect::<Vec<_>>()
    };
    let unreachable = "partial: mcp unreachable: calendar";
    assert_eq!(ends(&[opened, started, refused, text]), [unreachable]);
    let then = [opened, started, refused, text, started, tools, none, text];
    assert_eq!(
        ends(&then),
        [unreachable, "declined: no command fits"],
        "the next request starts without causes"
    );
    let ask = r#"{"event":"answered","slot":0,"response":{"response":"reply","content":"{\"action_plan\":[],\"missing_information\":[\"When?\"]}"}}"#;
    let two = opened.replace("\"calendar\":\"dates\"", "\"calendar\":\"dates\",\"contacts\":\"people\"");
    let dead = r#"{"event":"attempt_failed","slot":1,"error":"connection refused"}"#;
    let answer = started.replace("\"messages\"", "\"kind\":\"answer\",\"messages\"");
    let asked = [two.as_str(), started, tools, dead, ask, &answer, none, text];
    assert_eq!(ends(&asked), ["declined: no command fits; mcp unreachable: contacts"]);
}
