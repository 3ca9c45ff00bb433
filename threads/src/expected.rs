//! The rows that a thread and its turns must have, by the log.

use std::collections::BTreeMap;

use queue::clock;
use serde_json::Value;
use shared::{
    DEFAULT_TENANT, DynThread, Event, InputResponse, Message, Policy, Toolboxes, TurnKind, UsageTotal,
};
use shared::{ThreadStatus, TurnStatus};
use store::{Counted, Error, ExpectedThread, ExpectedTurn, Head, Recorded, Tally, ThreadId, plain};

use crate::{
    asked_models::AskedModels,
    registry::{StrategyRegistry, begin},
    status::{Status, is_in_doubt, status},
};

/// Returns the expected rows, and counts of the turns that ended and of the responses of models, without those that a fork
/// copied. The events are in order.
pub(crate) fn expected_rows(
    strategies: &StrategyRegistry,
    head: Head,
    recorded: &[Recorded],
) -> Result<(ExpectedThread, Tally), Error> {
    let mut rows = ExpectedRows::begin(strategies, head.thread, recorded.first())?;
    for stored in recorded {
        rows.add(stored)?;
    }
    Ok(rows.end(head))
}

/// The rows that a log demands so far.
pub(crate) struct ExpectedRows {
    thread: Box<dyn DynThread>,
    tenant: String,
    rows: ExpectedThread,
    tally: Tally,
    said: Status,
    asked: AskedModels,
    toolboxes: Toolboxes,
}

impl ExpectedRows {
    /// Begins with the first event of a log, which is then added like the others.
    pub(crate) fn begin(
        strategies: &StrategyRegistry,
        id: ThreadId,
        first: Option<&Recorded>,
    ) -> Result<Self, Error> {
        let thread = begin(strategies, id, first.map(|first| &first.event))?;
        let opened_at = first.map(|first| first.at).unwrap_or_default();
        let tenant = match first.map(|first| &first.event) {
            Some(Event::Opened(opened)) => opened.tenant.clone(),
            Some(_) | None => DEFAULT_TENANT.to_owned(),
        };
        let rows = ExpectedThread {
            head: Head::start(id),
            strategy: plain(thread.strategy()),
            tenant: plain(&tenant),
            status: ThreadStatus::Idle,
            created_at: opened_at,
            updated_at: opened_at,
            turns: BTreeMap::new(),
        };
        let (said, asked, toolboxes) = (Status::START, AskedModels::default(), Toolboxes::default());
        Ok(Self { thread, tenant, rows, tally: Tally::default(), said, asked, toolboxes })
    }

    /// Adds the next event.
    pub(crate) fn add(&mut self, stored: &Recorded) -> Result<(), Error> {
        let Self { thread, tenant, rows, tally, said, asked, toolboxes } = self;
        let id = rows.head.thread;
        thread.apply(&stored.event).map_err(|error| Error::Stuck { thread: id, what: error.to_string() })?;
        let is_fork = matches!(stored.event, Event::Forked(_));
        if is_fork {
            *tally = Tally::default();
        }
        let mut counted = Counted {
            at: stored.at,
            thread: id,
            tenant,
            strategy: thread.strategy(),
            ended: None,
            in_doubt: false,
            responses: Vec::new(),
            asked: Vec::new(),
            ratings: Vec::new(),
        };
        counted.responses.extend(asked.read(&stored.event));
        if let Some(turn) = stored.event.turn_started() {
            rows.turns.insert(turn, started(stored, toolboxes));
        }
        let now = status(&**thread);
        // A fork retries failed work but leaves an idle thread unchanged, and does not record whether its last turn was
        // cancelled.
        let rests = is_fork && now.thread == ThreadStatus::Idle;
        if now == *said || rests {
            tally.add(&counted);
            return Ok(());
        }
        counted.ended = now.turn.as_ref().filter(|_| !is_fork);
        counted.in_doubt = is_in_doubt(&**thread);
        tally.add(&counted);
        if let Some(mark) = &now.turn
            && let Some(turn) = rows.turns.get_mut(&mark.turn)
        {
            turn.status = mark.status;
            turn.error = mark.error.as_deref().map(plain);
            turn.outcome.clone_from(&mark.outcome);
            turn.ended_seq = mark.status.is_over().then_some(stored.seq);
            turn.updated_at = stored.at;
            turn.usage = *thread.usage();
            turn.reply = thread.reply().map(str::to_owned);
            turn.was_retried |= matches!(stored.event, Event::Retried(_));
        }
        (rows.status, rows.updated_at) = (now.thread, stored.at);
        *said = now;
        Ok(())
    }

    /// Returns the rows of a log that ends with this head, and the counts.
    pub(crate) fn end(self, head: Head) -> (ExpectedThread, Tally) {
        (ExpectedThread { head, ..self.rows }, self.tally)
    }
}

/// Builds the turn that starts with this event. The log does not record the idempotency key. The input mode is irrelevant once the
/// turn has started.
fn started(recorded: &Recorded, toolboxes: &mut Toolboxes) -> ExpectedTurn {
    let mut turn = ExpectedTurn {
        status: TurnStatus::Running,
        started_seq: recorded.seq,
        ended_seq: None,
        error: None,
        outcome: None,
        policy: Policy::Auto,
        messages: Vec::new(),
        author: String::new(),
        caller: None,
        history_hash: None,
        priority: None,
        metadata: None,
        reply_options: None,
        usage: UsageTotal::default(),
        reply: None,
        was_retried: false,
        is_as_submitted: false,
        created_at: recorded.at,
        updated_at: recorded.at,
    };
    if let Event::TurnStarted(begun) = &recorded.event {
        turn.messages = begun.messages.clone();
        turn.history_hash.clone_from(&begun.history_hash);
        turn.metadata.clone_from(&begun.metadata);
        turn.priority = begun.priority;
        (turn.author, turn.caller) = (plain(&begun.actor), begun.caller.clone());
        turn.reply_options = toolboxes.options_of(begun);
        let submitted = clock::parse_rfc3339(&begun.time);
        (turn.created_at, turn.is_as_submitted) = (submitted.unwrap_or(recorded.at), submitted.is_some());
        turn.policy = match begun.kind {
            TurnKind::New | TurnKind::Stop => Policy::Auto,
            TurnKind::Answer => Policy::Answer,
        };
        if begun.kind == TurnKind::Stop {
            // The last message is the report.
            turn.messages.pop();
        }
    }
    if let Event::InputProvided(provided) = &recorded.event {
        turn.messages = vec![Message::user(words(&provided.response))];
        (turn.author, turn.caller) = (plain(&provided.actor), provided.caller.clone());
        turn.history_hash.clone_from(&provided.history_hash);
        turn.metadata.clone_from(&provided.metadata);
        turn.priority = provided.priority;
        turn.policy = Policy::Answer;
    }
    turn
}

/// Formats this answer as a message. The original wording is not in the log.
fn words(answer: &InputResponse) -> String {
    match answer {
        InputResponse::Accept(Value::Null) => "done".to_owned(),
        InputResponse::Accept(fields) => fields.to_string(),
        InputResponse::Decline => "decline".to_owned(),
        InputResponse::Cancel => "cancel".to_owned(),
    }
}
