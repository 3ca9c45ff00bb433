//! Approvals of people, from the logs: who approved which payload, shown when, under which key, and what was executed.

use std::collections::BTreeMap;

use queue::clock;
use serde::Serialize;
use serde_json::Value;
use shared::{
    Decided, DynThread, Event, Goto, InterruptKind, ProposedCall, Request, Response, ToolOutput, TurnKind,
    TurnStarted, Verdict,
};
use store::{Recorded, ThreadId, batches::BatchId};
use threads::StrategyRegistry;

/// A question for approval, with its answer and what was executed of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Approval {
    /// Thread of the question.
    pub thread: ThreadId,
    /// Tenant of the thread.
    pub tenant: String,
    /// Strategy of the thread.
    pub strategy: String,
    /// Batch that opened the thread, if any.
    pub batch: Option<BatchId>,
    /// Event that asked.
    pub event: u64,
    /// Time at which the question was shown (RFC 3339, UTC).
    pub shown_at: String,
    /// The question, as it was shown.
    pub question: String,
    /// True if a fork copied the question: the person answered the original.
    pub copied: bool,
    /// The answer of a person. Absent while the question is open, and if another request displaced it.
    pub answer: Option<Answer>,
    /// The calls that the question proposed.
    pub calls: Vec<Call>,
}

/// Answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Event of the answer.
    pub event: u64,
    /// Time of the answer (RFC 3339, UTC).
    pub at: String,
    /// Person, as the client claims.
    pub person: String,
    /// Id of the API key that sent the answer. Absent if the API required none.
    pub key: Option<String>,
    /// Name of the key, or subject of the token.
    pub subject: Option<String>,
    /// Text of the answer.
    pub text: String,
    /// True if the answer approved the calls.
    pub approved: bool,
}

/// A proposed call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// Server of the tool.
    pub server: String,
    /// Name of the tool.
    pub tool: String,
    /// Arguments, as they were shown. Absent if they were to be filled in later.
    pub arguments: Option<Value>,
    /// Executions of the call, in order. More than one if it was made again.
    pub executions: Vec<Execution>,
}

/// One execution of an approved call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Execution {
    /// Event that requested the call.
    pub event: u64,
    /// Arguments, as they were sent.
    pub arguments: Value,
    /// Time at which it was last sent (RFC 3339, UTC). Absent if it was not, or is a read.
    pub attempted_at: Option<String>,
    /// Time at which it ended (RFC 3339, UTC). Absent while it is open.
    pub ended_at: Option<String>,
    /// Kind of its end.
    pub ending: Ending,
    /// Result, error or reason.
    pub result: String,
}

/// End of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It has not ended.
    Open,
    /// It was made.
    Made,
    /// Its tool reported an error.
    Failed,
    /// It was not made.
    NotMade,
    /// Its answer was lost; it may have been made.
    InDoubt,
}

impl Ending {
    /// Returns the name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Ending::Open => "open",
            Ending::Made => "made",
            Ending::Failed => "failed",
            Ending::NotMade => "not_made",
            Ending::InDoubt => "in_doubt",
        }
    }
}

/// Reads the approvals of one log, event by event.
pub struct ApprovalReader {
    thread: ThreadId,
    fold: Box<dyn DynThread>,
    approvals: Vec<Approval>,
    /// Executions of the last requests, by slot: indexes of the approval, the call and the execution.
    open: BTreeMap<usize, [usize; 3]>,
}

impl ApprovalReader {
    /// Begins with the first event of a log, which is then read like the others. Returns the reason if the log cannot be folded.
    pub fn begin(strategies: &StrategyRegistry, thread: ThreadId, first: &Event) -> Result<Self, String> {
        let Event::Opened(opened) = first else {
            return Err("the log does not begin with the event `opened`".to_owned());
        };
        let graph = strategies.find(&opened.strategy);
        let graph = graph.ok_or_else(|| format!("this build has no strategy {:?}", opened.strategy))?;
        Ok(Self { thread, fold: graph.begin(), approvals: Vec::new(), open: BTreeMap::new() })
    }

    /// Reads the next event. Returns the reason if it does not fit the log.
    pub fn read(&mut self, recorded: &Recorded) -> Result<(), String> {
        let Recorded { seq, at, event } = recorded;
        self.fold.apply(event).map_err(|error| format!("event {seq}: {error}"))?;
        if let Event::Decided(decided) = event {
            self.decided(*seq, *at, decided);
        } else if let Event::TurnStarted(started) = event {
            self.answer(*seq, *at, started);
        } else if let Event::Asked(asked) = event {
            self.open.clear();
            for (slot, request) in asked.requests.iter().enumerate() {
                if let Request::CallTool { server, call } = request {
                    self.request(*seq, slot, server, &call.name, &call.arguments);
                }
            }
        } else if let Event::Forked(_) = event {
            self.approvals.iter_mut().for_each(|approval| approval.copied = true);
        } else {
            self.progress(*at, event);
        }
        Ok(())
    }

