//! Number of turns that ended in this process, by strategy and outcome, for a monitoring system.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

/// Number of turns that ended in this process since it started. Clones share the counts.
///
/// **Invariant:** the labels are the names of strategies and a fixed set of outcomes, so their number is bounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnCounts(Arc<Mutex<BTreeMap<(&'static str, &'static str), u64>>>);

impl TurnCounts {
    /// Counts a turn of `strategy`. `outcome` is that of a completed turn, or the status of one that ended otherwise.
    pub(crate) fn add(&self, strategy: &'static str, outcome: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry((strategy, outcome)).or_default() += 1;
    }

    /// Formats the counts in the text format of Prometheus.
    pub(crate) fn to_prometheus(&self) -> String {
        let mut text = "# HELP turnfold_turns_total Turns that ended in this process.\n\
                        # TYPE turnfold_turns_total counter\n"
            .to_owned();
        for ((strategy, outcome), turns) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(
                text,
                "turnfold_turns_total{{strategy=\"{strategy}\",outcome=\"{outcome}\"}} {turns}"
            );
        }
        text
    }
}

#[test]
fn counts_are_lines_of_prometheus() {
    let counts = TurnCounts::default();
    counts.clone().add("probe", "partial");
    counts.add("planner", "answered");
    counts.add("probe", "partial");
    let lines: Vec<String> = counts.to_prometheus().lines().skip(2).map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "turnfold_turns_total{strategy=\"planner\",outcome=\"answered\"} 1",
            "turnfold_turns_total{strategy=\"probe\",outcome=\"partial\"} 2",
        ]
    );
}
