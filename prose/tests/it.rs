//! Holds the comments, identifiers and imports of the whole workspace to the limits.

use std::{
    io::{self, Write},
    path::Path,
};

use prose::{Circle, Report, Rule};

/// Limit in per mille for each rule. They are only ever lowered.
const LIMITS: [(Rule, usize); 6] = [
    (Rule::Opening, 4),
    (Rule::FileOpening, 0),
    (Rule::TooShort, 0),
    (Rule::Avoided, 0),
    (Rule::Element, 150),
    (Rule::Identifier, 0),
];

#[test]
fn the_workspace_keeps_the_limits() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let report = Report::read(workspace).unwrap();
    for (rule, limit) in LIMITS {
        let share = report.share(rule);
        assert!(share.total > 0, "nothing was found that {rule:?} applies to");
        let (offenders, total) = (share.offenders, share.total);
        writeln!(io::stdout(), "{rule:?}: {offenders} of {total}, at most {limit} per mille").unwrap();
        let offenders = || report.offenders(rule).collect::<Vec<_>>().join("\n");
        assert!(
            share.per_mille() <= limit,
            "{rule:?}: {} of {}, more than {limit} per mille\n{}",
            share.offenders,
            share.total,
            offenders()
        );
    }
}

#[test]
fn no_circle_of_imports_is_too_large() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let circles = Circle::read(workspace).unwrap();
    let largest = circles.first().map_or(0, |circle| circle.files.len());
    writeln!(io::stdout(), "largest circle: {largest} files, at most {}", Circle::MAX_FILES).unwrap();
    let too_large: Vec<_> = circles.iter().filter(|circle| circle.is_too_large()).collect();
    let printed = too_large.iter().map(ToString::to_string).collect::<String>();
    assert!(
        too_large.is_empty(),
        "circles of more than {} files; hint: move what two files share to a file of its own\n{printed}",
        Circle::MAX_FILES
    );
}
