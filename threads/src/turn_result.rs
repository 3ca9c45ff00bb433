//! The result of a turn, as the fold of its log says.

use serde::{Deserialize, Serialize};
use shared::{BudgetExceeded, DynThread, Event, Message, RunStatus, ToolCall, UsageTotal, open_calls};

/// Result of a turn that is over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    /// Messages of the turn, after those that started it.
    pub messages: Vec<Message>,
    /// Reply to the person.
    pub reply: Option<String>,
    /// Calls of the client's tools that wait for their results.
    pub client_calls: Vec<ToolCall>,
    /// Usage of the turn.
    pub usage: UsageTotal,
    /// Usage of all turns of the thread up to the end of this turn.
    pub thread_usage: UsageTotal,
    /// Budget that ended the turn before its strategy finished.
    pub budget_exceeded: Option<BudgetExceeded>,
    /// Times and model of the turn.
    pub course: Course,
}

impl TurnResult {
    /// Returns the result of a turn that ended with `last`, the last event of the fold. `first_message` is the position of the
    /// first message after those that started the turn.
    pub fn of(thread: &dyn DynThread, first_message: usize, last: Option<&Event>, course: Course) -> Self {
        let client_calls = match thread.status() {
            RunStatus::Idle => open_calls(thread.messages()).into_iter().cloned().collect(),
            RunStatus::Waiting(_) | RunStatus::Busy | RunStatus::Failed { .. } => Vec::new(),
        };
        let budget_exceeded = match last {
            Some(Event::Decided(decided)) => decided.budget_exceeded,
            Some(_) | None => None,
        };
        Self {
            messages: thread.messages().iter().skip(first_message).cloned().collect(),
            reply: thread.reply().map(str::to_owned),
            client_calls,
            usage: *thread.turn_usage(),
            thread_usage: *thread.usage(),
            budget_exceeded,
            course,
        }
    }
}

/// Course of a turn: its times, and the model that answered last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// Start in microseconds since the Unix epoch.
    pub started_at: Option<i64>,
    /// End in microseconds since the Unix epoch.
    pub ended_at: Option<i64>,
    /// Model that answered last, as its endpoint names it.
    pub model: Option<String>,
}

impl Course {
    /// Adds an event of the turn, recorded `at` this time in microseconds since the Unix epoch. Its first event begins a new
    /// course.
    pub fn add(&mut self, at: i64, event: &Event) {
        if event.turn_started().is_some() {
            *self = Self { started_at: Some(at), ..Self::default() };
        }
        if let Event::Answered(answered) = event
            && let Some(usage) = answered.usage.as_ref().filter(|usage| !usage.model.is_empty())
        {
            self.model = Some(usage.model.clone());
        }
        self.ended_at = Some(at);
    }
}
