//! Start of a turn.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    event::{InterruptKind, TurnKind, TurnStarted},
    progress::{Progress, accept::results, phase::Phase},
    strategy::{Strategy, TurnSoFar},
};

impl<S: Strategy> Progress<S> {
    pub(super) fn fold_turn_started(&mut self, started: &TurnStarted) -> bool {
        if self.toolboxes.lacks(started) {
            return false;
        }
        let resume = match (&self.at, started.kind) {
            (Phase::Idle, TurnKind::Stop) => None,
            (_, TurnKind::Stop) => return false,
            (Phase::AwaitingResponses(..), TurnKind::New) if self.is_awaiting_input() => None,
            (Phase::Ready(_) | Phase::AwaitingResponses(..), _) => return false,
            (Phase::Idle | Phase::Failed(..), TurnKind::Answer) => return false,
            (Phase::AwaitingAnswer(_, place), TurnKind::Answer) => Some(*place),
            (Phase::Idle | Phase::Failed(..) | Phase::AwaitingAnswer(..), TurnKind::New) => None,
        };
        let is_approval =
            matches!(&self.at, Phase::AwaitingAnswer(asked, _) if asked.kind == InterruptKind::Approval);
        self.written_since_approval = (resume.is_some() && is_approval).then(BTreeSet::new);
        self.is_cancelled = false;
        self.abandon_tasks();
        let reason = if matches!(self.at, Phase::Idle) {
            "the client sent no result"
        } else if self.is_awaiting_input() {
            "the input that it required was not provided"
        } else {
            "the turn failed before this call"
        };
        let answered: Vec<&str> = results(&started.messages).collect();
        for missing in self.open_calls(reason) {
            if missing.tool_call_id.as_deref().is_none_or(|id| !answered.contains(&id)) {
                self.say(missing);
            }
        }
        let from = self.thread.messages.len();
        self.mark_turn_start();
        // An answer continues the request, so what it lacked so far is still missing, and what it did is done.
        let TurnSoFar { outcome, mut causes, tool_ran, mut reply_options, .. } = match resume {
            Some(_) => std::mem::take(&mut self.thread.turn),
            None => TurnSoFar::default(),
        };
        if let Some(options) = self.toolboxes.options_of(started) {
            reply_options = Arc::new(options);
        }
        // The turn of the answer has a budget of its own.
        causes.retain(|cause| !cause.is_budget());
        let time = started.time.clone();
        self.thread.turn =
            TurnSoFar { time, from, outcome, causes, tool_ran, reply_options, ..TurnSoFar::default() };
        self.window.begin_turn(from, &started.messages);
        self.offers.begin_turn();
        self.window.limits.forget(&started.forgotten_models);
        started.messages.iter().cloned().for_each(|message| self.say(message));
        self.turn = Some(started.turn);
        if resume.is_none() {
            S::begin_turn(&mut self.thread.state);
            self.writes.clear();
        }
        self.at = match started.kind {
            TurnKind::Stop => Phase::Idle,
            TurnKind::New | TurnKind::Answer => {
                Phase::Ready(resume.unwrap_or_else(|| S::enter(&self.thread)))
            }
        };
        true
    }
}
