//! A request that has no answer yet, and the use of its time.

use api_types::TimeKind;
use shared::Request;

use super::partition::Segment;

/// Time before a request is sent, and after it is answered until the answer is stored, that the engine itself may take. Longer, it
/// is the time of a limit.
const SENT_WITHIN: i64 = 50_000;

/// State of a request that has no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is sent as soon as it may be.
    Open,
    /// It is repeated, not before this time.
    Repeated { not_before: i64 },
    /// Its attempt is recorded, and it is sent.
    Sent,
    /// A server works on it as a task. The duration of the last question for its result says nothing.
    Task,
    /// It is read back, not before this time.
    ReadBack { not_before: i64 },
    /// A person is asked whether it was carried out.
    Person,
    /// This many inputs of a person are missing.
    Input(usize),
    /// It is not repeated.
    Failed,
}

/// A request without an answer.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) name: String,
    pub(super) kind: TimeKind,
    pub(super) state: State,
    /// Start of the state, in microseconds since the Unix epoch.
    pub(super) since: i64,
}

impl Open {
    /// Creates a request that is made at this time.
    pub(super) fn of(request: &Request, at: i64) -> Self {
        Self { name: name_of(request), kind: kind_of(request), state: State::Open, since: at }
    }
}

/// Adds the wait of a request until a time. A short one before it is sent is the engine's.
pub(super) fn wait(uses: &mut Vec<Segment>, open: &Open, to: i64) {
    let from = open.since;
    let kind = match open.state {
        State::Open if to.saturating_sub(from) <= SENT_WITHIN => return,
        State::Open | State::Repeated { .. } => TimeKind::Limit,
        State::Sent | State::Task | State::Failed => return,
        State::ReadBack { not_before } => {
            let until = not_before.clamp(from, to.max(from));
            uses.push(Segment { kind: TimeKind::Limit, from, to: until });
            uses.push(Segment { kind: open.kind, from: until, to });
            return;
        }
        State::Person | State::Input(_) => TimeKind::Person,
    };
    uses.push(Segment { kind, from, to });
}

/// Returns the time this many milliseconds after another.
pub(super) fn after(at: i64, ms: u64) -> i64 {
    at.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000))
}

fn kind_of(request: &Request) -> TimeKind {
    match request {
        Request::Chat { .. } => TimeKind::Model,
        Request::ReadMore { .. } => TimeKind::Engine,
        Request::ListTools { .. }
        | Request::CallTool { .. }
        | Request::ListPrompts { .. }
        | Request::GetPrompt { .. }
        | Request::Describe { .. }
        | Request::Search { .. }
        | Request::Index { .. }
        | Request::Simulate(_) => TimeKind::Tool,
    }
}

fn name_of(request: &Request) -> String {
    match request {
        Request::Chat { model, .. } => model.clone(),
        Request::CallTool { server, call } => format!("{server}.{}", call.name),
        Request::ListTools { server } => format!("list tools of {server}"),
        Request::ReadMore { .. } => "read more".to_owned(),
        Request::ListPrompts { server } => format!("list prompts of {server}"),
        Request::GetPrompt { server, .. } => format!("get a prompt of {server}"),
        Request::Describe { server } => format!("describe {server}"),
        Request::Search { .. } => "search the index".to_owned(),
        Request::Index { .. } => "update the index".to_owned(),
        Request::Simulate(_) => "simulate".to_owned(),
    }
}
