//! Comparison of two logs.

use audit::{Row, Side, ThreadDiff, diff};
use shared::{Event, rerun};

use crate::fixtures::{Lived, all, lived};

fn beside(left: &Lived, right: &Lived) -> ThreadDiff {
    diff(Side { graph: left.graph, log: &left.log }, Side { graph: right.graph, log: &right.log }).unwrap()
}

#[test]
fn a_log_is_the_same_as_itself_under_other_names() {
    for it in all() {
        let mut other = Lived { graph: it.graph, name: it.name.clone(), log: it.log.clone() };
        threads::rename_turns(&mut other.log);
        let same = beside(&it, &other);
        assert_eq!((same.same, same.rows, same.split), (it.log.len(), vec![], None), "{}", it.name);
    }
}

/// The length of the pause after a failure is random; its presence is not.
#[test]
fn how_long_a_fault_made_it_wait_is_no_difference() {
    let one = lived("probe", "flaky_then_succeeds");
    let with = |pause: fn(u64) -> Option<u64>| {
        let mut log = one.log.clone();
        for event in &mut log {
            if let Event::AttemptFailed(it) = event {
                it.retry_after_ms = it.retry_after_ms.and_then(pause);
            }
        }
        beside(&one, &Lived { graph: one.graph, name: String::new(), log })
    };
    let other = with(|ms| Some(ms + 41));
    assert_eq!((other.same, other.rows, other.split), (one.log.len(), vec![], None));
    let short = Lived { graph: one.graph, name: String::new(), log: one.log[..6].to_vec() };
    let mut never = Lived { graph: one.graph, name: String::new(), log: short.log.clone() };
    let Some(Event::AttemptFailed(it)) = never.log.last_mut() else { panic!("it does not falter there") };
    it.retry_after_ms = None;
    let never = beside(&short, &never);
    assert!(matches!(&never.rows[..], [Row::Changed { left: 5, .. }]), "{never:?}");
}

/// For any two logs, every event of both is listed once.
#[test]
fn every_event_is_told_once() {
    let logs = all();
    for (left, right) in logs.iter().zip(&logs[1..]) {
        let diffed = beside(left, right);
        let (mut lefts, mut rights) = (diffed.same, diffed.same);
        for row in &diffed.rows {
            lefts += usize::from(!matches!(row, Row::Right { .. }));
            rights += usize::from(!matches!(row, Row::Left { .. }));
        }
        assert_eq!((lefts, rights), (left.log.len(), right.log.len()), "{} {}", left.name, right.name);
    }
}

#[test]
fn a_changed_threshold_parts_two_threads_where_it_decides() {
    let left = lived("planner", "confidence_at_the_threshold");
    let mut script = left.log.clone();
    let Event::Opened(opened) = &mut script[0] else { panic!("no beginning") };
    opened.config["confidence"] = 0.6.into();
    let right =
        Lived { graph: left.graph, name: String::new(), log: rerun(left.graph, &script).unwrap().log };
    let diffed = beside(&left, &right);
    assert!(
        matches!(&diffed.rows[0], Row::Changed { left: 0, differs, .. } if differs[0].path == "event.config.confidence")
    );
    let route = diffed.rows.iter().find_map(|it| match it {
        Row::Changed { left: 17, right: 17, step, differs } => Some((step.as_str(), differs)),
        Row::Changed { .. } | Row::Left { .. } | Row::Right { .. } => None,
    });
    let (step, differs) = route.unwrap();
    assert_eq!(step, "decided assess");
    assert!(
        differs
            .iter()
            .any(|it| it.path == "event.to.node" && it.left == "“orchestrate”" && it.right == "“advance”")
    );
    assert!(diffed.rows.iter().any(|it| matches!(it, Row::Left { .. })), "the left one worked on");
    let split = diffed.split.unwrap();
    assert_eq!((split.left, split.right, split.before.left), (0, 0, split.before.right));
}
