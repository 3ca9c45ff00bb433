//! Arguments of `turnfold audit`.

use std::{path::PathBuf, time::Duration};

use clap::Subcommand;

use super::{JudgeArgs, Replayed, Selection, values::duration, whatif::usd};

#[derive(Subcommand)]
pub(crate) enum Audit {
    /// Run today's code against recorded threads and report where it decides differently
    ///
    /// Calls no model and no tool, and writes nothing. Also verifies the hash chains of the logs that it reads. Exits with 1 if the
    /// code decides differently for any thread, or if a chain is broken: that log is not what was recorded. Otherwise
    /// exits with 6 if a thread could not be checked, or if no thread matched.
    Replay {
        #[command(flatten)]
        selection: Replayed,
        /// Treat as differences reworded prompts, and tools and replies that are described differently
        #[arg(long)]
        prompts: bool,
        /// Also write the threads that differ to this file, one JSON line each: all differences in words, and the first other one
        #[arg(long, value_name = "FILE")]
        list: Option<PathBuf>,
        /// Also write the result as JUnit XML
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
        /// Also write the result as SARIF 2.1.0
        #[arg(long, value_name = "FILE")]
        sarif: Option<PathBuf>,
    },
    /// Sign a list of the last event of every thread, and store it outside the database
    ///
    /// The signature is a note of about 200 bytes (a C2SP tlog-checkpoint). The list is a second file beside it, with the
    /// suffix `.heads`. Threads that have new events are added to the list. Give copies of the note to other people: later
    /// they prove that no log was changed. The note names the store, and the heads of another store are not added to its list. If a log was changed since the last checkpoint, it is left out, all others are
    /// signed, and the exit code is 1.
    Checkpoint {
        /// File for the note, or a folder for the note and its list, such as a git repository
        #[arg(long, value_name = "FOLDER|FILE")]
        to: PathBuf,
        /// File with the signing key
        #[arg(long, value_name = "FILE", default_value = DEFAULT_KEY)]
        key: PathBuf,
        /// Confirm that this number of attested threads was deleted on purpose, as by `store prune`; otherwise they are reported
        ///
        /// Nothing is signed if more or fewer are missing. The deletion is attested for ever.
        #[arg(long, value_name = "COUNT", requires = "reason", value_parser = clap::value_parser!(u64).range(1..))]
        gone: Option<u64>,
        /// Reason for the deletion, in one line of at most 200 bytes; the list holds its hash
        #[arg(long, value_name = "TEXT", requires = "gone")]
        reason: Option<String>,
        /// Number of threads that are read at the same time [default: number of cores]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        jobs: Option<u16>,
    },
    /// Check that no log was changed and that the tables match the logs, and compare with checkpoints
    ///
    /// Exits with 0 if everything is intact, with 1 if something was changed, and with 6 if something could not be checked.
    Verify {
        /// Check only this thread; `last` is the most recent one [default: all threads]
        thread: Option<String>,
        /// Check all threads, which is the default
        #[arg(long, conflicts_with = "thread")]
        all: bool,
        /// Compare with the checkpoint in this file or folder; may be given several times, for example for copies that other
        /// people keep
        #[arg(long, value_name = "FOLDER|FILE")]
        checkpoint: Vec<PathBuf>,
        /// Public key to check the signatures with, as printed by `audit key show`; may be given several times, for keys that were
        /// replaced
        #[arg(long, value_name = "KEY")]
        vkey: Vec<String>,
        /// Public key of a witness, whose cosignature is checked; may be given several times
        #[arg(long, value_name = "KEY", requires = "checkpoint")]
        witness: Vec<String>,
        /// Number of witnesses that must have cosigned each checkpoint [default: all of --witness]
        #[arg(long, value_name = "N", requires = "witness")]
        min_witnesses: Option<usize>,
        /// Number of threads that are read at the same time [default: number of cores]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        jobs: Option<u16>,
    },
    /// Have a judge grade the last reply of recorded threads: pass, fail or unsure, each with a reason
    ///
    /// The judge is a model with a rubric (--judge and --judge-model), or a program. It gets what people wrote and the reply:
    /// {"input": …, "answer": …}. Each reply is a question, kept as a thread in a database of its own, in --to or .turnfold/judge/NAME: a
    /// question whose answer is stored is not asked again, whatever was killed. Shows a quote and asks for confirmation first. The
    /// recorded threads are only read. Exits with 5 if --max-usd stopped it, and with 6 if a reply is not judged, or if no thread
    /// matched.
    Judge(Box<AuditJudge>),
    /// List the approvals of people: who approved which payload, shown when, under which key, and what was executed
    ///
    /// Each question for approval is listed with the payloads that it showed, its answer, and the calls that were made. Reads
    /// the logs alone. Exits with 6 if a log could not be read.
    Approvals(Approvals),
    /// Show who changed holds, keys, pins, pauses, schedules, webhooks or the configuration, deleted data, or decided about batches
    ///
    /// Lists the newest entries first, of the tenant of --tenant or of all. `audit verify` compares the rows with these logs.
    Log(AdminLog),
    /// Check an exported thread, without a store
    ///
    /// Answers as the scripts in the folder do: exits with 0 if everything is intact, with 1 if something was changed, and with 6 if
    /// something could not be checked.
    Check {
        /// Folder that `audit export` made
        folder: PathBuf,
        /// Public key that signed the checkpoint; may be given several times, of which one must have signed
        #[arg(long, value_name = "KEY")]
        vkey: Vec<String>,
    },
    /// Export a thread with a proof that can be checked without turnfold
    Export {
        /// Thread; `last` is the most recent one
        #[arg(required_unless_present = "admin_log")]
        thread: Option<String>,
        /// Export the administrative log of the tenant of --tenant, or else that of what concerns no tenant
        #[arg(long, conflicts_with = "thread")]
        admin_log: bool,
        /// Add the proof that this checkpoint covers the thread
        #[arg(long, value_name = "FOLDER|FILE")]
        proof: Option<PathBuf>,
        /// Folder to create [default: proof-THREAD]
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
    },
    /// Create and show signing keys
    #[command(subcommand)]
    Key(AuditKey),
}

