//! Asks the person to approve the queries.

use crate::research::{NodeName, Research};
use shared::{InterruptKind, Node, Question, Thread, Transition};

pub(in crate::research) struct ConfirmQueries;

impl Node<Research> for ConfirmQueries {
    type Effect = ();

    fn ask(&self, _: &Thread<Research>) {}

    fn learn(&self, thread: &Thread<Research>, (): ()) -> Transition<Research> {
        Transition::ask(question(thread), NodeName::ReceiveApproval)
    }
}

/// The question accepts any text: the answer is “yes”, “no”, an instruction or other queries.
pub(super) fn question(thread: &Thread<Research>) -> Question {
    let line = |(n, query): (usize, &String)| format!("{}. {query}", n + 1);
    let queries: Vec<String> = thread.state.queries.iter().enumerate().map(line).collect();
    let question = format!(
        "May I search for this?\n{}\nAnswer yes or no, say what should be different, or list the queries to search instead: \
         one a line, each after a dash.",
        queries.join("\n")
    );
    Question::open(InterruptKind::Approval, question)
}
