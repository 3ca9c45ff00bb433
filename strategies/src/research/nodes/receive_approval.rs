//! Reads the person's answer to the queries.

use crate::research::{
    Ending, Fact, NodeName, Research,
    queries::{Approval, approval},
    question,
};
use shared::{Answer, ModelReading, Node, Question, ReadAnswer, Sentence, Thread, Transition, visible_line};

use super::confirm_queries::question;

pub(in crate::research) struct ReceiveApproval;

const ASK_QUERIES: Sentence = Sentence {
    english: "Which queries shall I search instead?",
    german: "Welche Anfragen soll ich stattdessen suchen?",
    french: "Quelles requêtes dois-je chercher à la place ?",
    spanish: "¿Qué consultas busco en su lugar?",
};

impl Node<Research> for ReceiveApproval {
    type Effect = ReadAnswer;

    /// A model reads one line that the table does not know, and can never approve.
    fn ask(&self, thread: &Thread<Research>) -> ReadAnswer {
        let is_line = read(thread) == Approval::Line;
        ReadAnswer::new(thread, &thread.config.model, is_line && question::spent(thread).is_none())
    }

    fn learn(&self, thread: &Thread<Research>, reading: ModelReading) -> Transition<Research> {
        let text = thread.user_message();
        let declined = || {
            let next = Transition::to(NodeName::FinalizeAnswer).learn(Fact::Ended(Ending::Declined));
            next.declined("person declined")
        };
        let planned_again = || {
            let why = format!("{text:?} is an instruction: the queries are planned again");
            Transition::to(NodeName::PlanningAgent).because(why)
        };
        let unclear = |why: String| again(thread, &format!("I cannot take that: {why}.")).because(why);
        match read(thread) {
            Approval::Yes => Transition::to(NodeName::WebResearch),
            Approval::No => declined(),
            Approval::Change => again(thread, ASK_QUERIES.for_readers_of(&thread.messages)),
            Approval::Wish => planned_again(),
            Approval::Line => match reading.of(text) {
                Answer::No | Answer::Stop => declined(),
                Answer::Wish => planned_again(),
                Answer::Yes | Answer::Change | Answer::Unclear => {
                    unclear(format!("“{}” is not clear", visible_line(text.trim())))
                }
            },
            Approval::Rather(queries) => Transition::to(NodeName::WebResearch)
                .learn(Fact::Planned { queries, rationale: "the person's own".to_owned() }),
            Approval::Unclear(why) => unclear(why),
        }
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(ReadAnswer::PROMPT)
    }
}

fn read(thread: &Thread<Research>) -> Approval {
    approval(thread.user_message(), thread.config.queries())
}

/// Asks for approval again, after `words`.
fn again(thread: &Thread<Research>, words: &str) -> Transition<Research> {
    let asked = question(thread);
    let again = Question { question: format!("{words}\n{}", asked.question), ..asked };
    Transition::ask(again, NodeName::ReceiveApproval)
}
