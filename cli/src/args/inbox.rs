//! What may be said to `turnfold inbox`.

use clap::{ArgGroup, Subcommand};

#[derive(Subcommand)]
pub(crate) enum Inbox {
    /// Lists what is asked, the last question first
    Ls {
        /// Only clarification, slot_fill, choice, approval, ambiguity, input or in_doubt
        #[arg(long)]
        kind: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: u64,
        /// Stay, and list again whenever something has changed; not with -o json, whose one document would have no end
        #[arg(short, long)]
        watch: bool,
    },
    /// Shows what a thread asks, and how it can be answered
    Show {
        /// Which thread; `last` is the newest
        thread: String,
    },
    /// Answers what a thread asks
    Answer(Answer),
}

/// What is answered, and to whom.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("how").required(true))]
pub(crate) struct Answer {
    /// Which thread; `last` is the newest
    pub(crate) thread: String,
    /// The words: an option by its words or its number, where there are options; - reads them from stdin
    #[arg(group = "how")]
    pub(crate) answer: Option<String>,
    /// Yes, to an approval; of a call in doubt: it happened
    #[arg(long, group = "how")]
    pub(crate) accept: bool,
    /// JSON for an answer, where there are no options
    #[arg(long, value_name = "JSON", group = "how")]
    pub(crate) edit: Option<String>,
    /// No answer: the turn is called off, and its thread is idle
    #[arg(long, group = "how")]
    pub(crate) ignore: bool,
    /// Sending the same key again gives the same turn
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait for the end and print the reply
    #[arg(short, long)]
    pub(crate) wait: bool,
}
