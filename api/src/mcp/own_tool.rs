//! The tools that are not strategies.

use api_types::{InboxAnswer, InboxItem, LogEvent, Page, Scope, Turn};
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::json;

use super::{
    arguments::{AnswerArguments, EventsArguments, StatusArguments, WaitingArguments, parse, take_wait},
    messages::{response_result, turn_result},
};
use crate::server::{
    problem::ApiError,
    rest::{Refusal, Rest, refusal},
};

/// A tool that is not a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnTool {
    TurnStatus,
    ListWaiting,
    Answer,
    ThreadEvents,
}

impl OwnTool {
    pub(super) const ALL: [Self; 4] = [Self::TurnStatus, Self::ListWaiting, Self::Answer, Self::ThreadEvents];

    pub(super) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::TurnStatus => "turn_status",
            Self::ListWaiting => "list_waiting",
            Self::Answer => "answer",
            Self::ThreadEvents => "thread_events",
        }
    }

    /// Scope that the route behind the tool needs.
    pub(super) fn scope(self) -> Scope {
        match self {
            Self::TurnStatus | Self::ListWaiting | Self::ThreadEvents => Scope::Read,
            Self::Answer => Scope::Answer,
        }
    }
}

/// Calls the route behind a tool.
pub(super) async fn call(
    tool: OwnTool,
    rest: &Rest,
    mut arguments: JsonObject,
) -> Result<CallToolResult, Refusal> {
    let problem = |error: ApiError| refusal(&error);
    match tool {
        OwnTool::TurnStatus => {
            let wait = take_wait(&mut arguments).map_err(problem)?;
            let StatusArguments { turn_id } = parse(arguments).map_err(problem)?;
            let turn: Turn = rest.get(&format!("/v1/turns/{turn_id}?wait={wait}")).await?;
            Ok(turn_result(&turn))
        }
        OwnTool::ListWaiting => {
            let arguments: WaitingArguments = parse(arguments).map_err(problem)?;
            let page: Page<InboxItem> = rest.get(&arguments.path()).await?;
            Ok(response_result(&page))
        }
        OwnTool::Answer => {
            let wait = take_wait(&mut arguments).map_err(problem)?;
            let arguments: AnswerArguments = parse(arguments).map_err(problem)?;
            let path = format!("/v1/inbox/{}?wait={wait}", arguments.thread_id);
            let answer = InboxAnswer::try_from(arguments).map_err(problem)?;
            let turn: Turn = rest.post(&path, &json!(answer)).await?;
            Ok(turn_result(&turn))
        }
        OwnTool::ThreadEvents => {
            let arguments: EventsArguments = parse(arguments).map_err(problem)?;
            let page: Page<LogEvent> = rest.get(&arguments.path()).await?;
            Ok(response_result(&page))
        }
    }
}
