//! Holds the comments and identifiers of the whole workspace to the limits.

use std::{
    io::{self, Write},
    path::Path,
};

use prose::{Report, Rule};

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
