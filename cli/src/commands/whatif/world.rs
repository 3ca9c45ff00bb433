//! The world of a what-if run: models are asked, tools answer from the record, and nothing is written.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use audit::{
    judge::{Choice, Grade, Judge as JudgeStrategy},
    whatif::{ToolAnswer, ToolAnswers},
};
use queue::rate_limits::{Demand, Subject};
use shared::{DynThread, Fault, Reply, Request, Response, Safety, Strategy as _, Usage};
use store::{CancelRequest, LearnedModel, ThreadId};
use threads::{Backends, StrategyRegistry, obey_cancel_request};
use tokio_util::sync::CancellationToken;
use world::{LiveWorld, Outcome, Redactor, RequestContext, World};

use crate::{
    args::ToolPolicy,
    commands::judge::{By, Judge, Program, ask_program},
};

/// Node of a judge that grades one answer.
const GRADE: &str = "grade";

/// Beginning of the actor of a `cancelled` event by which a run gives a thread up. The reason follows.
pub(super) const GAVE_UP: &str = "what-if: ";

/// The world of a what-if run.
///
/// **Invariant:** no request that may change something leaves this process, whatever the policy.
pub(super) struct RunWorld {
    live: Arc<LiveWorld>,
    parts: Backends,
    strategies: StrategyRegistry,
    rules: Rules,
    records: Mutex<BTreeMap<ThreadId, Record>>,
    /// Cost of the run so far, in millionths of a US dollar.
    spent: AtomicU64,
    /// Cancelled once the budget is spent.
    pub(super) over_budget: CancellationToken,
}

/// Rules of a run.
pub(super) struct Rules {
    pub(super) tools: ToolPolicy,
    /// Maximum cost, in millionths of a US dollar.
    pub(super) budget: Option<u64>,
    /// The judge that the command names.
    pub(super) judge: Option<Judge>,
    /// Removes secrets from what a program prints.
    pub(super) redactor: Redactor,
}

/// Answers of the recorded thread, and those that the run has used.
struct Record {
    answers: ToolAnswers,
    used: BTreeMap<String, usize>,
    /// Answers before the run of this process.
    before: ToolAnswers,
}

impl RunWorld {
    pub(super) fn new(
        live: Arc<LiveWorld>,
        parts: Backends,
        strategies: StrategyRegistry,
        rules: Rules,
    ) -> Self {
        Self {
            live,
            parts,
            strategies,
            rules,
            records: Mutex::default(),
            spent: AtomicU64::new(0),
            over_budget: CancellationToken::new(),
        }
    }

