//! Formats events for people.
//!
//! An event is one line, with a label in the first 16 columns, and further lines for its details, each indented by 18
//! columns. `{}` shortens long text and JSON and adds what an attempt used, for the command line and the HTTP API.
//! `{:#}` keeps text up to 2,000 characters and leaves out all that differs from run to run, for snapshots.

use std::fmt::{self, Formatter};

use super::{
    AttemptFailed, DEFAULT_TENANT, Decided, Event, Forked, Goto, InputProvided, InputRequired, Interrupt,
    Opened, Reading, Reconciled, TakenOver, TurnKind, TurnStarted, Verdict, WriteEnded, WriteEnding,
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
        if let Event::Decided(decided) = self {
            return fmt_decided(decided, f);
        }
        let label = if let Event::Asked(asked) = self {
            asked.node.clone()
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
            Event::Opened(opened) => fmt_opened(opened, f),
            Event::TurnStarted(started) => fmt_turn_started(started, f),
            Event::Asked(asked) => {
                for (slot, request) in asked.requests.iter().enumerate() {
                    let request = if full { format!("{request:#}") } else { request.to_string() };
                    match slot {
                        0 => write!(f, "{request}")?,
                        _ => line(f, format_args!("[{slot}] {request}"))?,
                    }
                }
                Ok(())
            }
            Event::Attempted(_) => Ok(()),
            Event::Answered(answered) => {
                if full {
                    write!(f, "{:#}", answered.response)?
                } else {
                    write!(f, "{}", answered.response)?
                }
                let content = answered.extras.iter().flat_map(|extras| &extras.content);
                content.into_iter().try_for_each(|part| line(f, format_args!("with {part}")))?;
                answered.usage.iter().filter(|_| !full).try_for_each(|usage| fmt_usage(usage, f))
            }
            Event::AttemptFailed(failed) => fmt_attempt_failed(failed, f),
            Event::Abandoned(abandoned) => write!(f, "{}", abandoned.reason),
            Event::InDoubt(in_doubt) => {
                write!(f, "{}", in_doubt.reason)?;
                let wait = in_doubt.read_back_after_ms;
                wait.iter().try_for_each(|ms| line(f, format_args!("read back in {ms} ms")))
            }
            Event::Reconciled(reconciled) => fmt_reconciled(reconciled, f),
            Event::TaskStarted(started) => write!(f, "{}", quoted(&started.task, full)),
            Event::InputRequired(required) => fmt_input_required(required, f),
            Event::InputProvided(provided) => fmt_input_provided(provided, f),
            Event::Summarised(summarised) => match summarised.upto {
                0 | 1 => write!(f, "message 0"),
                upto => write!(f, "messages 0–{}", upto - 1),
            },
            Event::Decided(_) => Ok(()),
            Event::Failed(failed) => write!(f, "{}: {}", failed.node, failed.reason),
            Event::Retried(retried) => {
                write!(f, "by an operator")?;
                fmt_forgotten(&retried.forgotten_models, f)
            }
            Event::Cancelled(cancelled) if cancelled.rolled_back => write!(f, "on request · rolled back"),
            Event::Cancelled(_) => write!(f, "on request"),
            Event::WriteEnded(ended) => fmt_write_ended(ended, f),
            Event::Forked(forked) => fmt_forked(forked, f),
            Event::TakenOver(taken) => fmt_taken_over(taken, f),
            Event::Rated(rated) => {
                write!(f, "turn {} · {}", rated.turn, rated.rating.name())?;
                if rated.note.is_empty() { Ok(()) } else { write!(f, " · {}", quoted(&rated.note, full)) }
            }
        }
    }
}

fn fmt_opened(opened: &Opened, f: &mut Formatter<'_>) -> fmt::Result {
    let full = f.alternate();
    write!(f, "{} v{}", opened.strategy, opened.version)?;
    (opened.tenant != DEFAULT_TENANT).then(|| write!(f, " · tenant {}", opened.tenant)).transpose()?;
    (!opened.config.is_null()).then(|| write!(f, " · {}", json(&opened.config, full))).transpose()?;
    (!opened.budget.is_none()).then(|| line(f, format_args!("budget {}", opened.budget))).transpose()?;
    (!opened.context.is_default())
        .then(|| line(f, format_args!("context {}", opened.context)))
        .transpose()?;
    opened
        .servers
        .iter()
        .try_for_each(|(name, description)| line(f, format_args!("server {name}: {description}")))
}

