//! The fixture of the greeter: its transcript, and its map with every edge walked.

use std::collections::BTreeSet;

use shared::{Event, Graph, map, reenact, transcript, verify};

use super::{Edge, Greeter};

#[test]
fn two_visits() {
    let script = include_str!("../fixtures/two_visits.jsonl");
    let script: Vec<Event> = script.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let lived = reenact(&Greeter, &script).unwrap();
    assert!(lived.left_over.is_empty());
    assert_eq!(verify(&Greeter, &lived.log).unwrap(), []);
    let mut walked = BTreeSet::new();
    for event in &lived.log {
        if let Event::Decided(it) = event {
            walked.insert((it.node.clone(), Edge::taken(&it.to)));
        }
    }
    let shown = format!("{}\n{}", transcript(&lived.log), map(&Greeter.topology(), Some(&walked)));
    assert!(!shown.contains("-.->"), "an edge that is not walked:\n{shown}");
    insta::with_settings!({snapshot_path => "../fixtures", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("two_visits", shown);
    });
}
