//! Comparison of two logs.

use audit::{Row, Side, ThreadDiff, diff};
use shared::{Event, rerun};

use crate::fixtures::{FixtureLog, all, fixture_log};

fn diff_of(left: &FixtureLog, right: &FixtureLog) -> ThreadDiff {
    diff(Side { graph: left.graph, log: &left.log }, Side { graph: right.graph, log: &right.log }).unwrap()
}

#[test]
fn a_log_is_the_same_as_itself_under_other_names() {
    for fixture in all() {
        let mut other =
            FixtureLog { graph: fixture.graph, name: fixture.name.clone(), log: fixture.log.clone() };
        threads::rename_turns(&mut other.log);
        let same = diff_of(&fixture, &other);
        assert_eq!((same.same, same.rows, same.split), (fixture.log.len(), vec![], None), "{}", fixture.name);
    }
}

/// The length of the pause after a failure is random; its presence is not.
#[test]
fn the_length_of_a_pause_after_a_failure_is_no_difference() {
    let one = fixture_log("probe", "flaky_then_succeeds");
    let with = |pause: fn(u64) -> Option<u64>| {
        let mut log = one.log.clone();
        for event in &mut log {
            if let Event::AttemptFailed(failed) = event {
                failed.retry_after_ms = failed.retry_after_ms.and_then(pause);
            }
        }
        diff_of(&one, &FixtureLog { graph: one.graph, name: String::new(), log })
    };
    let other = with(|ms| Some(ms + 41));
    assert_eq!((other.same, other.rows, other.split), (one.log.len(), vec![], None));
    let short = FixtureLog { graph: one.graph, name: String::new(), log: one.log[..6].to_vec() };
    let mut never = FixtureLog { graph: one.graph, name: String::new(), log: short.log.clone() };
    let Some(Event::AttemptFailed(failed)) = never.log.last_mut() else { panic!("no attempt fails there") };
    failed.retry_after_ms = None;
    let never = diff_of(&short, &never);
    assert!(matches!(&never.rows[..], [Row::Changed { left: 5, .. }]), "{never:?}");
}

/// For any two logs, every event of both is listed once.
#[test]
fn every_event_is_listed_once() {
    let logs = all();
    for (left, right) in logs.iter().zip(&logs[1..]) {
        let diff = diff_of(left, right);
        let (mut left_events, mut right_events) = (diff.same, diff.same);
        for row in &diff.rows {
            left_events += usize::from(!matches!(row, Row::Right { .. }));
            right_events += usize::from(!matches!(row, Row::Left { .. }));
        }
        assert_eq!(
            (left_events, right_events),
            (left.log.len(), right.log.len()),
            "{} {}",
            left.name,
            right.name
        );
    }
}

#[test]
fn a_changed_threshold_is_a_difference_where_it_decides() {
    let left = fixture_log("planner", "confidence_at_the_threshold");
    let mut script = left.log.clone();
    let Event::Opened(opened) = &mut script[0] else { panic!("no opening") };
    opened.config["confidence"] = 0.6.into();
    let right =
        FixtureLog { graph: left.graph, name: String::new(), log: rerun(left.graph, &script).unwrap().log };
    let diff = diff_of(&left, &right);
    assert!(
        matches!(&diff.rows[0], Row::Changed { left: 0, differs, .. } if differs[0].path == "event.config.confidence")
    );
    let route = diff.rows.iter().find_map(|row| match row {
        Row::Changed { left: 17, right: 17, step, differs } => Some((step.as_str(), differs)),
        Row::Changed { .. } | Row::Left { .. } | Row::Right { .. } => None,
    });
    let (step, differs) = route.unwrap();
    assert_eq!(step, "decided assess");
    assert!(differs.iter().any(|difference| difference.path == "event.to.node"
        && difference.left == "“orchestrate”"
        && difference.right == "“advance”"));
    assert!(diff.rows.iter().any(|row| matches!(row, Row::Left { .. })), "the left thread continued");
    let split = diff.split.unwrap();
    assert_eq!((split.left, split.right, split.before.left), (0, 0, split.before.right));
}
