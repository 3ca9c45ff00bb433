//! Routes that answer a thread's open question and settle a call in doubt.

use std::time::Duration;

use api_types::{AnswerRequest, Problem, Reconcile, Thread, Turn};
use axum::{Json, extract::State, response::Response};
use shared::{
    CallerId, Interrupt, InterruptKind, Message, NamedOption, Policy, Reconciled, RunStatus, named_option,
};
use store::{Idempotency, Opening, ThreadId};
use threads::ThreadLog;
use uuid::Uuid;

use super::view::{Shown, view};
use crate::{
    logs::{folded::Folded, lookup::find_thread},
    server::{
        extract::{Body, IdempotencyKey, Path, Query},
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
    turns::{
        cancel_retry::{append, retry_if_stale},
        lookup::WaitParams,
        submit::{enqueue_and_respond, hash_of, repeated},
    },
};

/// Answer the open question of a thread
///
/// Submits a turn with the policy `answer`. Unlike `POST /v1/turns`, it fails at once if no question is open, if the text is
/// not one of the options, or if it does not match the form of a tool.
#[utoipa::path(
    post, path = "/v1/threads/{id}/answer", tag = "threads", operation_id = "answer_thread", request_body = AnswerRequest,
    params(
        ("id" = Uuid, Path, description = "Id of the thread."), WaitParams,
        ("Idempotency-Key" = Option<String>, Header, description = "Key that identifies repetitions of this request."),
        ("traceparent" = Option<String>, Header, description = "Span of the client (W3C Trace Context), the parent of the turns in traces."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who answers. Default: `api`.")
    ),
    responses(
        (status = 202, description = "The turn is queued or running.", body = Turn),
        (status = 200, description = "The turn ended within `wait`.", body = Turn),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "No question is open, or a call is in doubt.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The answer is not one of the options, or does not match the form.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn answer(
    State(app): SharedState,
    principal: Principal,
    author: Actor,
    IdempotencyKey(key): IdempotencyKey,
    Path(id): Path<Uuid>,
    Query(params): Query<WaitParams>,
    Body { value: AnswerRequest { text }, raw }: Body<AnswerRequest>,
) -> Result<Response, ApiError> {
    let wait = params.check()?;
    let tenant = find_thread(&app, &principal, id).await?.tenant;
    let idempotency = key.map(|key| Idempotency { key, request_hash: hash_of("answer", id, &raw) });
    match repeated(&app, &tenant, idempotency.as_ref(), wait).await? {
        Some(response) => Ok(response),
        None => {
            let log = Folded::open(&app, id).await?;
            submit_answer(&app, &log, text, AnswerOptions { author, idempotency, wait }).await
        }
    }
}

/// Author of an answer, its idempotency key, and the time to wait for its turn.
pub(crate) struct AnswerOptions {
    pub(crate) author: Actor,
    pub(crate) idempotency: Option<Idempotency>,
    pub(crate) wait: Option<Duration>,
}

/// Submits the answer to the question that is open at the head of this log. It never answers a later question.
pub(crate) async fn submit_answer(
    app: &AppState,
    log: &ThreadLog,
    text: String,
    options: AnswerOptions,
) -> Result<Response, ApiError> {
    if text.trim().is_empty() {
        return Err(Kind::Invalid.because("text is empty"));
    }
    let standing = log.thread().status();
    check_answer(&standing, &text)?;
    let tenant = log.thread().tenant();
    check_approver(app, tenant, log.id(), None, &standing, options.author.caller.as_ref()).await?;
    let AnswerOptions { author, idempotency, wait } = options;
    let opening = Opening::Asking(log.id(), log.head().seq);
    let turn = store::NewTurn::of(opening, vec![Message::user(text)], author.name);
    let turn = store::NewTurn {
        policy: Policy::Answer,
        idempotency,
        caller: author.caller,
        trace_parent: author.trace_parent,
        ..turn
    };
    enqueue_and_respond(app, turn, wait).await
}

/// Checks that `text` is a valid answer to the open question.
pub(crate) fn check_answer(standing: &RunStatus, text: &str) -> Result<(), ApiError> {
    let question = open_question(standing)?;
    if question.kind == InterruptKind::InDoubt {
        return Err(Kind::InDoubt
            .because("the thread is waiting for a verdict on a call in doubt, not for a message")
            .hint("POST /v1/threads/{id}/reconcile"));
    }
    if let Some(form) = &question.elicitation {
        let unfit = |why| Kind::Unfit.because(format!("text: {why}"));
        let hint = "to ask for something else instead, POST /v1/turns with `\"policy\": \"replan\"`";
        return form.read(text).map(drop).map_err(|why| unfit(why).hint(hint));
    }
    let named = named_option(&question.options, text);
    let is_place = is_number(text) && !question.options.iter().any(|option| option.trim() == text.trim());
    if question.open_ended && is_place && question.kind == InterruptKind::Approval {
        let options = question.options.join(", ");
        let detail =
            format!("text: {text:?} may be the number of a step or of an option; the options are: {options}");
        return Err(Kind::NotAnOption.because(detail));
    }
    let accepts_any = question.open_ended || question.options.is_empty();
    let options = question.options.join(", ");
    let detail = match named {
        NamedOption::One(_) => return Ok(()),
        NamedOption::Several | NamedOption::Nothing if accepts_any => return Ok(()),
        NamedOption::Several => format!("text: {text:?} may mean several of the options: {options}"),
        NamedOption::Nothing => format!("text: {text:?} is not one of the options: {options}"),
    };
    Err(Kind::NotAnOption.because(detail).hint("send the text of one option"))
}

/// Checks that an approval is answered with another key than that of the request, where the rule of the tenant requires it. `at`
/// is the last event to consider.
pub(crate) async fn check_approver(
    app: &AppState,
    tenant: &str,
    id: ThreadId,
    at: Option<u64>,
    standing: &RunStatus,
    caller: Option<&CallerId>,
) -> Result<(), ApiError> {
    let is_approval =
        matches!(standing, RunStatus::Waiting(interrupt) if interrupt.kind == InterruptKind::Approval);
    if !is_approval || !app.tenant_rules.of(tenant).require_other_approver {
        return Ok(());
    }
    let folded = Folded::load(app, id, at).await?;
    let submitter = folded.submitter.as_ref().and_then(|submitter| submitter.key.as_deref());
    let approver = caller.and_then(|caller| caller.key.as_deref());
    let detail = match (submitter, approver) {
        (Some(submitter), Some(approver)) if submitter != approver => return Ok(()),
        (Some(_), Some(_)) => "the request was submitted with this key, and an approval needs another one",
        (None, _) | (_, None) => "an approval needs another key than the request, and one of them has none",
    };
    let hint = "answer with another key; `require_other_approver` demands it";
    Err(Kind::Forbidden.because(detail).hint(hint))
}

fn is_number(text: &str) -> bool {
    text.trim().trim_end_matches('.').parse::<u64>().is_ok()
}

/// Returns the open question of a thread.
pub(crate) fn open_question(standing: &RunStatus) -> Result<&Interrupt, ApiError> {
    let status = match standing {
        RunStatus::Waiting(interrupt) => return Ok(interrupt),
        RunStatus::Idle => "idle",
        RunStatus::Busy => "busy",
        RunStatus::Failed { .. } => "failed",
    };
    let detail = format!("the thread is {status} and has no open question");
    Err(Kind::NothingAsked.because(detail).hint("send a new message with POST /v1/turns"))
}

/// Settle a call in doubt
///
/// A call that may have changed something and lost its answer is never repeated automatically. A person finds out whether it
/// took effect and reports it here.
#[utoipa::path(
    post, path = "/v1/threads/{id}/reconcile", tag = "threads", operation_id = "reconcile_thread",
    request_body = Reconcile,
    params(
        ("id" = Uuid, Path, description = "Id of the thread."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who gives the verdict. Default: `api`.")
    ),
    responses(
        (status = 200, description = "The verdict is recorded and the thread continues.", body = Thread),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The call is not in doubt.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn reconcile(
    State(app): SharedState,
    principal: Principal,
    by: Actor,
    Path(id): Path<Uuid>,
    Body { value: Reconcile { slot, verdict }, .. }: Body<Reconcile>,
) -> Result<Json<Thread>, ApiError> {
    find_thread(&app, &principal, id).await?;
    record_verdict(&app, id, slot, verdict.into(), &by).await?;
    Ok(Json(view(&app, find_thread(&app, &principal, id).await?, Shown::default()).await?))
}

/// Records a verdict on the request `slot` and enqueues the thread.
pub(crate) async fn record_verdict(
    app: &AppState,
    id: ThreadId,
    slot: usize,
    verdict: shared::Verdict,
    by: &Actor,
) -> Result<(), ApiError> {
    retry_if_stale(|| async { try_reconcile(app, Folded::open(app, id).await?, slot, &verdict, by).await })
        .await?;
    tracing::info!(thread = %id, slot, "call reconciled");
    app.enqueue(id).await;
    Ok(())
}

/// Records a verdict on the request `slot` at the head of this log.
pub(crate) async fn try_reconcile(
    app: &AppState,
    mut log: ThreadLog,
    slot: usize,
    verdict: &shared::Verdict,
    by: &Actor,
) -> Result<(), ApiError> {
    let folded = Folded::load(app, log.id(), log.head().seq.checked_sub(1)).await?;
    let in_doubt = &folded.in_doubt;
    // While other calls of the node are in progress, a verdict would discard their answers.
    let waits = matches!(log.thread().status(), RunStatus::Waiting(_));
    if !waits || !in_doubt.contains(&slot) {
        let slots = in_doubt.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let detail = match (waits, slots.is_empty()) {
            (_, true) => "no call of this thread is in doubt".to_owned(),
            (true, false) => format!("slot {slot} is not in doubt; in doubt: {slots}"),
            (false, false) => "the thread is not waiting for a verdict yet".to_owned(),
        };
        return Err(Kind::NotInDoubt.because(detail));
    }
    append(
        app,
        &mut log,
        Reconciled {
            slot,
            verdict: verdict.clone(),
            actor: by.name.clone(),
            caller: by.caller.clone(),
            read_back: None,
        }
        .into(),
    )
    .await
}
