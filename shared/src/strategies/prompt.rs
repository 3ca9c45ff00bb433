//! Fills in the placeholders of a prompt.

/// Returns `template` with every `{name}` of `blanks` filled in.
///
/// Works in one pass from left to right and never rescans inserted text, so a placeholder in the words of a person or a
/// model has no effect.
pub(super) fn fill(template: &str, blanks: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        out.push_str(before);
        let filled = blanks.iter().find_map(|(name, text)| {
            let after = from.strip_prefix('{')?.strip_prefix(name)?.strip_prefix('}')?;
            Some((text, after))
        });
        match filled {
            Some((text, after)) => {
                out.push_str(text);
                rest = after;
            }
            None => {
                out.push('{');
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    out.trim_end().to_owned()
}

#[test]
fn what_is_filled_in_is_not_filled_again() {
    let filled = fill("do {task} {json: 1} for {who}\n", &[("task", "{who}"), ("who", "Ann")]);
    assert_eq!(filled, "do {who} {json: 1} for Ann");
}
