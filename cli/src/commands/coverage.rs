//! Lists the columns that a verification compared, and those that it did not.

use std::collections::BTreeMap;

use store::{Coverage, integrity::coverage::Against};

/// Returns a line for each kind of comparison, and one for each reason why columns were not compared.
pub(super) fn to_lines(coverage: &Coverage) -> Vec<String> {
    let mut compared = BTreeMap::<Against, Vec<String>>::new();
    for part in &coverage.compared {
        compared.entry(part.against).or_default().push(format!(
            "{} ({})",
            part.table,
            part.columns.join(", ")
        ));
    }
    let mut left_out = BTreeMap::<(bool, &str), Vec<String>>::new();
    for part in &coverage.not_compared {
        let columns = if part.whole_table { "all".to_owned() } else { part.columns.join(", ") };
        left_out.entry((!part.in_part, part.why)).or_default().push(format!("{} ({columns})", part.table));
    }
    let against = |against| match against {
        Against::Chain => "with the hash chains",
        Against::Log => "with the logs",
        Against::Rows => "with other rows",
        Against::AdminLog => "with the administrative logs",
    };
    let compared =
        compared.into_iter().map(|(side, parts)| format!("compared {}: {}", against(side), parts.join("; ")));
    let left_out = left_out.into_iter().map(|((is_whole, why), parts)| {
        let how = if is_whole { "not compared" } else { "compared in part" };
        format!("{how}, {why}: {}", parts.join("; "))
    });
    compared.chain(left_out).collect()
}
