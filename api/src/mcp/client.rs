//! Abilities of a client.

use rmcp::{RoleServer, model::ProtocolVersion, service::RequestContext};

/// Abilities that a client declares with its request.
pub(super) struct Client {
    /// True if it comes back for tasks.
    pub(super) has_tasks: bool,
    /// True if it can ask its user.
    pub(super) can_ask: bool,
    /// True if it can ask its user and then send the call again with the answer.
    pub(super) takes_questions: bool,
}

impl Client {
    pub(super) fn new(context: &RequestContext<RoleServer>) -> Self {
        let declared = context.client_capabilities().unwrap_or_default();
        let can_ask = declared.elicitation.is_some();
        let is_modern = context
            .protocol_version()
            .is_some_and(|version| ProtocolVersion::V_2026_07_28.as_str() <= version.as_str());
        Self { has_tasks: declared.supports_tasks(), can_ask, takes_questions: can_ask && is_modern }
    }
}
