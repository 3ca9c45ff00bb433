//! What an answer from the inbox comes to: which of the things that can be done to a thread.

use serde::Deserialize;
use serde_json::Value;
use shared::{Interrupt, InterruptKind, Question};

use crate::{
    problem::{Kind, Problem},
    said::said,
    schema::{Verdict, Way, Ways},
};

/// What a node hears of a call that a person says happened, where they do not say what came of it.
const HAPPENED: &str = "It was done. Its own words were lost; a person says that it happened.";

/// What is done about a question.
#[derive(Debug)]
pub(super) enum Deed {
    /// It is answered with these words.
    Say(String),
    /// The verdict on a call in doubt; if no slot is named, on the one asked about.
    Judge {
        /// Which of the node's requests.
        slot: Option<usize>,
        /// What had become of it.
        verdict: shared::Verdict,
    },
    /// The turn is called off.
    CallOff,
}

/// What an answer comes to.
pub(super) fn deed(it: &Interrupt, way: Way, args: Value) -> Result<Deed, Problem> {
    allowed(it, way)?;
    let in_doubt = it.kind == InterruptKind::InDoubt;
    match way {
        Way::Ignore if it.form.is_some() => nothing(&args, way).map(|()| Deed::Say("cancel".to_owned())),
        Way::Accept if it.form.is_some() => nothing(&args, way).map(|()| Deed::Say("{}".to_owned())),
        Way::Ignore => nothing(&args, way).map(|()| Deed::CallOff),
        Way::Accept if in_doubt => {
            let result = text(&args).map_or_else(|| nothing(&args, way).map(|()| HAPPENED.to_owned()), Ok)?;
            Ok(Deed::Judge { slot: None, verdict: shared::Verdict::Happened { result } })
        }
        Way::Accept => {
            nothing(&args, way)?;
            Ok(Deed::Say(it.options.first().cloned().unwrap_or_else(|| "yes".to_owned())))
        }
        Way::Respond if in_doubt => judgement(it, args),
        Way::Respond => {
            let wrong = || Kind::Invalid.because("args: to respond, give a text, or the number of an option");
            text(&args).map(Deed::Say).ok_or_else(wrong)
        }
        Way::Edit => edited(args).map(Deed::Say),
    }
}

fn allowed(it: &Interrupt, way: Way) -> Result<(), Problem> {
    let ways = Ways::of(it);
    if ways.allow(way) {
        return Ok(());
    }
    let (kind, way, ways) = (it.kind.name(), way.name(), ways.names().join(", "));
    let how = if it.options.is_empty() { "" } else { " with options" };
    Err(Kind::NotThisWay.because(format!("type: {kind}{how} takes {ways}, and not {way}")))
}

/// A verdict in an answer: as for reconcile, but that the slot may be left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Judgement {
    #[serde(default)]
    slot: Option<usize>,
    verdict: Verdict,
}

/// A text, also where it is the number of an option.
fn text(args: &Value) -> Option<String> {
    match args {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Agent inboxes send the action back that they accept.
fn nothing(args: &Value, way: Way) -> Result<(), Problem> {
    if args.is_null() || action(args).is_some() {
        return Ok(());
    }
    Err(Kind::Invalid.because(format!("args: {} takes none here", way.name())))
}

/// The arguments of an action, if that is what `args` is.
fn action(args: &Value) -> Option<&Value> {
    let fields = args.as_object().filter(|it| it.len() == 2 && it.contains_key("action"))?;
    fields.get("args")
}

fn edited(args: Value) -> Result<String, Problem> {
    let args = action(&args).cloned().unwrap_or(args);
    match args {
        Value::Null => Err(Kind::Invalid.because("args: to edit, give a text or JSON")),
        Value::String(text) => Ok(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Ok(args.to_string()),
    }
}

fn judgement(it: &Interrupt, args: Value) -> Result<Deed, Problem> {
    let Some(text) = text(&args) else {
        let wrong =
            |err: serde_json::Error| Kind::Invalid.because(format!("args: {}", said(&err.to_string())));
        let Judgement { slot, verdict } = serde_json::from_value(args).map_err(wrong)?;
        return Ok(Deed::Judge { slot, verdict: verdict.into() });
    };
    let verdict = match Question::chosen(&it.options, &text) {
        Some("happened") => shared::Verdict::Happened { result: HAPPENED.to_owned() },
        Some("did not") => shared::Verdict::DidNot,
        Some("skip") => shared::Verdict::Skip,
        Some(_) | None => {
            let options = it.options.join(", ");
            let words = format!("args: {text:?} is none of the options: {options}");
            return Err(Kind::NotAnOption.because(words));
        }
    };
    Ok(Deed::Judge { slot: None, verdict })
}
