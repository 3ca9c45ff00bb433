//! A turn that has ended, as a chat completion.

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::model;
use crate::{
    problem::{Kind, Problem},
    schema::{Interrupt, Spent, Took, Turn, TurnStatus},
};

/// What an agent answered, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatCompletion {
    /// `chatcmpl-` and the id of the turn.
    #[schema(examples("chatcmpl-019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d"))]
    pub(crate) id: String,
    /// `chat.completion`.
    object: &'static str,
    /// When the turn was submitted, in seconds since the Unix epoch.
    pub(crate) created: i64,
    /// The strategy.
    #[schema(examples("turnfold/planner"))]
    pub(crate) model: String,
    /// Always one.
    choices: [Choice; 1],
    /// What the models of the turn read and wrote.
    pub(crate) usage: Usage,
    /// Where to go on, and what only turnfold tells.
    pub(crate) turnfold: Ours,
}

/// What was answered.
#[derive(Debug, Serialize, ToSchema)]
struct Choice {
    /// Always 0.
    index: u32,
    /// The words.
    message: Said,
    /// Always null.
    #[schema(value_type = Option<Object>)]
    logprobs: Option<()>,
    /// Always `stop`, also where the answer is a question.
    finish_reason: &'static str,
}

/// The agent's words.
#[derive(Debug, Serialize, ToSchema)]
struct Said {
    /// `assistant`.
    role: &'static str,
    /// The answer; or what is asked, with its options, where the turn waits for a person.
    content: String,
    /// Always null.
    refusal: Option<String>,
}

/// Tokens, in OpenAI's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Usage {
    /// Those that models read.
    prompt_tokens: u64,
    /// Those that models wrote.
    completion_tokens: u64,
    /// Both.
    total_tokens: u64,
}

/// What only turnfold tells of a chat completion.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ours {
    /// The thread: named in `metadata.thread_id`, or in the header `X-Turnfold-Thread`, it goes on.
    thread_id: Uuid,
    /// The turn.
    turn_id: Uuid,
    /// `completed`, or `interrupted` if a person is asked.
    status: TurnStatus,
    /// What is asked; the next user message of the thread answers it.
    interrupt: Option<Interrupt>,
    /// What the turn took of the world.
    took: Option<Took>,
    /// The budget by which it ended before its strategy was done, if one did.
    spent: Option<Spent>,
}

impl ChatCompletion {
    /// The agent's words.
    pub(super) fn content(&self) -> &str {
        let [Choice { message, .. }] = &self.choices;
        &message.content
    }
}

/// The id of the completion that a turn is.
pub(super) fn id_of(turn: Uuid) -> String {
    format!("chatcmpl-{turn}")
}

/// A turn that was submitted at `created_at` (microseconds since the Unix epoch), as a chat completion; or why it is none.
pub(crate) fn completion(turn: &Turn, created_at: i64) -> Result<ChatCompletion, Problem> {
    let (id, thread) = (turn.id, turn.thread_id);
    let place = format!("turn {id} of thread {thread}");
    match turn.status {
        TurnStatus::Completed | TurnStatus::Interrupted => (),
        TurnStatus::Failed => {
            let why = turn.error.as_deref().unwrap_or("nothing is said of why");
            let mend = format!("POST /v1/turns/{id}/retry has it try again");
            return Err(Kind::TurnFailed.because(format!("{place} failed: {why}")).mend(mend));
        }
        TurnStatus::Cancelled => {
            return Err(Kind::TurnCancelled.because(format!("{place} was called off")).mend("ask again"));
        }
        TurnStatus::Queued | TurnStatus::Running => {
            let mend = format!("it goes on: GET /v1/turns/{id}?wait=60 tells what came of it");
            return Err(Kind::NotYet.because(format!("{place} has not ended yet")).mend(mend));
        }
    }
    let content = match (&turn.interrupt, &turn.output) {
        (Some(it), _) => it.words(),
        (None, Some(it)) => it.reply.clone().unwrap_or_default(),
        (None, None) => String::new(),
    };
    let message = Said { role: "assistant", content, refusal: None };
    Ok(ChatCompletion {
        id: id_of(id),
        object: "chat.completion",
        created: created_at / 1_000_000,
        model: model(&turn.strategy),
        choices: [Choice { index: 0, message, logprobs: None, finish_reason: "stop" }],
        usage: turn.took.map(Usage::from).unwrap_or_default(),
        turnfold: Ours {
            thread_id: thread,
            turn_id: id,
            status: turn.status,
            interrupt: turn.interrupt.clone(),
            took: turn.took,
            spent: turn.spent,
        },
    })
}

impl From<Took> for Usage {
    fn from(it: Took) -> Self {
        let (prompt_tokens, completion_tokens) = (it.input_tokens, it.output_tokens);
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens.saturating_add(completion_tokens),
        }
    }
}
