//! Tells counters, exporters and followers what an append changed.

use metrics::metrics;
use queue::Notification;
use shared::{DynThread, Event};
use store::{Counted, EndedTurn, Head, ModelResponse, ReadModelUpdate, ThreadId, TurnUpdate};
use tracing::{info, warn};

use crate::{
    asked_models::AskedModels, backends::Backends, log::Log, status::is_in_doubt, turn_end::RunningTurn,
};

/// Events that were appended to a thread.
pub(crate) struct Appended<'a> {
    /// Time of the append. The counts must agree with the log, so it is read before the append.
    pub(crate) at: i64,
    /// Head of the log after them.
    pub(crate) head: Head,
    pub(crate) thread: &'a dyn DynThread,
    /// Their change of the read model.
    pub(crate) update: Option<&'a ReadModelUpdate>,
    /// Last event, if it may have ended a turn.
    pub(crate) last: Option<&'a Event>,
    /// Responses of models among them.
    pub(crate) responses: Vec<ModelResponse>,
    /// Models that the turn has asked. The prompts of a cancelled turn are not counted.
    pub(crate) asked: Option<&'a AskedModels>,
    /// The turn that may have ended, if its log was read.
    pub(crate) running: Option<&'a RunningTurn>,
}

impl Appended<'_> {
    /// Counts the append, and reports the turn that it ended. Returns what followers of the thread are to be told.
    pub(crate) fn announce<L: Log>(self, parts: &Backends<L>) -> Notification {
        let Self { at, head, thread, update, last, responses, asked, running } = self;
        if let Some(update) = update {
            report(head.thread, update, last);
        }
        let ended = update.and_then(|update| update.turn.as_ref()).filter(|turn| turn.status.is_over());
        let (tenant, strategy) = (thread.tenant(), thread.strategy());
        if ended.is_some() || !responses.is_empty() {
            let in_doubt = ended.is_some() && is_in_doubt(thread);
            parts.store.count_recorded(&Counted {
                at,
                thread: head.thread,
                tenant,
                strategy,
                ended,
                in_doubt,
                responses,
                asked: asked
                    .filter(|_| ended.is_some())
                    .into_iter()
                    .flat_map(AskedModels::of_turn)
                    .cloned()
                    .collect(),
                ratings: Vec::new(),
            });
        }
        if let Some(turn) = ended {
            parts.store.turn_ended(EndedTurn { thread: head.thread, turn: turn.turn });
            metrics().turns.ended(tenant, strategy, turn.outcome().unwrap_or(turn.status.as_str()));
        }
        let end = ended.zip(running).zip(last);
        let end = end.and_then(|((turn, running), last)| running.end(turn, &head, thread, last));
        Notification::Appended { seq: head.seq, turn_over: ended.is_some(), end }
    }
}

/// Logs the end of a turn that failed or got no full answer, once, when it has been stored.
pub(crate) fn report(thread: ThreadId, update: &ReadModelUpdate, last: Option<&Event>) {
    let Some(TurnUpdate { turn, error, outcome, .. }) = &update.turn else { return };
    let node = match last {
        Some(Event::Failed(failed)) => failed.node.as_str(),
        Some(Event::Decided(decided)) => decided.node.as_str(),
        Some(_) | None => "",
    };
    if let Some(cause) = error {
        return warn!(%thread, %turn, node, cause, "turn failed");
    }
    let Some(outcome) = outcome.as_ref().filter(|outcome| !outcome.is_answered()) else { return };
    let (kind, cause) = (outcome.kind.name(), outcome.cause());
    if outcome.lacked_server() {
        warn!(%thread, %turn, node, outcome = kind, cause, "turn ended without a full answer");
    } else {
        info!(%thread, %turn, node, outcome = kind, cause, "turn ended without a full answer");
    }
}