    /// Adds a thread with the answers of its record, and those that its own log has already. One that is known stays as it is.
    pub(super) fn add(&self, thread: ThreadId, answers: ToolAnswers, before: ToolAnswers) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.entry(thread).or_insert_with(|| Record { answers, used: BTreeMap::new(), before });
    }

    /// Removes a thread that came to its end.
    pub(super) fn remove(&self, thread: ThreadId) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).remove(&thread);
    }

    /// Counts a cost in millionths of a US dollar.
    pub(super) fn spend(&self, micro_usd: u64) {
        let before = self.spent.fetch_add(micro_usd, Ordering::Relaxed);
        if self.rules.budget.is_some_and(|budget| budget <= before.saturating_add(micro_usd)) {
            self.over_budget.cancel();
        }
    }

    /// Cost of the run so far, in millionths of a US dollar.
    pub(super) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    async fn ask_model(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let outcome = self.live.perform(thread, ask).await;
        let usage: Option<&Usage> = match &outcome {
            Ok((_, usage)) => usage.as_ref(),
            Err(fault) => fault.usage.as_deref(),
        };
        self.spend(usage.and_then(|usage| usage.micro_usd).unwrap_or_default());
        outcome
    }

    /// Asks the judge of this command. A question to another one, which an earlier command left, fails: a command that names that
    /// judge asks it again.
    ///
    /// ## Why it does not wait
    ///
    /// A model that takes no request is paused for all threads of the run, and both judges may use the same one.
    async fn ask_judge(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let config = thread.config().map_err(|error| Fault::permanent(error.to_string()))?;
        let judge = self.rules.judge.as_ref().filter(|judge| judge.is_asked_by(&config));
        match judge.map(|judge| &judge.by) {
            Some(By::Model { .. }) => self.ask_model(thread, ask).await,
            Some(By::Program(program)) => self.ask_program(thread, ask.node, program).await,
            None => Err(Fault::permanent("this run has another judge")),
        }
    }

    async fn ask_program(&self, thread: &dyn DynThread, node: &str, program: &Program) -> Outcome {
        let question = thread.messages().first().map_or("", |message| &message.content);
        let printed = match node == GRADE {
            true => ask_program::<Grade>(program, question).await,
            false => ask_program::<Choice>(program, question).await,
        };
        let reply = |content| Response::Reply(Reply { content, ..Reply::default() });
        let free = Usage { micro_usd: Some(0), ..Usage::default() };
        let outcome = printed.map(|text| (reply(text), Some(free))).map_err(Fault::permanent);
        self.rules.redactor.outcome(outcome)
    }

    /// Returns the next recorded answer to the request.
    fn recorded(&self, thread: ThreadId, key: &str) -> Option<ToolAnswer> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let Record { answers, used, before } = records.get_mut(&thread)?;
        let nth = used.entry(key.to_owned()).or_default();
        let answer = answers.after(key, before.count(key) + *nth)?.clone();
        *nth += 1;
        Some(answer)
    }

    /// Returns true if the request may be sent: it is known to change nothing, and the policy allows it.
    fn may_send(&self, ask: &RequestContext<'_>) -> bool {
        let changes_index = matches!(ask.due.request, Request::Index { .. });
        self.rules.tools == ToolPolicy::LiveReads && ask.due.safety == Safety::Read && !changes_index
    }

    /// Ends the turn, because the run cannot know how it goes on.
    async fn give_up(&self, thread: &dyn DynThread, ask: &RequestContext<'_>, why: String) -> Outcome {
        if let Some(turn) = thread.turn() {
            let actor = format!("{GAVE_UP}{why}");
            let request = CancelRequest { thread: ask.thread, turn, actor, caller: None, rolled_back: false };
            if let Err(error) = obey_cancel_request(&self.parts, &self.strategies, &request).await {
                return Err(Fault::transient(format!("cannot end the turn: {error}")));
            }
        }
        Err(Fault::permanent(why))
    }
}

#[async_trait]
impl World for RunWorld {
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let request = &ask.due.request;
        if let Request::Chat { .. } = request {
            return match thread.strategy() == JudgeStrategy::NAME {
                true => self.ask_judge(thread, ask).await,
                false => self.ask_model(thread, ask).await,
            };
        }
        let Some(key) = ToolAnswers::key(request) else { return self.live.perform(thread, ask).await };
        if ask.due.is_read_back {
            return Err(Fault::permanent("a what-if run reads nothing back"));
        }
        let is_withheld =
            self.rules.tools == ToolPolicy::Never && matches!(request, Request::CallTool { .. });
        if is_withheld {
            return self.give_up(thread, ask, format!("calls {}", named(request))).await;
        }
        match self.recorded(ask.thread, &key) {
            Some(Ok(response)) => Ok((response, None)),
            Some(Err(reason)) => Err(Fault::permanent(reason)),
            None if self.may_send(ask) => self.live.perform(thread, ask).await,
            None => self.give_up(thread, ask, unanswered(ask)).await,
        }
    }

    fn forget_model(&self, model: &str) {
        self.live.forget_model(model);
    }

    fn learned_models(&self) -> Vec<LearnedModel> {
        self.live.learned_models()
    }

    fn demands(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Vec<Demand> {
        self.live.demands(thread, ask)
    }

    fn subject(&self, request: &Request) -> Option<Subject> {
        self.live.subject(request)
    }
}

/// Reason why a thread is given up at a request that the record does not answer.
fn unanswered(ask: &RequestContext<'_>) -> String {
    let kind = match ask.due.safety {
        Safety::Read => "",
        Safety::Idempotent | Safety::Write => ", a write",
    };
    format!("needs {}{kind}: the record has no answer to this request", named(&ask.due.request))
}

/// Names the target of a request, without its arguments.
fn named(request: &Request) -> String {
    match request {
        Request::CallTool { server, call } => format!("{server}.{}", call.name),
        Request::ListTools { server } => format!("the tools of {server}"),
        Request::ListPrompts { server } => format!("the prompts of {server}"),
        Request::GetPrompt { server, name, .. } => format!("the prompt {name} of {server}"),
        Request::Describe { server } => format!("the description of {server}"),
        Request::Search { .. } => "a search of the index".to_owned(),
        Request::Index { .. } => "an update of the index".to_owned(),
        Request::Chat { .. } | Request::ReadMore { .. } | Request::Simulate(_) => request.to_string(),
    }
}
