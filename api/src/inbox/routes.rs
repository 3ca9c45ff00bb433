//! Routes of the inbox.

use api_types::{
    ActionRequest, AnswerConfig, HumanInterrupt, InboxAnswer, InboxItem, InterruptKindSchema, Page, Problem,
    ProposedCall, Turn,
};
use axum::{Json, extract::State, response::Response};
use queue::clock::rfc3339;
use serde::Deserialize;
use serde_json::json;
use shared::{Interrupt, InterruptKind, Request};
use store::Idempotency;
use utoipa::IntoParams;
use uuid::Uuid;

use super::action::{InboxAction, accepted_answers, action};
use crate::{
    logs::{folded::Folded, lookup::find_thread},
    server::{
        extract::{Body, IdempotencyKey, Path, Query},
        openai_ids::{batch_id, batch_name},
        pagination::{limit, page},
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
    threads::answer::{AnswerOptions, open_question, record_verdict, submit_answer},
    turns::{
        cancel_retry::cancel_turn,
        lookup::{WaitParams, load},
        submit::{hash_of, repeated, respond},
    },
};

/// Query parameters of the inbox.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListInbox {
    /// Only questions of this kind.
    #[param(inline, value_type = Option<InterruptKindSchema>)]
    kind: Option<InterruptKind>,
    /// Only questions of this batch.
    #[param(example = "batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d")]
    batch_id: Option<String>,
    /// Only questions about calls in doubt of this server.
    #[param(example = "calendar")]
    server: Option<String>,
    /// Only questions about calls in doubt of this tool.
    #[param(example = "book")]
    tool: Option<String>,
    /// Only questions asked before that of this thread: the last one of the previous page. If the thread has continued,
    /// some questions may be repeated, but none is missing.
    after: Option<Uuid>,
    /// Maximum number of questions. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

impl ListInbox {
    fn matches(&self, item: &InboxItem) -> bool {
        let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        self.kind.is_none_or(|kind| item.kind == kind)
            && is(&self.server, &item.server)
            && is(&self.tool, &item.tool)
    }
}

/// List open questions
///
/// Returns a page of threads that are waiting for a person, the most recent question first.
#[utoipa::path(
    get, path = "/v1/inbox", tag = "inbox", operation_id = "list_inbox", params(ListInbox),
    responses(
        (status = 200, description = "A page of questions.", body = Page<InboxItem>),
        (status = 404, description = "The thread `after` does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<ListInbox>,
) -> Result<Json<Page<InboxItem>>, ApiError> {
    let limit = limit(params.limit)?;
    let mut after = match params.after {
        Some(id) => Some(find_thread(&app, &principal, id).await?).map(|row| (row.updated_at, row.id)),
        None => None,
    };
    let batch = params.batch_id.as_deref().map(known_batch).transpose()?;
    let mut items = Vec::new();
    let full = |items: &Vec<InboxItem>| items.len() as u64 > limit;
    while !full(&items) {
        let rows = app.backends.store.waiting(principal.only(), after, limit + 1).await?;
        let Some(last) = rows.last() else { break };
        after = Some((last.updated_at, last.id));
        for row in rows {
            let batch_id = batch_id_of(&app, row.id).await?;
            // Before the thread is folded, because most questions may be of other batches.
            if batch.is_some() && batch_id != batch {
                continue;
            }
            let item = item_if_open(&app, row, batch_id).await?;
            items.extend(item.filter(|item| params.matches(item)));
            if full(&items) {
                break;
            }
        }
    }
    Ok(Json(page(items, limit)))
}

/// Returns the id of a batch as questions name it.
fn known_batch(text: &str) -> Result<String, ApiError> {
    let unknown = || Kind::Malformed.because("batch_id must be the id of a batch, such as batch_019aa7f0…");
    batch_id(text).map(batch_name).ok_or_else(unknown)
}

/// Returns the open question of a thread. Returns none if the thread has continued since its row was read, and if its log
/// cannot be read: one invalid log must not hide the other questions.
async fn item_if_open(
    app: &AppState,
    row: store::Thread,
    batch_id: Option<String>,
) -> Result<Option<InboxItem>, ApiError> {
    let id = row.id;
    match item(app, row, batch_id).await {
        Ok(item) => Ok(Some(item)),
        Err(error) if error.kind == Kind::NothingAsked => Ok(None),
        Err(error) if error.kind == Kind::Damaged => {
            tracing::warn!(thread = %id, error = error.detail(), "thread is waiting for a person, but its log cannot be read");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the id of the batch whose line opened a thread.
async fn batch_id_of(app: &AppState, thread: Uuid) -> Result<Option<String>, ApiError> {
    Ok(app.backends.store.batch_of(thread).await?.map(batch_name))
}

async fn item(app: &AppState, row: store::Thread, batch_id: Option<String>) -> Result<InboxItem, ApiError> {
    let folded = Folded::load(app, row.id, None).await?;
    let thread = &folded.thread;
    let standing = thread.status();
    let question = open_question(&standing)?;
    let slot = slot_in_doubt(question, &folded);
    let in_doubt = slot.and_then(|slot| folded.request(slot));
    let (server, tool) = called(in_doubt).unzip();
    Ok(InboxItem {
        thread_id: row.id,
        turn_id: thread.turn(),
        seq: thread.seq() as u64,
        strategy: row.strategy,
        batch_id,
        asked_at: rfc3339(row.updated_at),
        interrupt: human_interrupt(question, in_doubt),
        kind: question.kind,
        question: question.question.clone(),
        options: question.options.clone(),
        open_ended: question.open_ended,
        calls: thread.proposed_calls().into_iter().map(ProposedCall::from).collect(),
        schema: question
            .elicitation
            .as_ref()
            .map(|form| form.schema.clone())
            .filter(|schema| !schema.is_null()),
        url: question.elicitation.as_ref().and_then(|form| form.url.clone()),
        slot,
        server: server.map(str::to_owned),
        tool: tool.map(str::to_owned),
    })
}

/// Returns the server and the tool that a request calls.
pub(super) fn called(request: Option<&Request>) -> Option<(&str, &str)> {
    let Some(Request::CallTool { server, call }) = request else { return None };
    Some((server, &call.name))
}

/// Converts a question to the format of agent inboxes. `in_doubt` is the request in doubt, if there is one.
fn human_interrupt(question: &Interrupt, in_doubt: Option<&Request>) -> HumanInterrupt {
    let kind = || question.kind.name().to_owned();
    let (action, args) = match in_doubt {
        // An inbox shows these fields for editing and sends them back.
        None if question.elicitation.is_some() => {
            (kind(), question.elicitation.as_ref().map(|form| form.blank()).unwrap_or_default())
        }
        Some(Request::CallTool { call, .. }) => (call.name.clone(), call.arguments.clone()),
        // A request that was parsed from JSON serializes to JSON.
        Some(request) => (kind(), serde_json::to_value(request).unwrap_or_default()),
        None => (kind(), json!({"question": question.question, "options": question.options})),
    };
    let config: AnswerConfig = accepted_answers(question);
    HumanInterrupt {
        action_request: ActionRequest { action, args },
        config,
        description: question.question.clone(),
    }
}

/// Returns the slot of the request in doubt, if the question is about one.
fn slot_in_doubt(question: &Interrupt, folded: &Folded) -> Option<usize> {
    folded.in_doubt.first().copied().filter(|_| question.kind == InterruptKind::InDoubt)
}

/// Show the open question of a thread
///
/// Returns the question with its options and the accepted kinds of answer.
#[utoipa::path(
    get, path = "/v1/inbox/{thread_id}", tag = "inbox", operation_id = "get_inbox_item",
    params(("thread_id" = Uuid, Path, description = "Id of the thread.")),
    responses(
        (status = 200, description = "The question.", body = InboxItem),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "No question is open.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
) -> Result<Json<InboxItem>, ApiError> {
    let row = find_thread(&app, &principal, id).await?;
    let batch_id = batch_id_of(&app, row.id).await?;
    Ok(Json(item(&app, row, batch_id).await?))
}

/// Answer the open question of a thread, of any kind
///
/// - `accept` means yes. An approval receives its first option, or `yes` if it has none. A call in doubt took effect. A
///   tool's form receives its default values.
/// - `edit` answers a question without options with a text or JSON, and a tool's form with its fields.
/// - `respond` answers with a text. With options: the text or the number of one. For a call in doubt: `happened`, `did not`,
///   `skip` or a verdict. For a tool's form: the value of its only field, or `decline`.
/// - `ignore` cancels the turn, and the thread becomes idle. A tool that requested input receives `cancel` instead, and the
///   turn continues.
///
/// A kind of answer that the question does not accept is rejected; `detail` lists the accepted ones.
///
/// Returns the turn that continues: a new one for an answer, otherwise the one that asked.
#[utoipa::path(
    post, path = "/v1/inbox/{thread_id}", tag = "inbox", operation_id = "answer_inbox_item",
    request_body = InboxAnswer,
    params(
        ("thread_id" = Uuid, Path, description = "Id of the thread."), WaitParams,
        ("Idempotency-Key" = Option<String>, Header, description = "Key that identifies repetitions of an answer with a text."),
        ("traceparent" = Option<String>, Header, description = "Span of the client (W3C Trace Context), the parent of the turns in traces."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who answers. Default: `api`.")
    ),
    responses(
        (status = 202, description = "The turn is queued or running.", body = Turn),
        (status = 200, description = "The turn ended within `wait`, or was cancelled.", body = Turn),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "No question is open, another one is, or the kind of answer is not accepted.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The answer is not one of the options, or is invalid.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn answer(
    State(app): SharedState,
    principal: Principal,
    author: Actor,
    IdempotencyKey(key): IdempotencyKey,
    Path(id): Path<Uuid>,
    Query(params): Query<WaitParams>,
    Body { value: InboxAnswer { kind, args, turn_id, seq }, raw }: Body<InboxAnswer>,
) -> Result<Response, ApiError> {
    let wait = params.check()?;
    let tenant = find_thread(&app, &principal, id).await?.tenant;
    let idempotency = key.map(|key| Idempotency { key, request_hash: hash_of("inbox", id, &raw) });
    if let Some(response) = repeated(&app, &tenant, idempotency.as_ref(), wait).await? {
        return Ok(response);
    }
    let log = Folded::open(&app, id).await?;
    let standing = log.thread().status();
    let question = open_question(&standing)?;
    let turn =
        log.thread().turn().ok_or_else(|| Kind::Internal.because("the question belongs to no turn"))?;
    let superseded = turn_id.is_some_and(|turn_id| turn_id != turn);
    if superseded || seq.is_some_and(|seq| seq != log.head().seq) {
        let detail = format!("the question was answered; turn {turn} has asked another one");
        return Err(Kind::Stale.because(detail).hint("read the inbox again"));
    }
    match action(question, kind, args)? {
        InboxAction::Answer(text) => {
            return submit_answer(&app, &log, text, AnswerOptions { author, idempotency, wait }).await;
        }
        InboxAction::Reconcile { slot: named, verdict } => {
            let slot = match named {
                Some(named) => Some(named),
                None => slot_in_doubt(question, &*Folded::load(&app, id, None).await?),
            };
            let slot = slot.ok_or_else(|| Kind::NotInDoubt.because("no call of this thread is in doubt"))?;
            record_verdict(&app, id, slot, verdict, &author).await?;
        }
        InboxAction::Cancel => cancel_turn(&app, turn, &author).await?,
    }
    respond(&app, load(&app, turn).await?, wait).await
}