    fn decided(&mut self, seq: u64, at: i64, decided: &Decided) {
        let approves = |fact: &Value| fact.get("approved").is_some();
        if decided.facts.iter().any(approves)
            && let Some(answer) = self.approvals.last_mut().and_then(|asked| asked.answer.as_mut())
        {
            answer.approved = true;
        }
        if let Goto::Interrupt(asked) = &decided.to
            && asked.kind == InterruptKind::Approval
        {
            self.ask(seq, at, &asked.question);
        }
    }

    /// Returns the approvals of the log, in order.
    pub fn end(self) -> Vec<Approval> {
        self.approvals
    }

    fn ask(&mut self, event: u64, at: i64, question: &str) {
        let call = |ProposedCall { server, tool, arguments, .. }: ProposedCall| Call {
            server,
            tool,
            arguments: arguments.map(Value::Object),
            executions: Vec::new(),
        };
        self.approvals.push(Approval {
            thread: self.thread,
            tenant: self.fold.tenant().to_owned(),
            strategy: self.fold.strategy().to_owned(),
            batch: None,
            event,
            shown_at: clock::rfc3339(at),
            question: question.to_owned(),
            copied: false,
            answer: None,
            calls: self.fold.proposed_calls().into_iter().map(call).collect(),
        });
    }

    fn answer(&mut self, event: u64, at: i64, started: &TurnStarted) {
        if started.kind != TurnKind::Answer {
            return;
        }
        // The question is the last event before its answer, apart from turns that never were.
        let Some(asked) = self.approvals.last_mut().filter(|asked| asked.answer.is_none()) else { return };
        let caller = started.caller.clone().unwrap_or_default();
        asked.answer = Some(Answer {
            event,
            at: clock::rfc3339(at),
            person: started.actor.clone(),
            key: caller.key,
            subject: caller.subject,
            text: started.messages.last().map(|message| message.content.clone()).unwrap_or_default(),
            approved: false,
        });
    }

    /// Notes a request, if it is a call that a person was shown: the last question about it counts.
    fn request(&mut self, event: u64, slot: usize, server: &str, tool: &str, arguments: &Value) {
        let is_it = |call: &Call| {
            call.server == server
                && call.tool == tool
                && call.arguments.as_ref().is_none_or(|shown| shown == arguments)
        };
        for (nth, asked) in self.approvals.iter_mut().enumerate().rev() {
            let Some(answer) = &mut asked.answer else { continue };
            let Some(at) = asked.calls.iter().position(is_it) else { continue };
            answer.approved = true;
            let executions = &mut asked.calls[at].executions;
            self.open.insert(slot, [nth, at, executions.len()]);
            executions.push(Execution {
                event,
                arguments: arguments.clone(),
                attempted_at: None,
                ended_at: None,
                ending: Ending::Open,
                result: String::new(),
            });
            return;
        }
    }

    fn progress(&mut self, at: i64, event: &Event) {
        let Some([approval, call, nth]) = event.slot().and_then(|slot| self.open.get(&slot).copied()) else {
            return;
        };
        let execution = &mut self.approvals[approval].calls[call].executions[nth];
        if let Event::Attempted(_) = event {
            execution.attempted_at = Some(clock::rfc3339(at));
        } else if let Some((ending, result)) = ending_of(event) {
            execution.ended_at = Some(clock::rfc3339(at));
            (execution.ending, execution.result) = (ending, result.to_owned());
        }
    }
}

/// Returns the end of a call that the event reports, and its text.
fn ending_of(event: &Event) -> Option<(Ending, &str)> {
    if let Event::Answered(answered) = event {
        let Response::Output(output) = &answered.response else { return Some((Ending::Made, "")) };
        return Some(match output {
            ToolOutput::Ok(text) => (Ending::Made, text),
            ToolOutput::Error(text) => (Ending::Failed, text),
            ToolOutput::Refused(text) => (Ending::NotMade, text),
        });
    }
    if let Event::AttemptFailed(failed) = event {
        return failed.retry_after_ms.is_none().then_some((Ending::NotMade, &failed.error));
    }
    if let Event::Abandoned(abandoned) = event {
        return Some((Ending::NotMade, &abandoned.reason));
    }
    if let Event::InDoubt(doubt) = event {
        return Some((Ending::InDoubt, &doubt.reason));
    }
    let Event::Reconciled(reconciled) = event else { return None };
    Some(match &reconciled.verdict {
        Verdict::Happened { result } => (Ending::Made, result),
        Verdict::DidNotHappen => (Ending::NotMade, "it did not happen"),
        Verdict::Skip => (Ending::InDoubt, "skipped"),
    })
}