fn fmt_write_ended(ended: &WriteEnded, f: &mut Formatter<'_>) -> fmt::Result {
    let ending = match ended.ending {
        WriteEnding::Made => "made",
        WriteEnding::Failed => "made, with an error",
        WriteEnding::NotMade => "not made",
        WriteEnding::Unknown => "not known",
    };
    write!(f, "after event {} · {ending}", ended.attempted)?;
    if ended.text.is_empty() { Ok(()) } else { write!(f, ": {}", quoted(&ended.text, f.alternate())) }
}

fn fmt_reconciled(reconciled: &Reconciled, f: &mut Formatter<'_>) -> fmt::Result {
    let full = f.alternate();
    match &reconciled.verdict {
        Verdict::Happened { result } => write!(f, "happened: {}", quoted(result, full))?,
        Verdict::DidNotHappen => write!(f, "did not happen")?,
        Verdict::Skip => write!(f, "skip")?,
    }
    let Some(Reading { tool, arguments, output }) = reconciled.read_back.as_deref() else { return Ok(()) };
    line(f, format_args!("read back by {tool} {}", json(arguments, full)))?;
    let shown = output.iter().map(|output| quoted(&output.model_text(), full));
    shown.into_iter().try_for_each(|shown| line(f, format_args!("which answered {shown}")))
}

fn fmt_turn_started(started: &TurnStarted, f: &mut Formatter<'_>) -> fmt::Result {
    let full = f.alternate();
    let kind = match started.kind {
        TurnKind::New => "",
        TurnKind::Answer => "answer · ",
        TurnKind::Stop => "stop · ",
    };
    f.write_str(kind)?;
    write!(f, "{}", started.messages.iter().map(|shown| message(shown, full)).collect::<Vec<_>>().join(" "))?;
    fmt_forgotten(&started.forgotten_models, f)?;
    if let Some(number) = started.toolbox {
        line(f, format_args!("offers toolbox {number} of the client"))?;
    }
    let Some(options) = started.reply_options.as_ref().filter(|options| !options.is_default()) else {
        return Ok(());
    };
    line(f, format_args!("asks for {}", json(&serde_json::to_value(options).unwrap_or_default(), full)))
}

fn fmt_forgotten(models: &[String], f: &mut Formatter<'_>) -> fmt::Result {
    if models.is_empty() { Ok(()) } else { write!(f, " · limits forgotten: {}", models.join(", ")) }
}

fn fmt_usage(usage: &Usage, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, " · {}.{} s", usage.duration_ms / 1_000, usage.duration_ms % 1_000 / 100)?;
    if 0 < usage.input_tokens + usage.output_tokens {
        write!(f, " · {} + {} tokens", usage.input_tokens, usage.output_tokens)?;
        if 0 < usage.cached_input_tokens {
            write!(f, " ({} cached)", usage.cached_input_tokens)?;
        }
    }
    usage.micro_usd.iter().try_for_each(|cost| write!(f, " · ${:.4}", crate::usage::usd(*cost)))
}

fn fmt_attempt_failed(failed: &AttemptFailed, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{}{}", if failed.read_back { "read-back: " } else { "" }, failed.error)?;
    if failed.is_too_large() {
        let tokens = failed.context_tokens.map(|tokens| format!("{tokens} tokens"));
        let attachments = failed.attachments_max.map(|max| format!("{max} images and files"));
        let limits: Vec<String> = tokens.into_iter().chain(attachments).collect();
        return write!(f, " · to be asked again with at most {}", limits.join(" and "));
    }
    match failed.retry_after_ms {
        None => return write!(f, " · not retried automatically"),
        Some(_) if failed.waiting => return write!(f, " · waiting for it"),
        Some(_) if failed.in_doubt => write!(f, " · may have taken effect, safe to repeat")?,
        Some(_) => (),
    }
    match failed.retry_after_ms.filter(|_| !f.alternate()) {
        None => Ok(()),
        Some(0) => write!(f, " · next try at once"),
        Some(ms @ 1..1_000) => write!(f, " · next try in {ms} ms"),
        Some(ms) => write!(f, " · next try in {} s", ms.div_ceil(1_000)),
    }
}

