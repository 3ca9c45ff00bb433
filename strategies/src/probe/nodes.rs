//! The probe's nodes. They share a file because each is only a few lines long.

use std::borrow::Cow;

use super::{
    Fact, NodeName, Probe,
    script::{TIMES_MAX, USAGE, WAIT_MS_MAX, Word, parse},
};
use shared::{
    Answer, InterruptKind, Message, Node, Question, Simulate, Simulation, Thread, Transition, verbatim,
};

pub(super) struct Read;

impl Node<Probe> for Read {
    type Effect = ();

    fn ask(&self, _: &Thread<Probe>) {}

    fn learn(&self, thread: &Thread<Probe>, (): ()) -> Transition<Probe> {
        match parse(thread.user_message()) {
            Ok(words) => Transition::to(NodeName::Step).learn(Fact::Read(words)),
            Err(problem) => {
                let words = Message::assistant(format!("{problem} {USAGE}"));
                Transition::end().say(words).declined("not understood")
            }
        }
    }
}

pub(super) struct Step;

impl Node<Probe> for Step {
    type Effect = ();

    fn ask(&self, _: &Thread<Probe>) {}

    fn learn(&self, thread: &Thread<Probe>, (): ()) -> Transition<Probe> {
        let Some(word) = thread.state.todo.front() else {
            return Transition::to(NodeName::Finish);
        };
        let next = match word {
            Word::Wait(_) => NodeName::Wait,
            Word::Ask { .. } => NodeName::Ask,
            Word::Flaky(_) => NodeName::Flaky,
            Word::Fail(_) => NodeName::Fail,
            Word::Call(_) => NodeName::Call,
            Word::Nested => NodeName::NestedEnter,
            Word::Stream(_) => NodeName::Stream,
            Word::Steps(_) => {
                let padding = "·".repeat(thread.config.padding / "·".len());
                return Transition::to(NodeName::Step).learn(Fact::Stepped { padding });
            }
            Word::Partial(cause) => return begun("stopped early").partial(cause.as_str()),
            Word::Decline(cause) => return begun("declined").declined(cause.as_str()),
            Word::Echo(words) => {
                return begun(words);
            }
        };
        Transition::to(next).learn(Fact::Began)
    }
}

pub(super) struct Wait;

impl Node<Probe> for Wait {
    type Effect = Simulate;

    fn ask(&self, thread: &Thread<Probe>) -> Simulate {
        match &thread.state.doing {
            Some(Word::Wait(wait_ms)) => {
                Simulate(Simulation { wait_ms: (*wait_ms).min(WAIT_MS_MAX), ..Simulation::default() })
            }
            _ => Simulate(Simulation::default()),
        }
    }

    fn learn(&self, _: &Thread<Probe>, _: String) -> Transition<Probe> {
        done("waited")
    }
}

pub(super) struct Ask;

impl Node<Probe> for Ask {
    type Effect = ();

    fn ask(&self, _: &Thread<Probe>) {}

    fn learn(&self, thread: &Thread<Probe>, (): ()) -> Transition<Probe> {
        Transition::ask(question(thread), NodeName::ReceiveAnswer)
    }
}

pub(super) struct ReceiveAnswer;

impl Node<Probe> for ReceiveAnswer {
    type Effect = ();

    fn ask(&self, _: &Thread<Probe>) {}

    /// A dismissal that is no option ends the turn.
    fn learn(&self, thread: &Thread<Probe>, (): ()) -> Transition<Probe> {
        let Question { options, .. } = question(thread);
        let chosen = match options.is_empty() {
            true => Some(thread.user_message()).filter(|text| !Answer::is_dismissal(text)),
            false => Question::chosen(&options, thread.user_message()),
        };
        match chosen {
            None if Answer::is_dismissal(thread.user_message()) => {
                let next = Transition::to(NodeName::Finish).because("the person dismissed the question");
                let is_begun = !thread.state.done.is_empty();
                if is_begun { next.partial("person declined") } else { next.declined("person declined") }
            }
            Some(answer) => done(&format!("answered {answer:?}")).learn(Fact::Answered(answer.to_owned())),
            None => {
                let why = format!("{:?} is not among the options", thread.user_message());
                Transition::ask(question(thread), NodeName::ReceiveAnswer).because(why)
            }
        }
    }
}

