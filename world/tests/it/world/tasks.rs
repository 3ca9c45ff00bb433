//! Calls that a server carries out as tasks: polled by any worker, and cancelled with their turn.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CreateTaskResult, DetailedTask,
        GetTaskParams, GetTaskResult, ServerCapabilities, ServerConfig, Task, TaskPayload, TaskStatus,
        UpdateTaskParams,
    },
    service::RequestContext as Context,
};
use serde_json::{Value, json};
use shared::{
    Cancelled, DynThread, Event, FaultKind, InputResponse, InputResponses, OpenTask, PendingRequest, Request,
    Response, RunStatus, Safety, ToolOutput,
};
use store::ThreadId;
use threads::{Backends, StrategyRegistry, ThreadLog};
use tokio::sync::Notify;
use uuid::Uuid;
use worker::{
    StepOutcome,
    testing::{answered_at_once, backends, first_turn, fixtures, read, steps, submit_turn},
};
use world::{LiveWorld, Outcome, RecordedWorld, RequestContext, Server, World};

use super::{Stage, child, live, mcp_misbehaviour::calling, perform, servers};

/// Environment variable with the folder of the server's tasks: it keeps them, whichever of its processes is asked.
const AS_SERVER: &str = "TURNFOLD_TEST_TASK_SERVER";

/// Id of the only task.
const TASK: &str = "t1";

/// A server whose calls become a task. The test writes the state of the task into a file.
struct TaskServer(PathBuf);

impl TaskServer {
    fn task(&self) -> Task {
        let time = "2026-11-27T00:00:00Z";
        Task::new(TASK, TaskStatus::Working, time, time).with_poll_interval_ms(1)
    }

    fn note(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(file), text).unwrap();
    }
}

