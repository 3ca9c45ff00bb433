//! Splits the request into ordered tasks for experts.

use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Extract, InterruptKind, Node, Question, Thread, Transition};

use crate::{
    planner::{self, Ending, Fact, NOT_DONE, NodeName, Planning, Progress, Task},
    prompt::fill,
};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/plan.md");

pub(crate) struct Plan;

/// What the model proposes.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct PlanReply {
    /// Whether the plan in force goes on or a new one takes its place.
    decision: Decision,
    /// The tasks of a new plan, in order; empty if no expert is suited.
    #[serde(default)]
    plan: Vec<PlannedTask>,
    /// Index of the task to work on next, counted from 0.
    #[serde(default)]
    next_task: i64,
    /// Reason for skipping the unfinished tasks before `next_task`; null if there are none.
    #[serde(default)]
    skip_reason: Option<String>,
    /// A question to the person, if the request cannot be planned without an answer.
    #[serde(default)]
    clarification: Option<String>,
}

/// Something for one expert to do.
#[derive(Deserialize, JsonSchema)]
struct PlannedTask {
    /// The name of the expert.
    expert: String,
    /// Task for the expert, complete in itself.
    task: String,
    /// The indexes of the earlier tasks whose results it needs; empty if it needs none.
    #[serde(default)]
    depends_on: Vec<usize>,
    #[serde(default = "needs_answer")]
    needs_answer: bool,
}

/// A task waits for the answer unless the model says otherwise.
fn needs_answer() -> bool {
    true
}

impl From<PlannedTask> for Task {
    fn from(PlannedTask { expert, task, depends_on, needs_answer }: PlannedTask) -> Self {
        Self { expert, task, depends_on, needs_answer, progress: Progress::Open }
    }
}

#[derive(Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Decision {
    /// The plan in force goes on.
    Continue,
    /// A new one takes its place.
    Replace,
    /// The person wants none of it any more, and nothing else instead.
    Drop,
}

impl<S: Planning> Node<S> for Plan {
    type Effect = Extract<PlanReply>;

    fn ask(&self, thread: &Thread<S>) -> Self::Effect {
        let experts: Vec<String> =
            thread.servers.iter().map(|(name, what)| format!("- {name}: {what}")).collect();
        let state = S::planned(thread);
        let plan = state.plan.as_ref().map_or("none".to_owned(), |plan| list(plan, NOT_DONE));
        let problem = state
            .problem
            .as_ref()
            .map_or(String::new(), |problem| format!("Your last plan was refused: {problem}"));
        let blanks = [
            ("experts", &*experts.join("\n")),
            ("plan", &plan),
            ("problem", &problem),
            ("time", &thread.turn.time),
        ];
        Extract::new(&S::settings(thread).model, fill(PROMPT, &blanks), thread.all())
    }

