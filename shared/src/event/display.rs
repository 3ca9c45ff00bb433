//! Formats events for people.
//!
//! An event is one line, with a label in the first 16 columns, and further lines for its details, each indented by 18
//! columns. `{}` shortens long text and JSON and adds what an attempt used, for the command line and the HTTP API.
//! `{:#}` keeps text up to 2,000 characters and leaves out all that differs from run to run, for snapshots.

use std::fmt::{self, Formatter};

use super::{
    AttemptFailed, DEFAULT_TENANT, Decided, Event, Forked, Goto, InputProvided, InputRequired, Interrupt,
    Opened, TurnKind, TurnStarted, Verdict,
};
use crate::{
    elicitation::InputResponse,
    message::Message,
    request::{arguments, json, quoted},
    usage::Usage,
};

/// Width of the label column.
const LABEL: usize = 16;

impl Event {
    /// Returns the kind in plain words, such as `turn started`.
    pub fn label(&self) -> String {
        self.kind().replace('_', " ")
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let full = f.alternate();
        if let Event::Decided(it) = self {
            return fmt_decided(it, f);
        }
        let label = if let Event::Asked(it) = self {
            it.node.clone()
        } else if self.slot().is_some() {
            format!("  {}", self.label())
        } else {
            self.label()
        };
        write!(f, "{label:<LABEL$}  ")?;
        if let Some(slot @ 1..) = self.slot() {
            write!(f, "[{slot}] ")?;
        }
        match self {
            Event::Opened(it) => fmt_opened(it, f),
            Event::TurnStarted(it) => fmt_turn_started(it, f),
            Event::Asked(it) => {
                for (slot, request) in it.requests.iter().enumerate() {
                    let request = if full { format!("{request:#}") } else { request.to_string() };
                    match slot {
                        0 => write!(f, "{request}")?,
                        _ => line(f, format_args!("[{slot}] {request}"))?,
                    }
                }
                Ok(())
            }
            Event::Attempted(_) => Ok(()),
            Event::Answered(it) => {
                if full {
                    write!(f, "{:#}", it.response)?
                } else {
                    write!(f, "{}", it.response)?
                }
                let content = it.extras.iter().flat_map(|it| &it.content);
                content.into_iter().try_for_each(|it| line(f, format_args!("with {it}")))?;
                it.usage.iter().filter(|_| !full).try_for_each(|it| fmt_usage(it, f))
            }
            Event::AttemptFailed(it) => fmt_attempt_failed(it, f),
            Event::Abandoned(it) => write!(f, "{}", it.reason),
            Event::InDoubt(it) => write!(f, "{}", it.reason),
            Event::Reconciled(it) => match &it.verdict {
                Verdict::Happened { result } => write!(f, "happened: {}", quoted(result, full)),
                Verdict::DidNotHappen => write!(f, "did not happen"),
                Verdict::Skip => write!(f, "skip"),
            },
            Event::TaskStarted(it) => write!(f, "{}", quoted(&it.task, full)),
            Event::InputRequired(it) => fmt_input_required(it, f),
            Event::InputProvided(it) => fmt_input_provided(it, f),
            Event::Summarised(it) => match it.upto {
                0 | 1 => write!(f, "message 0"),
                upto => write!(f, "messages 0–{}", upto - 1),
            },
            Event::Decided(_) => Ok(()),
            Event::Failed(it) => write!(f, "{}: {}", it.node, it.reason),
            Event::Retried(_) => write!(f, "by an operator"),
            Event::Cancelled(_) => write!(f, "on request"),
            Event::Forked(it) => fmt_forked(it, f),
        }
    }
}

fn fmt_opened(it: &Opened, f: &mut Formatter<'_>) -> fmt::Result {
    let full = f.alternate();
    write!(f, "{} v{}", it.strategy, it.version)?;
    (it.tenant != DEFAULT_TENANT).then(|| write!(f, " · tenant {}", it.tenant)).transpose()?;
    (!it.config.is_null()).then(|| write!(f, " · {}", json(&it.config, full))).transpose()?;
    (!it.budget.is_none()).then(|| line(f, format_args!("budget {}", it.budget))).transpose()?;
    (!it.context.is_default()).then(|| line(f, format_args!("context {}", it.context))).transpose()?;
    it.servers
        .iter()
        .try_for_each(|(name, description)| line(f, format_args!("server {name}: {description}")))
}

fn fmt_turn_started(it: &TurnStarted, f: &mut Formatter<'_>) -> fmt::Result {
    let full = f.alternate();
    write!(f, "{}", if it.kind == TurnKind::Answer { "answer · " } else { "" })?;
    write!(f, "{}", it.messages.iter().map(|it| message(it, full)).collect::<Vec<_>>().join(" "))
}