impl ServerHandler for TaskServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: Context<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let calls = std::fs::read_to_string(self.0.join("calls")).unwrap_or_default();
        self.note("calls", &(calls + "called\n"));
        self.note(TASK, "working");
        Ok(CallToolResponse::Task(CreateTaskResult::new(self.task())))
    }

    async fn get_task(
        &self,
        asked: GetTaskParams,
        _: Context<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let state = std::fs::read_to_string(self.0.join(&asked.task_id))
            .map_err(|_| ErrorData::invalid_params("no such task", None))?;
        let object = |value: Value| value.as_object().cloned().unwrap();
        let payload = match state.as_str() {
            "done" => TaskPayload::Completed {
                result: object(json!({ "content": [{ "type": "text", "text": "cancelled e1" }] })),
            },
            "failed" => TaskPayload::Failed { error: object(json!({ "code": -1, "message": "no paper" })) },
            "cancelled" => TaskPayload::Cancelled,
            "asks" => TaskPayload::InputRequired {
                input_requests: serde_json::from_value(
                    json!({ "sure": { "method": "elicitation/create", "params": {
                    "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} } } } }),
                )
                .unwrap(),
            },
            _ => TaskPayload::Working,
        };
        Ok(GetTaskResult::new(DetailedTask::new(self.task(), payload)))
    }

    async fn update_task(&self, update: UpdateTaskParams, _: Context<RoleServer>) -> Result<(), ErrorData> {
        self.note("responses", &json!(update.input_responses).to_string());
        self.note(&update.task_id, "done");
        Ok(())
    }

    async fn cancel_task(&self, asked: CancelTaskParams, _: Context<RoleServer>) -> Result<(), ErrorData> {
        self.note(&asked.task_id, "cancelled");
        Ok(())
    }
}

/// The server that another test starts. It returns at once unless its environment variable is set.
#[tokio::test]
async fn speaks_mcp() {
    if let Some(folder) = std::env::var_os(AS_SERVER) {
        child::say_raw("");
        let serving = TaskServer(folder.into()).serve(rmcp::transport::stdio()).await.unwrap();
        serving.waiting().await.unwrap();
    }
}

fn server(folder: &Path) -> Server {
    child::started("world::tasks::speaks_mcp", [(AS_SERVER, folder.to_str().unwrap())])
}

fn world(folder: &Path) -> LiveWorld {
    live([], servers([("calendar", server(folder))]))
}

fn state(folder: &Path, state: &str) {
    std::fs::write(folder.join(TASK), state).unwrap();
}

fn text(outcome: Outcome) -> ToolOutput {
    match outcome {
        Ok((Response::Output(it), _)) => it,
        other => panic!("an output was expected: {other:?}"),
    }
}

#[tokio::test]
async fn a_task_is_asked_for_its_result_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let world = world(folder);
    let send = async |due: &PendingRequest| perform(&world, &Stage::default(), due).await.0;
    let call = calling("calendar", "cancel", Safety::Write);
    let working = Response::Working { task: TASK.to_owned(), poll_after_ms: 500 };
    assert_eq!(send(&call).await, Ok((working.clone(), None)));
    let poll = PendingRequest { task: Some(TASK.to_owned()), ..call };
    assert_eq!(send(&poll).await, Ok((working.clone(), None)));
    state(folder, "failed");
    assert_eq!(text(send(&poll).await), ToolOutput::Error("no paper".to_owned()));
    state(folder, "cancelled");
    assert!(text(send(&poll).await).model_text().contains("the server cancelled the task of cancel"));
    state(folder, "asks");
    let Ok((Response::InputRequired { input_requests, .. }, _)) = send(&poll).await else {
        panic!("it asks")
    };
    assert_eq!(input_requests["sure"].question, "Sure?");
    let responses = [("sure".to_owned(), InputResponse::Accept(Value::Null))].into();
    let supplied = InputResponses { responses, ..InputResponses::default() };
    let poll = PendingRequest { input_responses: Some(supplied), ..poll };
    assert_eq!(send(&poll).await, Ok((working, None)));
    let passed_on = std::fs::read_to_string(folder.join("responses")).unwrap();
    assert_eq!(passed_on, r#"{"sure":{"action":"accept"}}"#);
    assert_eq!(text(send(&poll).await), ToolOutput::Ok("cancelled e1".to_owned()));
    assert_eq!(std::fs::read_to_string(folder.join("calls")).unwrap(), "called\n", "the call is sent once");
}

/// A call that must not be repeated is in doubt; another is made again.
#[tokio::test]
async fn a_task_that_its_server_forgot_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path());
    for (safety, kind) in [
        (Safety::Read, FaultKind::Transient { retry_after_ms: None }),
        (Safety::Write, FaultKind::InDoubt { retry_after_ms: None }),
    ] {
        let poll = PendingRequest { task: Some(TASK.to_owned()), ..calling("calendar", "cancel", safety) };
        let fault = perform(&world, &Stage::default(), &poll).await.0.unwrap_err();
        assert_eq!(fault.kind, kind);
        assert_eq!(
            fault.error,
            "MCP server calendar does not know the task of cancel any more: no such task"
        );
    }
}

/// The task goes on while its server cannot be asked.
#[tokio::test]
async fn a_server_that_cannot_be_asked_is_waited_for() {
    let world = live(
        [],
        servers([(
            "calendar",
            child::command_of(world::Transport::Stdio {
                command: "false".to_owned(),
                args: Vec::new(),
                env: Default::default(),
                cwd: None,
            }),
        )]),
    );
    let poll = PendingRequest { task: Some(TASK.to_owned()), ..calling("calendar", "cancel", Safety::Write) };
    let fault = perform(&world, &Stage::default(), &poll).await.0.unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Unavailable { sent: false, .. }), "{fault:?}");
}

/// A recorded thread whose calls are made for real.
struct TaskWorld {
    recorded: RecordedWorld,
    live: LiveWorld,
}

#[async_trait]
impl World for TaskWorld {
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        match ask.due.request {
            Request::CallTool { .. } => self.live.perform(thread, ask).await,
            _ => self.recorded.perform(thread, ask).await,
        }
    }

    async fn cancel_task(&self, thread: Uuid, task: &OpenTask) {
        self.live.cancel_task(thread, task).await;
    }
}

/// A thread that cancels an event, and the folder of the server that does it.
struct TaskThread {
    folder: tempfile::TempDir,
    backends: Backends,
    id: ThreadId,
    script: Vec<Event>,
}