    fn learn(&self, thread: &Thread<S>, reply: PlanReply) -> Transition<S> {
        let question = reply.clarification.filter(|question| !question.trim().is_empty());
        let can_begin = reply.decision != Decision::Drop && reply.plan.iter().any(|task| !task.needs_answer);
        let question = match question {
            Some(question) if !can_begin => {
                return Transition::ask(
                    Question::open(InterruptKind::Clarification, question),
                    NodeName::Plan,
                );
            }
            question => question,
        };
        if reply.decision == Decision::Drop {
            let why = "the person no longer wants it";
            return Transition::to(NodeName::Respond)
                .learn(Fact::Ended(Ending::Dropped))
                .because(why)
                .declined("person declined");
        }
        let state = S::planned(thread);
        let (mut tasks, first) = match (&reply.decision, &state.plan) {
            (Decision::Continue, Some(stored)) => (stored.tasks.clone(), stored.first_unfinished()),
            (Decision::Continue, None) | (Decision::Replace | Decision::Drop, _) => {
                (reply.plan.into_iter().map(Task::from).collect(), 0)
            }
        };
        if question.is_none() {
            tasks.iter_mut().for_each(|task| task.needs_answer = false);
        }
        if tasks.is_empty() {
            return Transition::to(NodeName::Respond)
                .learn(Fact::Ended(Ending::Unsuited))
                .because("no expert is suited to the request")
                .declined("no expert fits");
        }
        if let Some(problem) = unknown_expert(thread, &tasks) {
            if state.problem.is_none() {
                return Transition::to(NodeName::Plan).learn(Fact::Misplanned { problem });
            }
            let ended = Fact::Ended(Ending::Stuck { reason: problem });
            return Transition::to(NodeName::Respond).learn(ended).declined("no valid plan");
        }
        let (mut current, mut why) = position(&mut tasks, first, reply.next_task, reply.skip_reason);
        let mut next = planner::Plan::next(&tasks, current, S::side_by_side(thread));
        if let Some(question) = &question {
            next = planner::Plan::next(&tasks, 0, S::side_by_side(thread));
            let Some(first) = next.first() else {
                let question = Question::open(InterruptKind::Clarification, question);
                return Transition::ask(question, NodeName::Plan);
            };
            current = *first;
            why = Some("tasks that need no answer are done before the question is asked".to_owned());
        }
        let beside = next.into_iter().skip(1).collect();
        let since = thread.messages.len();
        let plan = planner::Plan { tasks, current, since, rounds: 0, beside, calls: Vec::new(), question };
        let next = Transition::to(S::begins()).learn(Fact::Planned(plan));
        if let Some(why) = why { next.because(why) } else { next }
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Returns the index of the task to work on, and the reason if it is not simply the one that the model named. Marks the
/// tasks from there on as open, and those that it leaves out as skipped.
///
/// **Invariant:** an unfinished task is left out only with a reason. `first` is the first unfinished task.
fn position(tasks: &mut [Task], first: usize, named: i64, reason: Option<String>) -> (usize, Option<String>) {
    let reason = reason.map(|reason| reason.trim().to_owned()).filter(|text| !text.is_empty());
    let within = usize::try_from(named).ok().filter(|index| *index < tasks.len());
    let (current, why) = match (within, reason) {
        (None, _) => (first, Some(format!("task {named} is outside of the plan; corrected to {first}"))),
        (Some(named), Some(reason)) if first < named => {
            let skipped = tasks[first..named].iter_mut().filter(|task| !task.progress.is_over());
            skipped.for_each(|task| task.progress = Progress::Skipped { why: reason.clone() });
            (named, Some(format!("begins with task {named}: {reason}")))
        }
        (Some(named), None) if first < named => {
            let why =
                format!("task {named} would skip unfinished tasks without a reason; corrected to {first}");
            (first, Some(why))
        }
        (Some(named), _) => (named, None),
    };
    let again = |task: &&mut Task| current < first || !task.progress.is_over();
    tasks[current..].iter_mut().filter(again).for_each(|task| task.progress = Progress::Open);
    tasks[current].progress = Progress::Open;
    (current, why)
}

/// Lists the tasks with their progress, for a model or a person. `current` is the mark of the current task if it is open.
pub(in crate::planner) fn list(plan: &planner::Plan, current: &str) -> String {
    let line = |(n, task): (usize, &Task)| {
        let mark = match &task.progress {
            Progress::Done => "done".to_owned(),
            Progress::Skipped { why } => format!("skipped: {why}"),
            Progress::Failed { why } => format!("failed: {why}"),
            Progress::Open if n == plan.current || plan.beside.contains(&n) => current.to_owned(),
            Progress::Open => "not tried".to_owned(),
        };
        format!("{n}. [{mark}] {}: {}", task.expert, task.task)
    };
    plan.tasks.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

fn unknown_expert<S: Planning>(thread: &Thread<S>, tasks: &[Task]) -> Option<String> {
    let unknown = tasks.iter().find(|task| !thread.servers.contains_key(&task.expert))?;
    let known: Vec<&str> = thread.servers.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Some(format!("there is no expert called {:?}; the experts are: {known}", unknown.expert))
}
