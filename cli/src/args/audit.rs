//! Arguments of `turnfold audit`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Selection;

#[derive(Subcommand)]
pub(crate) enum Audit {
    /// Run today's code against recorded threads and report where it decides differently
    ///
    /// Calls no model and no tool, and writes nothing. Exits with 1 if a thread diverges; else with 6 if a thread could not
    /// be checked or none matched.
    Replay {
        #[command(flatten)]
        selection: Selection,
        /// Treat reworded prompts as differences
        #[arg(long)]
        prompts: bool,
        /// Also write the result as JUnit XML
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
        /// Also write the result as SARIF 2.1.0
        #[arg(long, value_name = "FILE")]
        sarif: Option<PathBuf>,
    },
    /// Sign the current head of every thread and store the signature outside the database
    ///
    /// Writes a note of about 200 bytes (a C2SP tlog-checkpoint) and next to it, with the suffix `.heads`, the list of heads
    /// that it attests. Only threads that grew are added. Give copies of the note to other people. Exits with 1 if a log
    /// differs from what was appended or attested; that log is not attested again, all others are.
    Checkpoint {
        /// File for the note, or a folder for the note and its list, such as a git repository
        #[arg(long, value_name = "FOLDER|FILE")]
        to: PathBuf,
        /// File with the signing key
        #[arg(long, value_name = "FILE", default_value = DEFAULT_KEY)]
        key: PathBuf,
        /// Attest that missing threads were deleted, as by `store prune`; without this they are findings
        #[arg(long)]
        gone: bool,
        /// Number of threads' ranges read in parallel [default: number of cores]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        jobs: Option<u16>,
    },
    /// Check hash chains and read models, and compare them with checkpoints
    ///
    /// Exits with 0 if everything is intact, with 1 if something was changed, and with 6 if something could not be checked.
    Verify {
        /// Check only this thread; `last` is the most recent one [default: all threads]
        thread: Option<String>,
        /// Check all threads, which is the default
        #[arg(long, conflicts_with = "thread")]
        all: bool,
        /// Compare with this checkpoint, or the one in this folder; repeat it for copies that other people kept
        #[arg(long, value_name = "FOLDER|FILE")]
        checkpoint: Vec<PathBuf>,
        /// Public key that checks the signatures, as printed by `audit key show`
        #[arg(long, value_name = "KEY")]
        vkey: Option<String>,
        /// Number of threads' ranges read in parallel [default: number of cores]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        jobs: Option<u16>,
    },
    /// Export a thread with a proof that can be checked without turnfold
    Export {
        /// Thread; `last` is the most recent one
        thread: String,
        /// Add the proof that this checkpoint attests the thread
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

/// Default file of the signing key.
const DEFAULT_KEY: &str = ".turnfold/audit.key";

#[derive(Subcommand)]
pub(crate) enum AuditKey {
    /// Create a signing key that only its owner can read, and print the public key
    New {
        /// Name of the key and origin of its checkpoints, preferably a URL of yours without scheme [default: turnfold/HOST]
        #[arg(long)]
        name: Option<String>,
        /// File for the key
        #[arg(long, value_name = "FILE", default_value = DEFAULT_KEY)]
        key: PathBuf,
    },
    /// Print the public key, which verifies signatures and may be published
    Show {
        /// File with the key
        #[arg(long, value_name = "FILE", default_value = DEFAULT_KEY)]
        key: PathBuf,
    },
}
