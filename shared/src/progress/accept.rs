//! Messages that reach a thread from outside: accepted as a turn or as input to a tool, or rejected.

use uuid::Uuid;

use super::{Progress, phase::Phase, status::PendingInput, stop::says_stop};
use crate::{
    client_tools::open_calls,
    elicitation::InvalidAnswer,
    event::{Event, InputProvided, TurnKind, TurnStarted},
    message::{Message, Role},
    status::Policy,
    strategy::Strategy,
};

/// Reason for rejecting a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageRejected {
    /// A turn is under way, or waits for a decision on a call in doubt.
    #[error("the thread is busy")]
    Busy,
    /// The message was sent as an answer, but the thread did not ask anything.
    #[error("nothing was asked, so there is nothing to answer")]
    NothingAsked,
    /// The message is the result of a call of a tool of the client, and no such call is open.
    #[error("no call waits for the result {0:?}")]
    NoOpenCall(String),
    /// A tool waits for input, and the message does not fit its form.
    #[error("the message does not fit the form of the tool that waits for it: {0}")]
    InvalidAnswer(InvalidAnswer),
}

impl<S: Strategy> Progress<S> {
    /// Returns the event that records `messages` now.
    ///
    /// # Errors
    ///
    /// [`MessageRejected`] if the thread cannot take them now.
    pub fn accept_message(
        &self,
        turn: Uuid,
        actor: &str,
        time: &str,
        policy: Policy,
        mut messages: Vec<Message>,
    ) -> Result<Event, MessageRejected> {
        if let (Some(input), Policy::Auto | Policy::Answer) = (self.pending_input(), policy) {
            return provided(&input, turn, actor, &messages);
        }
        let open = open_calls(&self.thread.messages);
        let is_open = |id: &str| open.iter().any(|call| call.id == id);
        if let Some(id) = results(&messages).find(|id| !is_open(id)) {
            return Err(MessageRejected::NoOpenCall(id.to_owned()));
        }
        let kind = self.kind_of(policy, &messages)?;
        if kind == TurnKind::Stop {
            messages.push(self.stop_report(&messages));
        }
        let (actor, time) = (actor.to_owned(), time.to_owned());
        let forgotten_models = Vec::new();
        let (caller, reply_options, toolbox, history_hash, build) = (None, None, None, None, None);
        let started = TurnStarted {
            turn,
            actor,
            time,
            kind,
            messages,
            caller,
            forgotten_models,
            reply_options,
            toolbox,
            history_hash,
            priority: None,
            metadata: None,
            build,
        };
        Ok(started.into())
    }

    /// Returns the kind of the turn that these messages start now.
    fn kind_of(&self, policy: Policy, messages: &[Message]) -> Result<TurnKind, MessageRejected> {
        Ok(match (&self.at, policy) {
            (Phase::AwaitingResponses(..), Policy::Replan) if self.is_awaiting_input() => TurnKind::New,
            (Phase::Ready(_) | Phase::AwaitingResponses(..), _) => return Err(MessageRejected::Busy),
            (Phase::Idle, _) if self.is_cancelled && says_stop(messages) => TurnKind::Stop,
            (Phase::AwaitingAnswer(..), Policy::Auto | Policy::Answer) => TurnKind::Answer,
            (Phase::Idle | Phase::Failed(..), Policy::Answer) => return Err(MessageRejected::NothingAsked),
            (Phase::Idle | Phase::Failed(..), Policy::Auto) | (_, Policy::Replan) => TurnKind::New,
        })
    }
}

/// Returns the event that records the person's last message as input to a tool.
fn provided(
    input: &PendingInput<'_>,
    turn: Uuid,
    actor: &str,
    messages: &[Message],
) -> Result<Event, MessageRejected> {
    let last = messages.iter().rfind(|message| message.role == Role::User);
    let text = last.map_or("", |message| &message.content);
    let response = input.elicitation.read(text).map_err(MessageRejected::InvalidAnswer)?;
    let provided = InputProvided {
        slot: input.slot,
        name: input.name.to_owned(),
        response,
        actor: actor.to_owned(),
        turn,
        caller: None,
        history_hash: None,
        priority: None,
        metadata: None,
        build: None,
    };
    Ok(provided.into())
}

/// Returns the ids of the calls whose results are the first messages.
pub(super) fn results(messages: &[Message]) -> impl Iterator<Item = &str> {
    messages.iter().map_while(|message| message.tool_call_id.as_deref())
}
