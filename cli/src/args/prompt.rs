//! Arguments of `turnfold prompt`.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Prompt {
    /// List the prompts that were used: by whom, since when, how their turns ended, cost and ratings
    #[command(name = "list", visible_alias = "ls")]
    List,
    /// Show the text of a prompt and its use
    Show {
        /// Hash of the prompt, or at least its first 8 digits
        hash: String,
        /// Show the lines that differ from this other prompt instead of the text
        #[arg(long, value_name = "HASH")]
        diff: Option<String>,
    },
}
