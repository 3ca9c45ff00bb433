//! Arguments of `turnfold mcp`.

use clap::Subcommand;

use super::values::reason;

#[derive(Subcommand)]
pub(crate) enum Mcp {
    /// List the configured servers and whether they can be reached
    #[command(name = "list", visible_alias = "ls")]
    List,
    /// List the tools of a server
    Tools {
        /// Server, as named in the configuration
        server: String,
    },
    /// List the approved tool definitions; a server whose tools changed is not used until the change is approved
    Pins {
        #[command(subcommand)]
        command: Option<Pins>,
    },
}

#[derive(Subcommand)]
pub(crate) enum Pins {
    /// Show how a server's tools differ from the approved ones
    Diff {
        /// Server, as named in the configuration
        server: String,
    },
    /// Approve the tools that a server has now
    Approve {
        /// Server, as named in the configuration
        server: String,
        /// Approve only if the hash of the tools begins with this, as printed by `diff`
        #[arg(long)]
        hash: Option<String>,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
    /// Forget a server's approved tools; the next turn that uses the server approves the tools that it finds
    Reset {
        /// Server, as named in the configuration
        server: String,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
}