fn fmt_input_required(required: &InputRequired, f: &mut Formatter<'_>) -> fmt::Result {
    let full = f.alternate();
    if required.input_requests.is_empty() {
        return write!(f, "to be repeated without input");
    }
    write!(f, "{}", required.input_requests.keys().map(String::as_str).collect::<Vec<_>>().join(", "))?;
    required.input_requests.iter().try_for_each(|(name, request)| {
        line(f, format_args!("{name}: {} {}", quoted(&request.question, full), request.wants()))
    })
}

fn fmt_input_provided(provided: &InputProvided, f: &mut Formatter<'_>) -> fmt::Result {
    match &provided.response {
        InputResponse::Accept(content) => write!(f, "{}: {}", provided.name, json(content, f.alternate())),
        InputResponse::Decline => write!(f, "{}: declined", provided.name),
        InputResponse::Cancel => write!(f, "{}: cancelled", provided.name),
    }
}

fn fmt_decided(decided: &Decided, f: &mut Formatter<'_>) -> fmt::Result {
    let full = f.alternate();
    let to = match &decided.to {
        Goto::Node(node) => node,
        Goto::End => "end",
        Goto::Interrupt(_) => "a person",
    };
    write!(f, "{} → {to}", decided.node)?;
    match (&decided.outcome, &decided.to) {
        (Some(outcome), Goto::End) => write!(f, " · {outcome}")?,
        (Some(outcome), Goto::Node(_) | Goto::Interrupt(_)) => line(f, format_args!("outcome {outcome}"))?,
        (None, _) => {}
    }
    decided.reason.iter().try_for_each(|reason| line(f, format_args!("because {reason}")))?;
    decided
        .messages
        .iter()
        .try_for_each(|shown| line(f, format_args!("message {}", message(shown, full))))?;
    decided.facts.iter().try_for_each(|fact| line(f, format_args!("fact {}", json(fact, full))))?;
    match &decided.to {
        Goto::Interrupt(Interrupt { kind, question, options, open_ended, elicitation: _, resume }) => {
            line(f, format_args!("asks for {}: {}", kind.name().replace('_', " "), quoted(question, full)))?;
            options
                .iter()
                .enumerate()
                .try_for_each(|(n, option)| line(f, format_args!("  {}. {option}", n + 1)))?;
            open_ended.then(|| line(f, format_args!("  or any other text"))).transpose()?;
            line(f, format_args!("answer goes to {resume}"))
        }
        Goto::Node(_) | Goto::End => Ok(()),
    }
}

fn fmt_forked(forked: &Forked, f: &mut Formatter<'_>) -> fmt::Result {
    let full = f.alternate();
    write!(f, "after event {} of {}", forked.seq, forked.thread)?;
    (!forked.config.is_null())
        .then(|| line(f, format_args!("config {}", json(&forked.config, full))))
        .transpose()?;
    forked.budget.iter().try_for_each(|budget| line(f, format_args!("budget {budget}")))?;
    forked
        .prompts
        .iter()
        .try_for_each(|(node, prompt)| line(f, format_args!("prompt of {node}: {}", quoted(prompt, full))))?;
    forked.facts.iter().try_for_each(|fact| line(f, format_args!("fact {}", json(fact, full))))
}

fn fmt_taken_over(taken: &TakenOver, f: &mut Formatter<'_>) -> fmt::Result {
    if f.alternate() {
        return write!(f, "from another worker");
    }
    write!(f, "by {} from {}, which died or stalled", taken.worker, taken.from)?;
    match taken.silent_ms {
        Some(ms) => write!(f, " {}.{} s before", ms / 1_000, ms % 1_000 / 100),
        None => Ok(()),
    }
}

fn line(f: &mut Formatter<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
    write!(f, "\n{:width$}{text}", "", width = LABEL + 2)
}

fn message(message: &Message, full: bool) -> String {
    let calls =
        message.tool_calls.iter().map(|call| format!("{}({})", call.name, arguments(&call.arguments, full)));
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
