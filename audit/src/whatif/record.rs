//! The recorded thread behind a run with changes: its beginning, the answers of its tools, and what people wrote after it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use shared::{
    Event, Graph, InvalidLog, Message, ReplyOptions, Request, Response, Role, RunStatus, ToolOutput,
    TurnKind, Verdict,
};
use store::{Recorded, ThreadId};
use threads::ImportedEvent;

use super::Changes;

/// A recorded thread and the first event at which it goes differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Number of the event.
    pub seq: usize,
}

impl Changes {
    /// Returns the events of a log before number `seq`, with the changed configuration. Their times move together, so that the
    /// last one is `now` (microseconds since the Unix epoch).
    ///
    /// # Errors
    ///
    /// [`serde_json::Error`] if an event does not serialize.
    pub fn beginning(
        &self,
        strategy: &str,
        log: &[Recorded],
        seq: usize,
        now: i64,
    ) -> Result<Vec<ImportedEvent>, serde_json::Error> {
        let log = &log[..seq.min(log.len())];
        let later = log.last().map_or(0, |last| now.saturating_sub(last.at));
        let imported = |recorded: &Recorded| {
            let changed = self.over(strategy, &recorded.event);
            let event = changed.as_ref().unwrap_or(&recorded.event);
            let at = recorded.at.saturating_add(later);
            Ok(ImportedEvent { at, kind: event.kind().to_owned(), payload: event.payload()? })
        };
        log.iter().map(imported).collect()
    }
}

/// An answer to a request for a tool or an index, or the reason why it was given up.
pub type ToolAnswer = Result<Response, String>;

/// Answers of tools and indexes in a log, in the order in which each request was repeated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolAnswers(BTreeMap<String, Vec<ToolAnswer>>);

impl ToolAnswers {
    /// Collects the answers of a log.
    pub fn of<'a>(log: impl IntoIterator<Item = &'a Event>) -> Self {
        let (mut answers, mut asked): (Self, &[Request]) = (Self::default(), &[]);
        for event in log {
            if let Event::Asked(event) = event {
                asked = &event.requests;
            }
            let Some((slot, answer)) = answer(event) else { continue };
            if let Some(key) = asked.get(slot).and_then(Self::key) {
                answers.0.entry(key).or_default().push(answer);
            }
        }
        answers
    }

    /// Returns the identity of a request: its server, tool and arguments, without the id that a model gave it. `None` for a
    /// request that is answered by a model or by the engine.
    pub fn key(request: &Request) -> Option<String> {
        match request {
            Request::CallTool { server, call } => Some(format!("{server}.{} {}", call.name, call.arguments)),
            Request::ListTools { .. }
            | Request::ListPrompts { .. }
            | Request::GetPrompt { .. }
            | Request::Describe { .. }
            | Request::Search { .. }
            | Request::Index { .. } => serde_json::to_string(request).ok(),
            Request::Chat { .. } | Request::ReadMore { .. } | Request::Simulate(_) => None,
        }
    }

    /// Returns the answer to the request after `earlier` answers to it. The last recorded answer stands for all later ones.
    pub fn after(&self, key: &str, earlier: usize) -> Option<&ToolAnswer> {
        let answers = self.0.get(key)?;
        answers.get(earlier).or_else(|| answers.last())
    }

    /// Returns the number of answers to a request.
    pub fn count(&self, key: &str) -> usize {
        self.0.get(key).map_or(0, Vec::len)
    }
}

/// Returns the slot and the answer that the event records.
fn answer(event: &Event) -> Option<(usize, ToolAnswer)> {
    if let Event::Answered(answered) = event {
        return Some((answered.slot, Ok(answered.clone().outcome().0)));
    }
    if let Event::Abandoned(abandoned) = event {
        return Some((abandoned.slot, Err(abandoned.reason.clone())));
    }
    let Event::Reconciled(reconciled) = event else { return None };
    let Verdict::Happened { result } = &reconciled.verdict else { return None };
    Some((reconciled.slot, Ok(Response::Output(ToolOutput::Ok(result.clone())))))
}

/// A message that a person or a program sent to the thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The question that it answers; `None` for a new request.
    pub question: Option<String>,
    /// Messages of the turn.
    pub messages: Vec<Message>,
    /// Demands of the client on the reply.
    pub reply_options: Option<Box<ReplyOptions>>,
    /// Author of the messages.
    pub author: String,
}

/// Returns the messages of people to a thread, oldest first.
pub fn people_wrote(log: &[Recorded]) -> String {
    let mut text = String::new();
    log.iter().for_each(|recorded| add_people(&mut text, &recorded.event));
    text
}

/// Adds the messages of people that an event has.
pub(super) fn add_people(text: &mut String, event: &Event) {
    let Event::TurnStarted(started) = event else { return };
    if started.kind == TurnKind::Stop {
        return;
    }
    for message in started.messages.iter().filter(|message| message.role == Role::User) {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&message.content);
    }
}

/// Returns what was sent to a thread from event number `from` on. Answers to the form of a tool are left out, because the answer of
/// the tool is recorded too, and so are requests to stop.
///
/// # Errors
///
/// [`InvalidLog`] if no thread of this strategy could have written the log.
pub fn inputs(graph: &dyn Graph, log: &[Recorded], from: usize) -> Result<Vec<Input>, InvalidLog> {
    let (mut thread, mut inputs) = (graph.begin(), Vec::new());
    for (seq, Recorded { event, .. }) in log.iter().enumerate() {
        let question = match thread.status() {
            RunStatus::Waiting(asked) => Some(asked.question),
            RunStatus::Idle | RunStatus::Busy | RunStatus::Failed { .. } => None,
        };
        thread.apply(event)?;
        let Event::TurnStarted(started) = event else { continue };
        if seq < from || started.kind == TurnKind::Stop {
            continue;
        }
        inputs.push(Input {
            question: question.filter(|_| started.kind == TurnKind::Answer),
            messages: started.messages.clone(),
            reply_options: started.reply_options.is_some().then(|| Box::new(thread.reply_options().clone())),
            author: started.actor.clone(),
        });
    }
    Ok(inputs)
}