/// Arguments of `turnfold audit approvals`.
#[derive(clap::Args)]
pub(crate) struct Approvals {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Only answers of this person, as the client names them or as their key proves
    #[arg(long, value_name = "NAME")]
    pub(crate) person: Option<String>,
    /// Only threads that this batch opened
    #[arg(long, value_name = "ID", value_parser = batch_id)]
    pub(crate) batch: Option<store::batches::BatchId>,
    /// Print one line of CSV for each executed call, and for each call or question without any
    #[arg(long)]
    pub(crate) csv: bool,
}

/// Arguments of `turnfold audit log`.
#[derive(clap::Args)]
pub(crate) struct AdminLog {
    /// Only entries of this kind, such as hold_released or key_created
    #[arg(long, value_name = "KIND", value_parser = clap::builder::PossibleValuesParser::new(store::AdminEvent::KINDS))]
    pub(crate) kind: Option<String>,
    /// Only entries within this time: 7d, 12h, 30m
    #[arg(long, value_name = "AGE", value_parser = duration)]
    pub(crate) since: Option<Duration>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) limit: u64,
}

/// Parses the id of a batch, in the form of the API or as a UUID.
fn batch_id(text: &str) -> Result<store::batches::BatchId, String> {
    let id = text.strip_prefix("batch_").unwrap_or(text).parse();
    id.map_err(|_| format!("{text:?} is not the id of a batch"))
}

/// Default file of the signing key.
const DEFAULT_KEY: &str = ".turnfold/audit.key";

#[derive(Subcommand)]
pub(crate) enum AuditKey {
    /// Create a signing key that only its owner can read, and print the public key
    New {
        /// Name of the key, shown in its checkpoints; use a URL of yours, without https:// [default: turnfold/HOST]
        #[arg(long)]
        name: Option<String>,
        /// File for the key
        #[arg(long, value_name = "FILE", default_value = DEFAULT_KEY)]
        key: PathBuf,
    },
    /// Replace the key that signs a checkpoint, and print the new public key
    ///
    /// The old key signs a note about the new one, which is kept beside the checkpoint. `audit verify` then accepts the new key from
    /// a person who gives the old one, and no further checkpoint of the old key.
    Rotate {
        /// Folder or file of the checkpoint
        #[arg(long, value_name = "FOLDER|FILE")]
        to: PathBuf,
        /// File with the old key
        #[arg(long, value_name = "FILE", default_value = DEFAULT_KEY)]
        key: PathBuf,
        /// File for the new key
        #[arg(long, value_name = "FILE")]
        new_key: PathBuf,
    },
    /// Print the public key, which verifies signatures and may be published
    Show {
        /// File with the key
        #[arg(long, value_name = "FILE", default_value = DEFAULT_KEY)]
        key: PathBuf,
    },
}

/// Arguments of `audit judge`.
#[derive(clap::Args)]
pub(crate) struct AuditJudge {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
    /// Maximum number of replies: those of the newest threads
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,
    /// Stop at this cost in US dollars, that of earlier commands with the same judge included; requests under way still finish
    #[arg(long, value_name = "USD", value_parser = usd)]
    pub(crate) max_usd: Option<f64>,
    /// Judge without asking for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Folder of the questions [default: .turnfold/judge/NAME]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: Option<PathBuf>,
}
