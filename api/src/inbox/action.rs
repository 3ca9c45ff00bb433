//! Conversion of an inbox answer to an operation on a thread.

use api_types::{AnswerConfig, AnswerKind, Verdict};
use serde::Deserialize;
use serde_json::Value;
use shared::{Interrupt, InterruptKind, Question};

use crate::server::problem::{ApiError, Kind};

/// Result of a call that took effect according to a person who did not give its result. The node receives this text.
const HAPPENED: &str = "The call took effect, as confirmed by a person. Its result was lost.";

/// Operation that an inbox answer stands for.
#[derive(Debug)]
pub(super) enum InboxAction {
    /// Submit this text as the answer.
    Answer(String),
    /// Settle a call in doubt.
    Reconcile {
        /// Index of the node's request; none means the request in question.
        slot: Option<usize>,
        /// Outcome of the call.
        verdict: shared::Verdict,
    },
    /// Cancel the turn.
    Cancel,
}

/// Converts an answer. Fails if the question does not accept this kind of answer, or the arguments are invalid.
pub(super) fn action(question: &Interrupt, kind: AnswerKind, args: Value) -> Result<InboxAction, ApiError> {
    check_accepted(question, kind)?;
    let in_doubt = question.kind == InterruptKind::InDoubt;
    let no_args = || check_no_args(&args, kind);
    match kind {
        AnswerKind::Ignore if question.elicitation.is_some() => {
            let cancelling = question.elicitation.as_ref().map_or("cancel", |form| form.cancelling());
            no_args().map(|()| InboxAction::Answer(cancelling.to_owned()))
        }
        AnswerKind::Accept if question.elicitation.is_some() => {
            no_args().map(|()| InboxAction::Answer("{}".to_owned()))
        }
        AnswerKind::Ignore => no_args().map(|()| InboxAction::Cancel),
        AnswerKind::Accept if in_doubt => {
            let result = text(&args).map_or_else(|| no_args().map(|()| HAPPENED.to_owned()), Ok)?;
            Ok(InboxAction::Reconcile { slot: None, verdict: shared::Verdict::Happened { result } })
        }
        AnswerKind::Accept => {
            no_args()?;
            let yes = question.options.first().cloned().unwrap_or_else(|| "yes".to_owned());
            Ok(InboxAction::Answer(yes))
        }
        AnswerKind::Respond if in_doubt => reconcile(question, args),
        AnswerKind::Respond => {
            let wrong =
                || Kind::Invalid.because("args: `respond` requires a text or the number of an option");
            text(&args).map(InboxAction::Answer).ok_or_else(wrong)
        }
        AnswerKind::Edit => edited(args).map(InboxAction::Answer),
    }
}

/// Returns the kinds of answer that a question accepts.
pub(super) fn accepted_answers(question: &Interrupt) -> AnswerConfig {
    let is_open = question.open_ended || question.options.is_empty();
    let kind = question.kind;
    let allow_edit = kind == InterruptKind::Input || is_open && kind != InterruptKind::InDoubt;
    AnswerConfig {
        allow_accept: kind.proposes_an_action(),
        allow_edit,
        allow_respond: true,
        allow_ignore: true,
    }
}

fn check_accepted(question: &Interrupt, kind: AnswerKind) -> Result<(), ApiError> {
    let accepted = accepted_answers(question);
    if accepted.allows(kind) {
        return Ok(());
    }
    let (name, kind, accepted) = (question.kind.name(), kind.name(), accepted.names().join(", "));
    let options = if question.options.is_empty() { "" } else { " with options" };
    Err(Kind::NotThisWay.because(format!("type: {name}{options} accepts {accepted}, but not {kind}")))
}

/// A verdict as in a reconcile request, with an optional slot.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerdictArgs {
    #[serde(default)]
    slot: Option<usize>,
    verdict: Verdict,
}

/// Returns a text, or the number of an option as a text.
fn text(args: &Value) -> Option<String> {
    match args {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Checks that there are no arguments. Agent inboxes send the accepted action back, which is allowed.
fn check_no_args(args: &Value, kind: AnswerKind) -> Result<(), ApiError> {
    if args.is_null() || action_args(args).is_some() {
        return Ok(());
    }
    Err(Kind::Invalid.because(format!("args: `{}` takes none for this question", kind.name())))
}

/// Returns the arguments of an action, if `args` is one.
fn action_args(args: &Value) -> Option<&Value> {
    let fields = args.as_object().filter(|fields| fields.len() == 2 && fields.contains_key("action"))?;
    fields.get("args")
}

fn edited(args: Value) -> Result<String, ApiError> {
    let args = action_args(&args).cloned().unwrap_or(args);
    match args {
        Value::Null => Err(Kind::Invalid.because("args: `edit` requires a text or JSON")),
        Value::String(text) => Ok(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Ok(args.to_string()),
    }
}

fn reconcile(question: &Interrupt, args: Value) -> Result<InboxAction, ApiError> {
    let Some(text) = text(&args) else {
        let wrong = |err: serde_json::Error| Kind::Invalid.because(format!("args: {err}"));
        let VerdictArgs { slot, verdict } = serde_json::from_value(args).map_err(wrong)?;
        return Ok(InboxAction::Reconcile { slot, verdict: verdict.into() });
    };
    let verdict = match Question::chosen(&question.options, &text) {
        Some("happened") => shared::Verdict::Happened { result: HAPPENED.to_owned() },
        Some("did not") => shared::Verdict::DidNotHappen,
        Some("skip") => shared::Verdict::Skip,
        Some(_) | None => {
            let options = question.options.join(", ");
            let detail = format!("args: {text:?} is not one of the options: {options}");
            return Err(Kind::NotAnOption.because(detail));
        }
    };
    Ok(InboxAction::Reconcile { slot: None, verdict })
}
