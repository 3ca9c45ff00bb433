//! The first exchange with a server: which protocol it speaks.
//!
//! ## Why not rmcp's own
//!
//! rmcp asks a server the older way ten seconds after the newest, and then takes a late answer to the first question
//! for a wrong answer to the second: a server that needs longer to start can never be connected.

use std::time::Duration;

use rmcp::{
    ClientHandler,
    model::{
        ClientJsonRpcMessage, ClientRequest, DiscoverRequest, DiscoverRequestParams, GetExtensions as _,
        ProtocolVersion, RequestId, RequestMetaObject, ServerJsonRpcMessage, ServerResult,
    },
    service::ClientLifecycleMode,
    transport::Transport as _,
};
use serde::{Deserialize, Serialize};

use super::{notifications::NotificationHandler, stdio::ChildTransport};

/// Newest protocol, in which every request is self-contained.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// Version that a server of an older protocol is asked for.
pub(super) const OLDER: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// Time without an answer after which a server over HTTP is asked the older way, and a second child is started for it.
pub(super) const HTTP_PATIENCE: Duration = Duration::from_secs(5);
pub(super) const CHILD_PATIENCE: Duration = Duration::from_secs(10);

/// Id of the request that is sent before rmcp's, whose ids are numbers.
const DISCOVER: &str = "discover";

/// Protocol of an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// 2026-07-28, in which every request is self-contained.
    Newest,
    /// 2025-11-25 and before, in which a session begins with `initialize`.
    Older,
}

impl Protocol {
    /// Both protocols, the newest first.
    pub const ALL: [Self; 2] = [Self::Newest, Self::Older];

    /// The handshake that rmcp makes.
    pub(super) fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Protocol::Newest => ClientLifecycleMode::Discover { preferred_versions: vec![NEWEST] },
            Protocol::Older => ClientLifecycleMode::Initialize,
        }
    }
}

/// The request of the newest protocol.
pub(super) fn discover(handler: &NotificationHandler) -> ClientJsonRpcMessage {
    let info = handler.get_info();
    let meta = RequestMetaObject::with_client_context(NEWEST, info.client_info, info.capabilities);
    let mut request = DiscoverRequest::new(DiscoverRequestParams {});
    request.extensions_mut().insert(meta);
    ClientJsonRpcMessage::request(ClientRequest::DiscoverRequest(request), RequestId::String(DISCOVER.into()))
}

/// Returns true if a server's answer to [`discover`] says that it speaks the newest protocol.
pub(super) fn is_newest(answer: &ServerJsonRpcMessage) -> bool {
    let ServerJsonRpcMessage::Response(response) = answer else { return false };
    matches!(&response.result, ServerResult::DiscoverResult(result) if result.supported_versions.contains(&NEWEST))
}

/// Asks a child for its protocol. Nothing else is sent to it before its answer: a child that is slow to start would read both
/// questions at once, and its answer to the first could be taken for one to the second.
///
/// # Errors
///
/// The child closed its output.
pub(super) async fn negotiate(
    child: &mut ChildTransport,
    handler: &NotificationHandler,
) -> Result<Protocol, std::io::Error> {
    child.send(discover(handler)).await?;
    let answer = answer(child).await?;
    Ok(if is_newest(&answer) { Protocol::Newest } else { Protocol::Older })
}

/// Receives an answer.
async fn answer(child: &mut ChildTransport) -> Result<ServerJsonRpcMessage, std::io::Error> {
    loop {
        match child.receive().await {
            Some(message @ (ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))) => {
                return Ok(message);
            }
            Some(ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_)) => (),
            None => return Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
