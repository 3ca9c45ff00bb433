//! Servers that a strategy may use.

/// MCP servers that the threads of a strategy may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerScope {
    /// All that are available to the tenant, or those of them that the configuration names.
    Available,
    /// Those that the configuration names, and none if it names none.
    Named,
    /// Every one, for a thread that works for all tenants, such as one that builds the index. Only operators, and tenants
    /// that they name, may run the strategy, with the operator's configuration.
    AllTenants,
}

impl ServerScope {
    /// Returns the servers of a thread whose configuration names none, in a word. `None` if it cannot name any.
    pub(crate) fn default_servers(self) -> Option<&'static str> {
        match self {
            Self::Available => Some("all"),
            Self::Named => Some("none"),
            Self::AllTenants => None,
        }
    }
}
