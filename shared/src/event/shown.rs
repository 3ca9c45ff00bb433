//! How each event reads: the one rendering for snapshots, the command line and the api.

use std::fmt;

use super::{DEFAULT_TENANT, Decided, Event, Goto, Hearing, Interrupt, Verdict};
use crate::{form::Supply, message::Message, request::quoted};

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<11}", self.kind())?;
        match self {
            Event::Opened(it) => {
                write!(f, "{} v{}", it.strategy, it.version)?;
                (it.tenant != DEFAULT_TENANT).then(|| write!(f, " of {}", it.tenant)).transpose()?;
                (!it.config.is_null()).then(|| write!(f, " {}", it.config)).transpose()?;
                (!it.budget.is_none()).then(|| line(f, format_args!("within {}", it.budget))).transpose()?;
                it.experts.iter().try_for_each(|(name, what)| line(f, format_args!("expert {name}: {what}")))
            }
            Event::Heard(it) => {
                write!(f, "{}", if it.hearing == Hearing::Answer { "the answer " } else { "" })?;
                write!(f, "{}", it.messages.iter().map(said).collect::<Vec<_>>().join(" "))
            }
            Event::Asked(it) => {
                write!(f, "{}", it.node)?;
                it.requests.iter().try_for_each(|request| line(f, format_args!("{request}")))
            }
            Event::Attempted(it) => write!(f, "[{}]", it.slot),
            Event::Answered(it) => {
                write!(f, "[{}] {}", it.slot, it.response)?;
                let content = it.kept.iter().flat_map(|it| &it.content);
                content.into_iter().try_for_each(|it| line(f, format_args!("with {it}")))
            }
            Event::Faltered(it) => {
                let then = match it.again_after_ms {
                    None => " (asking again will not help)",
                    Some(_) if it.in_doubt => " (it may have happened, and may be repeated)",
                    Some(_) => "",
                };
                write!(f, "[{}] {}{then}", it.slot, it.error)
            }
            Event::GaveUp(it) => write!(f, "[{}] {}", it.slot, it.reason),
            Event::Doubted(it) => write!(f, "[{}] {}", it.slot, it.reason),
            Event::Reconciled(it) => match &it.verdict {
                Verdict::Happened { result } => write!(f, "[{}] it happened: {}", it.slot, quoted(result)),
                Verdict::DidNot => write!(f, "[{}] it did not happen", it.slot),
                Verdict::Skip => write!(f, "[{}] skip it", it.slot),
            },
            Event::Wanted(it) => {
                write!(
                    f,
                    "[{}] {}",
                    it.slot,
                    if it.forms.is_empty() { "to be asked once more" } else { "more is wanted" }
                )?;
                it.forms.iter().try_for_each(|(name, form)| {
                    line(f, format_args!("{name}: {} {}", quoted(&form.question), form.wants()))
                })
            }
            Event::Supplied(it) => match &it.answer {
                Supply::Accept(content) => write!(f, "[{}] {}: {content}", it.slot, it.form),
                Supply::Decline => write!(f, "[{}] {}: declined", it.slot, it.form),
                Supply::Cancel => write!(f, "[{}] {}: waved away", it.slot, it.form),
            },
            Event::Decided(it) => it.fmt_body(f),
            Event::Failed(it) => write!(f, "{}: {}", it.node, it.reason),
            Event::Retried(_) => write!(f, "by an operator"),
            Event::Cancelled(_) => write!(f, "by request"),
            Event::Forked(it) => {
                write!(f, "after event {} of {}", it.seq, it.thread)?;
                (!it.config.is_null())
                    .then(|| line(f, format_args!("from here on {}", it.config)))
                    .transpose()?;
                it.budget.iter().try_for_each(|it| line(f, format_args!("within {it}")))?;
                it.prompts
                    .iter()
                    .try_for_each(|(node, words)| line(f, format_args!("{node} says {}", quoted(words))))?;
                it.learned.iter().try_for_each(|fact| line(f, format_args!("learned {fact}")))
            }
        }
    }
}

impl Decided {
    fn fmt_body(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = match &self.to {
            Goto::Node(node) => node,
            Goto::End => "end",
            Goto::Interrupt(_) => "a person",
        };
        write!(f, "{} → {to}", self.node)?;
        self.why.iter().try_for_each(|why| line(f, format_args!("because {why}")))?;
        self.said.iter().try_for_each(|message| line(f, format_args!("said {}", said(message))))?;
        self.learned.iter().try_for_each(|fact| line(f, format_args!("learned {fact}")))?;
        match &self.to {
            Goto::Interrupt(Interrupt { kind, question, options, form: _, resume }) => {
                line(f, format_args!("asks for {}: {}", kind.name(), quoted(question)))?;
                options
                    .iter()
                    .enumerate()
                    .try_for_each(|(n, it)| line(f, format_args!("  {}. {it}", n + 1)))?;
                line(f, format_args!("the answer is heard at {resume}"))
            }
            Goto::Node(_) | Goto::End => Ok(()),
        }
    }
}

fn line(f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
    write!(f, "\n                {text}")
}

fn said(message: &Message) -> String {
    let calls = message.tool_calls.iter().map(|it| format!("{}({})", it.name, it.arguments));
    let words =
        (!message.content.is_empty() || message.tool_calls.is_empty()).then(|| quoted(&message.content));
    format!("{}: {}", message.role.name(), words.into_iter().chain(calls).collect::<Vec<_>>().join(" + "))
}
