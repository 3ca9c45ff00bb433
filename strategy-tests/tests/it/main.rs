//! Our own fixtures pass the checks for fixtures.

mod ignored_answers;
mod planted;

use std::{collections::BTreeMap, path::Path};

use shared::{Event, rerun};
use strategy_tests::{Aspect, Coverage, Refusal, Secrets, Suite, capture, check, refreshed};

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

#[test]
fn our_own_fixtures_are_clean() {
    let (fixtures, findings) = check(&strategies::all(), &folder(), &Secrets::and(Vec::new())).unwrap();
    let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{}", lines.join("\n"));
    assert!(fixtures > 200, "{fixtures} fixtures");
}

/// Every log behind our fixtures can be captured, or is refused for a valid reason.
#[test]
fn our_own_logs_can_be_captured() {
    let secrets = Secrets::and(Vec::new());
    let (mut captured, mut refused) = (0, BTreeMap::new());
    for suite in Suite::each_of(&strategies::all(), &folder()).unwrap() {
        for fixture in &suite.fixtures {
            let log = rerun(suite.graph, &fixture.script).unwrap().log;
            match capture(suite.graph, &log, &secrets) {
                Ok(capture) => {
                    captured += 1;
                    assert_eq!(capture.redacted.log.len(), log.len());
                    let fixture = strategy_tests::Fixture { script: capture.redacted.log, ..fixture.clone() };
                    assert_eq!(refreshed(suite.graph, &fixture), Ok(None));
                }
                Err(why) => drop(refused.insert(format!("{} {}", suite.graph.name(), fixture.name), why)),
            }
        }
    }
    let green = refused.values().filter(|refusal| matches!(refusal, Refusal::Green { .. })).count();
    assert!(
        captured > 200 && refused.len() == green && green <= 3,
        "{captured} captured, refused: {refused:#?}"
    );
}

#[test]
fn all_nodes_and_edges_are_seen() {
    for suite in Suite::each_of(&strategies::all(), &folder()).unwrap() {
        let coverage = Coverage::of(&suite).unwrap();
        for aspect in [Aspect::Nodes, Aspect::Edges, Aspect::Versions] {
            let (seen, known) = coverage.count(aspect);
            assert_eq!(seen, known, "{} {aspect:?}", coverage.strategy);
        }
        assert!(coverage.unseen().all(|point| matches!(point.aspect(), Aspect::Errors | Aspect::Events)));
        assert!(coverage.known.len() > Event::KINDS.len());
    }
}
