//! Arguments of `turnfold inbox`.

use clap::{ArgGroup, Subcommand};

#[derive(Subcommand)]
pub(crate) enum Inbox {
    /// List open questions, newest first
    #[command(name = "list", visible_alias = "ls")]
    List {
        /// Only questions of this kind: clarification, slot_fill, choice, approval, ambiguity, input or in_doubt
        #[arg(long)]
        kind: Option<String>,
        /// Only questions of this batch
        #[arg(long, value_name = "ID")]
        batch: Option<String>,
        /// Maximum number of questions
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u64,
        /// Keep running and list again after each change; not with -o json
        #[arg(short, long)]
        watch: bool,
    },
    /// Show the question of a thread and the possible answers
    Show {
        /// Thread; `last` is the one with the newest open question
        thread: String,
    },
    /// Answer the question of a thread
    Answer(Answer),
    /// Settle all calls in doubt of one tool with one verdict
    Settle(Settle),
}

/// Verdict on several calls in doubt.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("verdict").required(true))]
pub(crate) struct Settle {
    /// Server and tool of the calls, as in `turnfold inbox list --kind in_doubt`
    #[arg(value_name = "SERVER.TOOL")]
    pub(crate) tool: String,
    /// The calls took effect, with this result
    #[arg(long, value_name = "RESULT", group = "verdict")]
    pub(crate) happened: Option<String>,
    /// The calls did not take effect; make them again
    #[arg(long, group = "verdict")]
    pub(crate) did_not: bool,
    /// You do not know; the calls are not made again
    #[arg(long, group = "verdict")]
    pub(crate) skip: bool,
    /// Only calls of this batch
    #[arg(long, value_name = "ID")]
    pub(crate) batch: Option<String>,
    /// List the calls and settle none
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Answer to a thread's question.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("how").required(true))]
pub(crate) struct Answer {
    /// Thread; `last` is the one with the newest open question
    pub(crate) thread: String,
    /// Answer as text; if the question has options, the text or the number of one; - reads stdin
    #[arg(group = "how")]
    pub(crate) answer: Option<String>,
    /// Approve; if the question is about a call whose answer was lost: the call took effect
    #[arg(long, group = "how")]
    pub(crate) accept: bool,
    /// Answer as JSON: the fields of a form, or changes to what is to be approved
    #[arg(long, value_name = "JSON", group = "how")]
    pub(crate) edit: Option<String>,
    /// Give no answer and cancel the turn; if the question is a form of a tool, cancel only the tool's request
    #[arg(long, group = "how")]
    pub(crate) ignore: bool,
    /// Return the existing turn if this key was used before
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait until the turn ends, then print the reply
    #[arg(short, long)]
    pub(crate) wait: bool,
}