fn question(thread: &Thread<Probe>) -> Question {
    match &thread.state.doing {
        Some(Word::Ask { question, options }) if !options.is_empty() => {
            Question::choice(question.clone(), options.clone())
        }
        Some(Word::Ask { question, .. }) => Question::open(InterruptKind::SlotFill, question.clone()),
        _ => Question::open(InterruptKind::SlotFill, "Well?"),
    }
}

pub(super) struct Flaky;

impl Node<Probe> for Flaky {
    type Effect = Simulate;

    fn ask(&self, thread: &Thread<Probe>) -> Simulate {
        match &thread.state.doing {
            Some(Word::Flaky(times)) => {
                Simulate(Simulation { failures: u64::from(*times), ..Simulation::default() })
            }
            _ => Simulate(Simulation::default()),
        }
    }

    fn learn(&self, _: &Thread<Probe>, _: String) -> Transition<Probe> {
        done("succeeded after failures")
    }
}

pub(super) struct Fail;

impl Node<Probe> for Fail {
    type Effect = Simulate;

    fn ask(&self, thread: &Thread<Probe>) -> Simulate {
        match &thread.state.doing {
            Some(Word::Fail(reason)) => {
                Simulate(Simulation { error: Some(reason.clone()), ..Simulation::default() })
            }
            _ => Simulate(Simulation::default()),
        }
    }

    fn learn(&self, _: &Thread<Probe>, _: String) -> Transition<Probe> {
        done("failed and was retried")
    }
}

pub(super) struct Call;

impl Node<Probe> for Call {
    type Effect = Vec<Simulate>;

    fn ask(&self, thread: &Thread<Probe>) -> Vec<Simulate> {
        let times = match &thread.state.doing {
            Some(Word::Call(times)) => (*times).min(TIMES_MAX),
            _ => 1,
        };
        let call = |n| Simulate(Simulation { text: format!("call {n}"), ..Simulation::default() });
        (1..=times).map(call).collect()
    }

    fn learn(&self, _: &Thread<Probe>, echoes: Vec<String>) -> Transition<Probe> {
        done(&format!("called {} side by side", echoes.len()))
    }
}

pub(super) struct NestedEnter;

impl Node<Probe> for NestedEnter {
    type Effect = ();

    fn ask(&self, _: &Thread<Probe>) {}

    fn learn(&self, _: &Thread<Probe>, (): ()) -> Transition<Probe> {
        Transition::to(NodeName::NestedLeave)
    }
}

pub(super) struct NestedLeave;

impl Node<Probe> for NestedLeave {
    type Effect = ();

    fn ask(&self, _: &Thread<Probe>) {}

    fn learn(&self, _: &Thread<Probe>, (): ()) -> Transition<Probe> {
        done("went through the nested part")
    }
}

pub(super) struct Stream;

impl Node<Probe> for Stream {
    type Effect = Simulate;

    fn ask(&self, thread: &Thread<Probe>) -> Simulate {
        match &thread.state.doing {
            Some(Word::Stream(words)) => {
                Simulate(Simulation { text: words.clone(), ..Simulation::default() })
            }
            _ => Simulate(Simulation::default()),
        }
    }

    /// As the last instruction, its text is the answer and ends the turn.
    fn learn(&self, thread: &Thread<Probe>, words: String) -> Transition<Probe> {
        let is_answer = thread.state.todo.is_empty() && !words.trim().is_empty();
        let next = if is_answer { Transition::end() } else { Transition::to(NodeName::Step) };
        next.learn(Fact::Done("streamed".to_owned())).say(Message::assistant(words))
    }

    fn preview<'a>(&self, thread: &Thread<Probe>, partial: &'a str) -> Option<Cow<'a, str>> {
        thread.state.todo.is_empty().then(|| verbatim(partial))?
    }
}

pub(super) struct Finish;

impl Node<Probe> for Finish {
    type Effect = ();

    fn ask(&self, _: &Thread<Probe>) {}

    fn learn(&self, thread: &Thread<Probe>, (): ()) -> Transition<Probe> {
        let done = &thread.state.done;
        let words = if done.is_empty() { "Done.".to_owned() } else { format!("Done: {}.", done.join(", ")) };
        Transition::end().say(Message::assistant(words))
    }
}

/// Begins and finishes an instruction that makes no request.
fn begun(what: &str) -> Transition<Probe> {
    Transition::to(NodeName::Step).learn(Fact::Began).learn(Fact::Done(what.to_owned()))
}

fn done(what: &str) -> Transition<Probe> {
    Transition::to(NodeName::Step).learn(Fact::Done(what.to_owned()))
}
