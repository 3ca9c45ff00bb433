//! "Did you mean" for mistyped names.

use shared::closest;

/// Describes an unknown name: `unknown strategy "plannr"`, then a hint with the closest name or the list of all.
pub(crate) fn unknown(kind: &str, name: &str, known: &[&str]) -> String {
    let hint = match (closest(name, known.iter().copied()), known) {
        (Some(near), _) => format!("did you mean {near:?}?"),
        (None, []) => format!("no {kind} is configured"),
        (None, known) => format!("known are: {}", known.join(", ")),
    };
    format!("unknown {kind} {name:?}\nhint: {hint}")
}

#[test]
fn a_typo_is_answered_with_the_closest_name() {
    let known = ["planner", "probe", "action_plan"];
    assert_eq!(
        unknown("strategy", "plannr", &known),
        "unknown strategy \"plannr\"\nhint: did you mean \"planner\"?"
    );
    assert!(unknown("strategy", "x", &known).ends_with("hint: known are: planner, probe, action_plan"));
}
