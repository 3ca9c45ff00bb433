//! Continues after the chosen server refused: with another server while the budget lasts, otherwise to the end.

use crate::{
    Transition,
    strategies::retriever::{Ending, Fact, NodeName, Refusal, Retriever},
    strategy::Thread,
};

/// Moves on to another server, or ends the turn with the reason.
///
/// **Invariant:** a server that refused is not chosen again in the same turn, so two servers that refer to each other
/// cannot loop.
pub(super) fn reroute(thread: &Thread<Retriever>, reason: impl Into<String>) -> Transition<Retriever> {
    let server = thread.state.at();
    let refused = Fact::Refused(Refusal { server: server.to_owned(), reason: reason.into() });
    let left = thread.servers.keys().any(|it| it != server && !thread.state.has_refused(it));
    let limit = thread.config.reroutes;
    let why = if limit <= thread.state.refused.len() {
        format!("the limit of {limit} reroutes for a turn is reached")
    } else if !left {
        "no other server is left".to_owned()
    } else {
        return Transition::to(NodeName::RoutingQuery).learn(refused);
    };
    Transition::to(NodeName::Respond).learn(refused).learn(Fact::Ended(Ending::Refused)).because(why)
}
