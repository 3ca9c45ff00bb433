//! Asks the person to approve the queries.

use crate::research::{NodeName, Research};
use shared::{InterruptKind, Node, Question, Sentence, Thread, Transition};

pub(in crate::research) struct ConfirmQueries;

impl Node<Research> for ConfirmQueries {
    type Effect = ();

    fn ask(&self, _: &Thread<Research>) {}

    fn learn(&self, thread: &Thread<Research>, (): ()) -> Transition<Research> {
        Transition::ask(question(thread), NodeName::ReceiveApproval)
    }
}

const ASK: Sentence = Sentence {
    english: "May I search for this?",
    german: "Darf ich danach suchen?",
    french: "Puis-je rechercher ceci ?",
    spanish: "¿Puedo buscar esto?",
};
const HOW_TO_ANSWER: Sentence = Sentence {
    english: "Answer yes or no, say what should be different, or list the queries to search instead: one a line, each after a dash.",
    german: "Antworten Sie ja oder nein, sagen Sie, was anders sein soll, oder nennen Sie stattdessen die Anfragen: eine je Zeile, jede nach einem Strich.",
    french: "Répondez oui ou non, dites ce qui doit changer, ou donnez les requêtes à chercher à la place : une par ligne, chacune après un tiret.",
    spanish: "Responda sí o no, diga qué debe cambiar, o escriba las consultas que debo buscar en su lugar: una por línea, cada una tras un guion.",
};

/// The question accepts any text: the answer is “yes”, “no”, an instruction or other queries.
pub(super) fn question(thread: &Thread<Research>) -> Question {
    let line = |(n, query): (usize, &String)| format!("{}. {query}", n + 1);
    let queries: Vec<String> = thread.state.queries.iter().enumerate().map(line).collect();
    let [ask, how] = [ASK, HOW_TO_ANSWER].map(|sentence| sentence.for_readers_of(&thread.messages));
    let question = format!("{ask}\n{}\n{how}", queries.join("\n"));
    Question::open(InterruptKind::Approval, question)
}