impl TaskThread {
    async fn new() -> Self {
        let graph = strategies::find("retriever").unwrap();
        let path = fixtures(graph).into_iter().find(|path| path.ends_with("write_in_doubt.jsonl")).unwrap();
        let script: Vec<Event> = read(&path).into_iter().filter_map(answered_at_once).collect();
        let backends = backends().await;
        let id = submit_turn(&backends, first_turn(&script)).await.thread;
        Self { folder: tempfile::tempdir().unwrap(), backends, id, script }
    }

    /// A world with a server process of its own.
    fn world(&self) -> Arc<TaskWorld> {
        let recorded = RecordedWorld::new(strategies::find("retriever").unwrap(), &self.script).unwrap();
        Arc::new(TaskWorld { recorded, live: world(self.folder.path()) })
    }

    /// Runs the thread's jobs on a worker until `done`.
    async fn run(&self, world: &Arc<TaskWorld>, done: impl Fn(&StepOutcome) -> bool) -> StepOutcome {
        let worker = steps(&self.backends, world.clone(), "w");
        let began = Instant::now();
        loop {
            let outcome = worker.run_job(self.id, &Notify::new()).await.unwrap();
            if done(&outcome) {
                return outcome;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it goes on: {outcome:?}");
            if let StepOutcome::Blocked { after, .. } | StepOutcome::RetryLater { after, .. } = outcome {
                tokio::time::sleep(after).await;
            }
        }
    }

    async fn count(&self, kind: &str) -> usize {
        let (_, rows) = self.backends.store.load(self.id).await.unwrap();
        rows.iter().filter(|row| row.event.kind() == kind).count()
    }

    async fn log(&self) -> ThreadLog {
        let strategies = StrategyRegistry::new(strategies::all());
        ThreadLog::open(&self.backends, &strategies, self.id).await.unwrap()
    }
}

fn is_blocked(outcome: &StepOutcome) -> bool {
    matches!(outcome, StepOutcome::Blocked { .. })
}

fn is_idle(outcome: &StepOutcome) -> bool {
    *outcome == StepOutcome::Idle
}

#[tokio::test]
async fn another_worker_continues_to_poll_a_task() {
    let thread = TaskThread::new().await;
    let first = thread.world();
    let StepOutcome::Blocked { why, .. } = thread.run(&first, is_blocked).await else { panic!() };
    assert_eq!(why.to_string(), "provider MCP server calendar works on a task");
    first.live.close().await;
    let second = thread.world();
    thread.run(&second, is_blocked).await;
    let events = thread.backends.store.head(thread.id).await.unwrap().seq;
    thread.run(&second, is_blocked).await;
    assert_eq!(thread.backends.store.head(thread.id).await.unwrap().seq, events, "polls leave no events");
    state(thread.folder.path(), "done");
    thread.run(&second, is_idle).await;
    assert_eq!(thread.log().await.thread().reply(), Some("e1 is cancelled."));
    assert_eq!((thread.count("attempted").await, thread.count("task_started").await), (1, 1));
    assert_eq!(std::fs::read_to_string(thread.folder.path().join("calls")).unwrap(), "called\n");
}

#[tokio::test]
async fn a_task_is_cancelled_with_its_turn() {
    let thread = TaskThread::new().await;
    let world = thread.world();
    thread.run(&world, is_blocked).await;
    let mut log = thread.log().await;
    log.push(Cancelled { actor: "person".to_owned(), caller: None, rolled_back: false }.into()).unwrap();
    log.flush(&thread.backends).await.unwrap();
    thread.run(&world, is_idle).await;
    let began = Instant::now();
    while std::fs::read_to_string(thread.folder.path().join(TASK)).unwrap() != "cancelled" {
        assert!(began.elapsed() < Duration::from_secs(30), "the task goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let log = thread.log().await;
    let result = log.thread().messages().last().unwrap();
    assert!(result.content.starts_with("it is unknown whether this call took effect"), "{result:?}");
}

#[tokio::test]
async fn a_lost_task_of_a_write_asks_a_person() {
    let thread = TaskThread::new().await;
    let world = thread.world();
    thread.run(&world, is_blocked).await;
    std::fs::remove_file(thread.folder.path().join(TASK)).unwrap();
    thread.run(&world, is_idle).await;
    let status = thread.log().await.thread().status();
    assert!(
        matches!(&status, RunStatus::Waiting(interrupt) if interrupt.question.contains("no such task")),
        "{status:?}"
    );
}