fn fmt_usage(it: &Usage, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, " · {}.{} s", it.duration_ms / 1_000, it.duration_ms % 1_000 / 100)?;
    if 0 < it.input_tokens + it.output_tokens {
        write!(f, " · {} + {} tokens", it.input_tokens, it.output_tokens)?;
    }
    it.micro_usd.iter().try_for_each(|it| write!(f, " · ${:.4}", crate::usage::usd(*it)))
}

fn fmt_attempt_failed(it: &AttemptFailed, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{}", it.error)?;
    if let Some(tokens) = it.context_tokens {
        return write!(f, " · to be asked again with at most {tokens} tokens");
    }
    match it.retry_after_ms {
        None => return write!(f, " · not retried automatically"),
        Some(_) if it.waiting => return write!(f, " · waiting for it"),
        Some(_) if it.in_doubt => write!(f, " · may have taken effect, safe to repeat")?,
        Some(_) => (),
    }
    match it.retry_after_ms.filter(|_| !f.alternate()) {
        None => Ok(()),
        Some(0) => write!(f, " · next try at once"),
        Some(ms @ 1..1_000) => write!(f, " · next try in {ms} ms"),
        Some(ms) => write!(f, " · next try in {} s", ms.div_ceil(1_000)),
    }
}

fn fmt_input_required(it: &InputRequired, f: &mut Formatter<'_>) -> fmt::Result {
    let full = f.alternate();
    if it.input_requests.is_empty() {
        return write!(f, "to be repeated without input");
    }
    write!(f, "{}", it.input_requests.keys().map(String::as_str).collect::<Vec<_>>().join(", "))?;
    it.input_requests.iter().try_for_each(|(name, it)| {
        line(f, format_args!("{name}: {} {}", quoted(&it.question, full), it.wants()))
    })
}

fn fmt_input_provided(it: &InputProvided, f: &mut Formatter<'_>) -> fmt::Result {
    match &it.response {
        InputResponse::Accept(content) => write!(f, "{}: {}", it.name, json(content, f.alternate())),
        InputResponse::Decline => write!(f, "{}: declined", it.name),
        InputResponse::Cancel => write!(f, "{}: cancelled", it.name),
    }
}

fn fmt_decided(it: &Decided, f: &mut Formatter<'_>) -> fmt::Result {
    let full = f.alternate();
    let to = match &it.to {
        Goto::Node(node) => node,
        Goto::End => "end",
        Goto::Interrupt(_) => "a person",
    };
    write!(f, "{} → {to}", it.node)?;
    match (&it.outcome, &it.to) {
        (Some(outcome), Goto::End) => write!(f, " · {outcome}")?,
        (Some(outcome), Goto::Node(_) | Goto::Interrupt(_)) => line(f, format_args!("outcome {outcome}"))?,
        (None, _) => {}
    }
    it.reason.iter().try_for_each(|reason| line(f, format_args!("because {reason}")))?;
    it.messages.iter().try_for_each(|it| line(f, format_args!("message {}", message(it, full))))?;
    it.facts.iter().try_for_each(|fact| line(f, format_args!("fact {}", json(fact, full))))?;
    match &it.to {
        Goto::Interrupt(Interrupt { kind, question, options, open_ended, elicitation: _, resume }) => {
            line(f, format_args!("asks for {}: {}", kind.name().replace('_', " "), quoted(question, full)))?;
            options.iter().enumerate().try_for_each(|(n, it)| line(f, format_args!("  {}. {it}", n + 1)))?;
            open_ended.then(|| line(f, format_args!("  or any other text"))).transpose()?;
            line(f, format_args!("answer goes to {resume}"))
        }
        Goto::Node(_) | Goto::End => Ok(()),
    }
}

fn fmt_forked(it: &Forked, f: &mut Formatter<'_>) -> fmt::Result {
    let full = f.alternate();
    write!(f, "after event {} of {}", it.seq, it.thread)?;
    (!it.config.is_null()).then(|| line(f, format_args!("config {}", json(&it.config, full)))).transpose()?;
    it.budget.iter().try_for_each(|it| line(f, format_args!("budget {it}")))?;
    it.prompts
        .iter()
        .try_for_each(|(node, prompt)| line(f, format_args!("prompt of {node}: {}", quoted(prompt, full))))?;
    it.facts.iter().try_for_each(|fact| line(f, format_args!("fact {}", json(fact, full))))
}

fn line(f: &mut Formatter<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
    write!(f, "\n{:width$}{text}", "", width = LABEL + 2)
}

fn message(message: &Message, full: bool) -> String {
    let calls =
        message.tool_calls.iter().map(|it| format!("{}({})", it.name, arguments(&it.arguments, full)));
    let attachments = message.attachments.iter().map(ToString::to_string);
    let is_text =
        !message.content.is_empty() || (message.tool_calls.is_empty() && message.attachments.is_empty());
    let text = is_text.then(|| quoted(&message.content, full)).into_iter();
    format!(
        "{}: {}",
        message.role.name(),
        text.chain(attachments).chain(calls).collect::<Vec<_>>().join(" + ")
    )
}
