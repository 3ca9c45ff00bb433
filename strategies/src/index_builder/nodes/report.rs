//! Reports the result for each server.

use crate::index_builder::{self, IndexBuilder, Status};
use shared::{Message, Node, Thread, Transition};

pub(in crate::index_builder) struct Report;

impl Node<IndexBuilder> for Report {
    type Effect = ();

    fn ask(&self, _: &Thread<IndexBuilder>) {}

    fn learn(&self, thread: &Thread<IndexBuilder>, (): ()) -> Transition<IndexBuilder> {
        let next = Transition::end().say(Message::assistant(told(&thread.state.report)));
        let failed =
            thread.state.report.servers.values().any(|status| matches!(status, Status::Failed { .. }));
        if failed { next.partial("servers not indexed") } else { next }
    }
}

/// Formats the totals in one line, then one line for each server.
fn told(report: &index_builder::Report) -> String {
    let count = |is: fn(&Status) -> bool| report.servers.values().filter(|status| is(status)).count();
    let mut lines = vec![format!(
        "The index is built: {} ok, {} unchanged, {} failed, {} removed.",
        count(|status| matches!(status, Status::Ok)),
        count(|status| matches!(status, Status::Unchanged)),
        count(|status| matches!(status, Status::Failed { .. })),
        report.removed.len(),
    )];
    lines.extend(report.servers.iter().map(|(name, status)| match status {
        Status::Ok => format!("- {name}: ok"),
        Status::Unchanged => format!("- {name}: unchanged"),
        Status::Failed { reason } => format!("- {name}: failed: {reason}"),
    }));
    lines.extend(report.removed.iter().map(|name| format!("- {name}: removed")));
    lines.join("\n")
}
