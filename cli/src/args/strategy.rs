//! Arguments of `turnfold strategy`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Strategy {
    /// List the strategies
    #[command(name = "list", visible_alias = "ls")]
    List,
    /// Print the graph of a strategy as a Mermaid flowchart
    Map {
        /// Name of the strategy
        name: String,
    },
    /// Show the model, prompt and parameters of each node, and where each is set
    Show {
        /// Name of the strategy
        name: String,
        /// Print the whole prompts with their placeholders
        #[arg(long)]
        prompts: bool,
    },
    /// Create a crate with a strategy of your own, its tests and a binary that serves it
    ///
    /// The strategy asks a person for a name and lets a model greet. Its four tests pass at once. The binary has all commands of
    /// turnfold, with your strategy added.
    New {
        /// Name of the strategy and of the crate: lower-case letters, digits and _
        name: String,
        /// Folder of the crate; must not exist yet [default: the name]
        #[arg(long, value_name = "FOLDER")]
        path: Option<PathBuf>,
        /// Checkout of turnfold to build on [default: the one that this binary was built from]
        #[arg(long, value_name = "FOLDER")]
        turnfold: Option<PathBuf>,
    },
}
