//! Public servers whose tools say that they only read, although a call changes something.
//!
//! Each was seen in the version that stands beside it. A name alone identifies no server, so a correction counts only
//! where another tool of that server is listed too. The operator's `tools` of a server come first.

use shared::{Safety, Tool};

/// A wrong hint of a public server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    tool: &'static str,
    /// Another tool of the same server.
    beside: &'static str,
    /// Effect of repeating a call.
    pub safety: Safety,
    /// Effect of a call.
    pub reason: &'static str,
    /// Package and version in which the hint was wrong.
    pub seen_in: &'static str,
}

const CORRECTIONS: [Correction; 6] = [
    Correction {
        tool: "read_process_output",
        beside: "interact_with_process",
        safety: Safety::Write,
        reason: "it consumes the output that it reads",
        seen_in: "@wonderwhy-er/desktop-commander 0.2.52",
    },
    Correction {
        tool: "submit_bug_or_feature_request",
        beside: "create_item",
        safety: Safety::Write,
        reason: "it submits a request to the vendor",
        seen_in: "@mondaydotcomorg/monday-api-mcp 3.3.0",
    },
    Correction {
        tool: "connect",
        beside: "collection-schema",
        safety: Safety::Idempotent,
        reason: "it changes the connection that later calls use",
        seen_in: "mongodb-mcp-server 3.0.4",
    },
    Correction {
        tool: "disconnect",
        beside: "collection-schema",
        safety: Safety::Idempotent,
        reason: "it ends the connection that later calls use",
        seen_in: "mongodb-mcp-server 3.0.4",
    },
    Correction {
        tool: "export",
        beside: "collection-schema",
        safety: Safety::Write,
        reason: "it writes a file",
        seen_in: "mongodb-mcp-server 3.0.4",
    },
    Correction {
        tool: "download-bytes-to-file",
        beside: "list-mail-messages",
        safety: Safety::Idempotent,
        reason: "it writes a file",
        seen_in: "@softeria/ms-365-mcp-server 0.155.0",
    },
];

impl Correction {
    /// Returns the correction of a tool among the names that its server lists.
    pub(super) fn of_name<'a>(
        tool: &str,
        listed: impl Iterator<Item = &'a str> + Clone,
    ) -> Option<&'static Self> {
        CORRECTIONS.iter().find(|correction| {
            correction.tool == tool && listed.clone().any(|name| name == correction.beside)
        })
    }

    /// Returns the correction by which a tool among those of its server has its safety, if one does.
    #[must_use]
    pub fn of(tool: &Tool, listed: &[Tool]) -> Option<&'static Self> {
        Self::of_name(&tool.name, listed.iter().map(|tool| tool.name.as_str()))
            .filter(|correction| correction.safety == tool.safety)
    }
}

#[test]
fn a_correction_counts_for_its_server_only() {
    let of = |tool: &str, listed: &[&str]| {
        Correction::of_name(tool, listed.iter().copied()).map(|correction| correction.safety)
    };
    assert_eq!(of("export", &["collection-schema", "export"]), Some(Safety::Write));
    assert_eq!(of("connect", &["collection-schema", "connect"]), Some(Safety::Idempotent));
    assert_eq!(of("export", &["export", "import"]), None, "another server");
    assert_eq!(of("find", &["collection-schema", "find"]), None, "a tool whose hint is right");
}
