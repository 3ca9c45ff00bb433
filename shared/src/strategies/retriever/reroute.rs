//! What follows when the chosen server does not do it: another one, as long as the budget lasts.

use crate::{
    Transition,
    strategies::retriever::{Ending, Fact, NodeName, Refusal, Retriever},
    strategy::Thread,
};

/// On to another server, or to an honest end.
///
/// **Invariant:** a server that refused is not chosen again in the same turn, so two servers that send a matter to
/// each other come to an end.
pub(super) fn reroute(thread: &Thread<Retriever>, reason: impl Into<String>) -> Transition<Retriever> {
    let server = thread.state.at();
    let refused = Fact::Refused(Refusal { server: server.to_owned(), reason: reason.into() });
    let left = thread.experts.keys().any(|it| it != server && !thread.state.has_refused(it));
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
