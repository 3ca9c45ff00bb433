//! "Did you mean" for mistyped names.

/// Returns the known name most similar to `name`, if one is close enough to be a typo of it.
pub(crate) fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + name.chars().count() / 4;
    let distance = |it: &'a str| (strsim::damerau_levenshtein(&name.to_lowercase(), &it.to_lowercase()), it);
    known.into_iter().map(distance).filter(|(distance, _)| *distance <= limit).min().map(|(_, it)| it)
}

/// Describes an unknown name: `unknown strategy "plannr"`, then a hint with the closest name or the list of all.
pub(crate) fn unknown(kind: &str, name: &str, known: &[&str]) -> String {
    let hint = match (closest(name, known.iter().copied()), known) {
        (Some(it), _) => format!("did you mean {it:?}?"),
        (None, []) => format!("no {kind} is configured"),
        (None, known) => format!("known are: {}", known.join(", ")),
    };
    format!("unknown {kind} {name:?}\nhint: {hint}")
}

#[test]
fn a_typo_is_answered_with_the_closest_name() {
    let known = ["planner", "probe", "action_plan"];
    assert_eq!(closest("plannr", known), Some("planner"));
    assert_eq!(closest("Planner", known), Some("planner"));
    assert_eq!(closest("action-plan", known), Some("action_plan"));
    assert_eq!(closest("retriever", known), None);
    assert_eq!(
        unknown("strategy", "plannr", &known),
        "unknown strategy \"plannr\"\nhint: did you mean \"planner\"?"
    );
    assert!(unknown("strategy", "x", &known).ends_with("hint: known are: planner, probe, action_plan"));
}
