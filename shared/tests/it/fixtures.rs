//! Every strategy, held to its fixtures: the four tests that a strategy gets for nothing.
//!
//! A fixture is a log, recorded or written by hand. Only what came from outside is read from it; the rest is
//! decided anew and shown to a reviewer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use shared::{Edge, Event, Graph, Next, Request, map, reenact, strategies, transcript, verify};

#[test]
fn transcripts() {
    each_fixture(|graph, name, script| {
        let lived = reenact(graph, &script).unwrap();
        let left =
            lived.left_over.iter().map(|it| format!("     no longer asked for: {it}\n")).collect::<String>();
        let state = graph.replay(&lived.log).unwrap().state().unwrap();
        insta::assert_snapshot!(name, format!("{}{left}\nstate {state:#}", transcript(&lived.log)));
    });
}

/// Whichever event a worker dies after, the next worker carries on as if nothing had happened: it takes the very
/// next step, or the next event came from outside and could come now as well.
#[test]
fn crash_anywhere() {
    each_fixture(|graph, name, script| {
        let log = reenact(graph, &script).unwrap().log;
        for (cut, event) in log.iter().enumerate() {
            let next = graph.replay(&log[..cut]).unwrap().next().unwrap();
            match next {
                // A write that was under way when the worker died may have happened, and nobody may repeat it.
                Next::Append(Event::Doubted(_)) => assert!(event.is_outside(), "{name} {cut}: {event}"),
                Next::Append(next) if event.is_decision() => assert_eq!(next, *event, "{name} {cut}"),
                Next::Append(_) | Next::Rest => assert!(event.is_outside(), "{name} {cut}: {event}"),
                Next::Perform(due) => {
                    let attempted =
                        matches!(event, Event::Attempted(it) if due.iter().any(|due| due.slot == it.slot));
                    assert!(event.is_outside() || attempted, "{name} {cut}: {event}");
                }
            }
        }
        assert_eq!(verify(graph, &log).unwrap(), [], "{name}");
    });
}

/// No thread leaves the map, and together the fixtures walk every edge of it.
#[test]
fn maps() {
    let mut dashed = BTreeMap::new();
    for graph in strategies::all() {
        let mut walked = BTreeSet::new();
        let topology = graph.topology();
        each_fixture_of(graph, |_, script| {
            for event in reenact(graph, &script).unwrap().log {
                // The end by a budget is the engine's, before any node, and stands on no strategy's map.
                if let Event::Decided(it) = event
                    && it.spent.is_none()
                {
                    walked.insert((it.node, Edge::taken(&it.to)));
                }
            }
        });
        let known: BTreeSet<_> = topology
            .edges
            .iter()
            .flat_map(|(from, tos)| tos.iter().map(|to| (from.clone(), to.clone())))
            .collect();
        let strayed: Vec<_> = walked.difference(&known).collect();
        assert!(strayed.is_empty(), "{} left its map: {strayed:?}", graph.name());
        beside(&folder(graph)).bind(|| insta::assert_snapshot!("map", map(&topology, Some(&walked))));
        dashed.insert(graph.name(), known.difference(&walked).cloned().collect::<Vec<_>>());
    }
    assert!(dashed.values().all(Vec::is_empty), "edges that no fixture walks: {dashed:#?}");
}

/// Every distinct prompt in full, so that an edited prompt is a difference to review.
#[test]
fn prompts() {
    for graph in strategies::all() {
        let mut prompts = BTreeMap::<String, BTreeSet<String>>::new();
        each_fixture_of(graph, |_, script| {
            for event in reenact(graph, &script).unwrap().log {
                let Event::Asked(asked) = event else { continue };
                for request in asked.requests {
                    if let Request::Chat { system, .. } = request {
                        prompts.entry(asked.node.clone()).or_default().insert(system);
                    }
                }
            }
        });
        let all =
            prompts.iter().flat_map(|(node, it)| it.iter().map(move |text| format!("── {node}\n{text}\n")));
        beside(&folder(graph))
            .bind(|| insta::assert_snapshot!("prompts", all.collect::<Vec<_>>().join("\n")));
    }
}

pub(crate) fn each_fixture(mut check: impl FnMut(&'static dyn Graph, &str, Vec<Event>)) {
    for graph in strategies::all() {
        each_fixture_of(graph, |name, script| check(graph, name, script));
    }
}

fn each_fixture_of(graph: &'static dyn Graph, mut check: impl FnMut(&str, Vec<Event>)) {
    let folder = folder(graph);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|err| panic!("{} has no fixtures: {err}", graph.name()));
    let mut paths: Vec<PathBuf> = entries.map(|it| it.unwrap().path()).collect();
    paths.retain(|it| it.extension().is_some_and(|it| it == "jsonl"));
    paths.sort();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let read =
            |(n, line)| serde_json::from_str(line).unwrap_or_else(|err| panic!("{path:?}:{}: {err}", n + 1));
        let script = text.lines().enumerate().map(read).collect();
        let name = path.file_stem().unwrap().to_str().unwrap();
        beside(&folder).bind(|| check(name, script));
    }
}

fn folder(graph: &dyn Graph) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(graph.name())
}

/// Snapshots stand beside the fixtures that they are made from.
fn beside(folder: &Path) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}
