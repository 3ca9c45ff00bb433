//! Ids of responses and of their messages. Both contain the id of the turn.

use store::TurnId;
use uuid::Uuid;

use crate::server::problem::{ApiError, Kind};

const RESPONSE: &str = "resp_";
const MESSAGE: &str = "msg_";

/// Formats the id of a response.
pub(super) fn response_name(turn: TurnId) -> String {
    format!("{RESPONSE}{}", turn.simple())
}

/// Formats the id of the message of a response.
pub(super) fn message_name(turn: TurnId) -> String {
    format!("{MESSAGE}{}", turn.simple())
}

/// Parses the id of a response. The id of a turn is one as well.
///
/// # Errors
///
/// [`Kind::UnknownTurn`] if it is the id of something else.
pub(super) fn response_turn(name: &str) -> Result<TurnId, ApiError> {
    let id = name.strip_prefix(RESPONSE).or_else(|| name.strip_prefix("chatcmpl-")).unwrap_or(name);
    let unknown = || {
        Kind::UnknownTurn
            .because(format!("response {name:?} does not exist"))
            .hint("the id of a response begins with resp_")
    };
    Uuid::try_parse(id).map_err(|_| unknown())
}

/// Returns the turn of the message of a response; none for the id of another item.
pub(super) fn message_turn(name: &str) -> Option<TurnId> {
    name.strip_prefix(MESSAGE).and_then(|id| Uuid::try_parse(id).ok())
}
