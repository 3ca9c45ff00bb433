//! Continues after the chosen server refused: with another server while the budget lasts, otherwise to the end.

use crate::retriever::{Ending, Fact, NodeName, Refusal, Retriever};
use shared::{Thread, Transition};

/// Moves on from a server that handed over, or ends the turn with the reason.
pub(super) fn hand_over(thread: &Thread<Retriever>, reason: String) -> Transition<Retriever> {
    reroute(thread, Refusal { server: thread.state.at().to_owned(), reason, unreachable: false })
}

/// Moves on from a server that cannot be reached, or ends the turn with the reason.
pub(super) fn unreachable(thread: &Thread<Retriever>, reason: String) -> Transition<Retriever> {
    reroute(thread, Refusal { server: thread.state.at().to_owned(), reason, unreachable: true })
}

/// **Invariant:** a server that refused is chosen again only after another server has worked, and the number of changes
/// is limited, so servers that refer to each other cannot loop.
fn reroute(thread: &Thread<Retriever>, refusal: Refusal) -> Transition<Retriever> {
    let left =
        thread.servers.keys().any(|server| *server != refusal.server && !thread.state.is_excluded(server));
    let refused = Fact::Refused(refusal);
    let limit = thread.config.reroutes;
    let (why, cause) = if limit <= thread.state.refused.len() {
        (format!("the limit of {limit} reroutes for a turn is reached"), "reroutes")
    } else if !left {
        ("no other server is left".to_owned(), "no server left")
    } else {
        return Transition::to(NodeName::RoutingQuery).learn(refused);
    };
    let next = Transition::to(NodeName::Respond).learn(refused).learn(Fact::Ended(Ending::Refused));
    next.because(why).declined(cause)
}
