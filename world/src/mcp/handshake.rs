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
        InitializeRequest, ProtocolVersion, RequestId, RequestMetaObject, ServerJsonRpcMessage, ServerResult,
    },
    service::ClientLifecycleMode,
    transport::Transport as _,
};
use serde_json::Value;

use super::{notifications::NotificationHandler, stdio::ChildTransport};

/// Newest protocol, in which every request is self-contained.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// Version that a server of an older protocol is asked for.
pub(super) const OLDER: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// Time without an answer after which a server is also asked the older way.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Ids of the requests that are sent before rmcp's.
const DISCOVER: &str = "discover";
const INITIALIZE: &str = "initialize";

/// Returns true if a message answers a request that was sent before rmcp's, whose ids are numbers.
pub(super) fn is_of_negotiation(message: &ServerJsonRpcMessage) -> bool {
    let id = match message {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
    };
    [DISCOVER, INITIALIZE].iter().any(|own| id == Some(&RequestId::String((*own).into())))
}

/// Protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Every request is self-contained.
    Newest,
    /// A session begins with `initialize`.
    Older,
}

impl Protocol {
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

/// Asks a child for its protocol. A child that does not answer within [`PATIENCE`] may need longer to start, or
/// ignore the question: it is asked the older way as well, and its first answer counts.
///
/// # Errors
///
/// The child closed its output.
pub(super) async fn negotiate(
    child: &mut ChildTransport,
    handler: &NotificationHandler,
) -> Result<Protocol, std::io::Error> {
    child.send(discover(handler)).await?;
    let first = tokio::time::timeout(PATIENCE, answer(child)).await.ok().transpose()?;
    let protocol = match first {
        Some(answer) if is_newest(&answer) => Protocol::Newest,
        Some(_) => Protocol::Older,
        None => {
            let request = InitializeRequest::new(handler.get_info());
            let id = RequestId::String(INITIALIZE.into());
            child.send(ClientJsonRpcMessage::request(ClientRequest::InitializeRequest(request), id)).await?;
            late(child).await?
        }
    };
    child.forget_requests();
    Ok(protocol)
}

/// Waits for the answers of a child that was asked both ways.
async fn late(child: &mut ChildTransport) -> Result<Protocol, std::io::Error> {
    loop {
        let answer = answer(child).await?;
        if is_newest(&answer) {
            return Ok(Protocol::Newest);
        }
        let (id, result) = match &answer {
            ServerJsonRpcMessage::Response(response) => {
                (Some(&response.id), serde_json::to_value(&response.result).ok())
            }
            ServerJsonRpcMessage::Error(error) => (error.id.as_ref(), None),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => (None, None),
        };
        if id == Some(&RequestId::String(INITIALIZE.into())) {
            // A refusal is repeated, and reported, when rmcp asks.
            if let Some(result) = result.filter(Value::is_object) {
                child.set_initialized(result);
            }
            return Ok(Protocol::Older);
        }
    }
}

/// Receives an answer.
async fn answer(child: &mut ChildTransport) -> Result<ServerJsonRpcMessage, std::io::Error> {
    loop {
        match child.next().await {
            Some(message @ (ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))) => {
                return Ok(message);
            }
            Some(ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_)) => (),
            None => return Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
