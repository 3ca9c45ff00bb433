//! Suggestions for mistyped names.

/// Returns the known name most similar to `name`, if one is close enough to be a typo of it.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + name.chars().count() / 4;
    let distance =
        |text: &'a str| (strsim::damerau_levenshtein(&name.to_lowercase(), &text.to_lowercase()), text);
    known.into_iter().map(distance).filter(|(distance, _)| *distance <= limit).min().map(|(_, text)| text)
}

/// Returns `did you mean X?`, or else `known: …`, for a name that is none of `known`.
pub(crate) fn hint(name: &str, known: &[&str]) -> String {
    match (closest(name, known.iter().copied()), known) {
        (Some(near), _) => format!("did you mean {near:?}?"),
        (None, []) => "there are none".to_owned(),
        (None, known) => format!("known: {}", known.join(", ")),
    }
}

#[test]
fn a_typo_is_answered_with_the_closest_name() {
    let known = ["planner", "probe", "action_plan"];
    assert_eq!(closest("plannr", known), Some("planner"));
    assert_eq!(closest("Planner", known), Some("planner"));
    assert_eq!(closest("action-plan", known), Some("action_plan"));
    assert_eq!(closest("retriever", known), None);
    assert_eq!(hint("plannr", &known), "did you mean \"planner\"?");
    assert_eq!(hint("x", &known), "known: planner, probe, action_plan");
    assert_eq!(hint("x", &[]), "there are none");
}
