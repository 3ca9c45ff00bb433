//! Notices of the end of a turn for webhooks, written in the transaction of the events that end it.

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use serde_json::{Map, Value, json};
use shared::{Decided, Event, Goto, InterruptKind, TurnStatus};

use super::{
    outbox::{Happening, announce},
    webhook::EventType,
};
use crate::{
    Error,
    log::{
        ThreadId, Transaction, TurnUpdate,
        ids::corrupt,
        tables::{threads, turns},
    },
};

/// Maximum length of an error or a question in characters.
const TEXT_MAX: usize = 4_000;

/// One event about a turn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notice {
    event: EventType,
    /// Fields that only this event has.
    fields: Map<String, Value>,
}

/// A question to a person.
struct Question {
    kind: InterruptKind,
    text: String,
    options: Vec<String>,
}

/// Returns the notices of these events about the turn that they end or leave waiting.
pub(crate) fn notices(events: &[Event], update: Option<&TurnUpdate>) -> Vec<Notice> {
    let Some(update) = update else { return Vec::new() };
    let mut notices = Vec::new();
    match update.status {
        TurnStatus::Completed => notices.push(Notice::new(EventType::TurnCompleted, [])),
        TurnStatus::Failed => notices.push(Notice::new(EventType::TurnFailed, [])),
        TurnStatus::Interrupted => notices.extend(waiting(events)),
        TurnStatus::Queued | TurnStatus::Running | TurnStatus::Cancelled => {}
    }
    let exceeded = events.iter().rev().find_map(|event| {
        let Event::Decided(Decided { budget_exceeded, .. }) = event else { return None };
        *budget_exceeded
    });
    if let Some(exceeded) = exceeded {
        notices.push(Notice::new(EventType::BudgetExceeded, [("budget", json!(exceeded))]));
    }
    notices
}

fn waiting(events: &[Event]) -> Vec<Notice> {
    let Some(Question { kind, text, options }) = events.iter().rev().find_map(question) else {
        return vec![Notice::new(EventType::TurnWaiting, [])];
    };
    let question = json!({"kind": kind, "text": cut(&text), "options": options});
    let mut kinds = vec![EventType::TurnWaiting];
    kinds.extend((kind == InterruptKind::Approval).then_some(EventType::ApprovalRequested));
    kinds.into_iter().map(|event| Notice::new(event, [("question", question.clone())])).collect()
}

/// Returns the question that an event asks.
fn question(event: &Event) -> Option<Question> {
    if let Event::Decided(Decided { to: Goto::Interrupt(asked), .. }) = event {
        let (text, options) = (asked.question.clone(), asked.options.clone());
        return Some(Question { kind: asked.kind, text, options });
    }
    if let Event::InDoubt(doubt) = event {
        let text = doubt.reason.clone();
        return Some(Question { kind: InterruptKind::InDoubt, text, options: Vec::new() });
    }
    let Event::InputRequired(required) = event else { return None };
    let text = required.input_requests.values().next().map(|asked| asked.question.clone());
    Some(Question { kind: InterruptKind::Input, text: text.unwrap_or_default(), options: Vec::new() })
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Notice {
    fn new<const N: usize>(event: EventType, fields: [(&str, Value); N]) -> Self {
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { event, fields }
    }
}

/// Writes the deliveries of notices about a turn.
pub(crate) async fn announce_turn(
    tx: &Transaction,
    thread: ThreadId,
    update: &TurnUpdate,
    notices: &[Notice],
) -> Result<(), Error> {
    let turn = turns::Entity::find().filter(turns::Column::Id.eq(update.turn)).one(tx).await?;
    let row = threads::Entity::find_by_id(thread).one(tx).await?;
    let (Some(turn), Some(row)) = (turn, row) else { return Ok(()) };
    let metadata: Value = serde_json::from_str(&turn.metadata).map_err(|error| corrupt(thread, error))?;
    for Notice { event, fields } in notices {
        let mut data = json!({
            "id": update.turn,
            "thread_id": thread,
            "tenant": row.tenant,
            "strategy": row.strategy,
            "status": update.status.as_str(),
            "outcome": update.outcome(),
            "cause": update.cause(),
            "error": update.error.as_deref().map(cut),
            "metadata": metadata,
        });
        if let Value::Object(all) = &mut data {
            all.extend(fields.clone());
        }
        let happening = Happening {
            tenant: Some(&row.tenant),
            event: *event,
            strategy: Some(&row.strategy),
            metadata: Some(&metadata),
            data,
        };
        announce(tx, happening).await?;
    }
    Ok(())
}
