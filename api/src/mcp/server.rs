//! The handler of MCP requests.

use std::sync::Arc;

use api_types::Turn;
use axum::Router;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CreateTaskResult, GetTaskParams,
        GetTaskResult, Implementation, InputRequiredResult, InputResponses, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, UpdateTaskParams,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use super::{
    client::Client,
    messages::{problem_result, turn_result},
    own_tool::{OwnTool, call},
    question,
    request::{error_data, is, rest},
    submission::Submission,
    task::{TaskTurns, open_question, task},
    tools::tools,
};
use crate::server::{
    problem::Kind,
    rest::{Refusal, Rest, refusal},
    state::AppState,
};

/// Text for the model of a client.
const INSTRUCTIONS: &str = "Each strategy is a tool that runs as a durable turn: it goes on if you disconnect, and even if every \
     process is killed. If a result says that the turn is still running, call turn_status. If the agent asks a question, \
     put it to your user and call answer.";

/// turnfold as an MCP server, for one request.
#[derive(Clone)]
pub(crate) struct McpServer {
    pub(super) app: Arc<AppState>,
    /// Routes of the REST API.
    pub(super) routes: Router,
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let about = Implementation::new("turnfold", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
            .with_server_info(about)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let rest = rest(&self.routes, &context)?;
        Ok(ListToolsResult::with_all_items(tools(&self.app, rest.principal())))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let rest = rest(&self.routes, &context)?;
        let arguments = request.arguments.unwrap_or_default();
        let called = match OwnTool::of_name(&request.name) {
            Some(tool) => call(tool, &rest, arguments).await.map(CallToolResponse::from),
            None => {
                let client = Client::new(&context);
                let submission = Submission::new(&self.app, &rest, &request.name, arguments).await;
                match (submission, request.request_state) {
                    // A tool that does not exist is an error of the protocol, which no model can mend.
                    (Err(problem), _) if is(&problem, Kind::UnknownTool) => return Err(error_data(&problem)),
                    (Err(problem), _) => Err(problem),
                    (Ok(submission), Some(state)) => {
                        resume(
                            &rest,
                            &client,
                            &state,
                            request.input_responses.unwrap_or_default(),
                            submission.wait,
                        )
                        .await
                    }
                    (Ok(submission), None) => run(&rest, &client, &submission).await,
                }
            }
        };
        Ok(called.unwrap_or_else(|problem| problem_result(&problem).into()))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let rest = rest(&self.routes, &context)?;
        let can_ask = Client::new(&context).can_ask;
        let turns = TaskTurns::read(&rest, &request.task_id).await.map_err(|problem| error_data(&problem))?;
        let detailed = turns.detailed(&rest, can_ask).await.map_err(|problem| error_data(&problem))?;
        Ok(GetTaskResult::new(detailed))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let rest = rest(&self.routes, &context)?;
        let turns = TaskTurns::read(&rest, &request.task_id).await.map_err(|problem| error_data(&problem))?;
        let answered = answer(&rest, &turns.current, request.input_responses, 0).await;
        answered.map(drop).map_err(|problem| error_data(&problem))
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let rest = rest(&self.routes, &context)?;
        let turns = TaskTurns::read(&rest, &request.task_id).await.map_err(|problem| error_data(&problem))?;
        let path = format!("/v1/turns/{}/cancel", turns.current.id);
        match rest.post::<Value>(&path, &Value::Null).await {
            Ok(_) => Ok(()),
            // A task that has ended stays as it is.
            Err(problem) if is(&problem, Kind::Ended) => Ok(()),
            Err(problem) => Err(error_data(&problem)),
        }
    }
}

/// Runs a strategy: as a task if the client knows tasks, and otherwise to its end or to the end of the wait.
async fn run(rest: &Rest, client: &Client, submission: &Submission) -> Result<CallToolResponse, Refusal> {
    let wait = if client.has_tasks { 0 } else { submission.wait };
    let turn = rest.post::<Turn>(&format!("/v1/turns?wait={wait}"), &submission.body).await;
    let turn = turn.map_err(|problem| submission.named(problem))?;
    if client.has_tasks {
        return Ok(CreateTaskResult::new(task(&turn, &turn)).into());
    }
    finish(rest, client, &turn).await
}

/// Goes on with a call whose turn asked a question. `state` names the turn; the routes check who sees it.
async fn resume(
    rest: &Rest,
    client: &Client,
    state: &str,
    responses: InputResponses,
    wait: u64,
) -> Result<CallToolResponse, Refusal> {
    let turns = TaskTurns::read(rest, state).await?;
    match answer(rest, &turns.current, responses, wait).await? {
        Some(turn) => finish(rest, client, &turn).await,
        None => Ok(turn_result(&turns.current).into()),
    }
}

/// Answers the open question of a turn with the response of a client, and returns the turn that continues. `None`: there is no
/// question, or no answer to it.
async fn answer(
    rest: &Rest,
    turn: &Turn,
    responses: InputResponses,
    wait: u64,
) -> Result<Option<Turn>, Refusal> {
    let Some(item) = open_question(rest, turn).await? else { return Ok(None) };
    let answer =
        question::answer(&item, responses).map_err(|detail| refusal(&Kind::Invalid.because(detail)))?;
    let Some(answer) = answer else { return Ok(None) };
    rest.post(&format!("/v1/inbox/{}?wait={wait}", item.thread_id), &json!(answer)).await.map(Some)
}

/// Returns the result of a turn, or its question to the client's user.
async fn finish(rest: &Rest, client: &Client, turn: &Turn) -> Result<CallToolResponse, Refusal> {
    if client.takes_questions
        && let Some(item) = open_question(rest, turn).await?
    {
        let requests = question::requests(&item);
        if !requests.is_empty() {
            return Ok(InputRequiredResult::new(Some(requests), Some(turn.id.to_string())).into());
        }
    }
    Ok(turn_result(turn).into())
}
