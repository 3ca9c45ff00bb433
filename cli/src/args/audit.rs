//! What may be said to `turnfold audit`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Round;

#[derive(Subcommand)]
pub(crate) enum Audit {
    /// Sets recorded threads against today's code: which of them would be lived otherwise, and where they part
    ///
    /// Nothing is asked of anybody and nothing is written. Exit code 1 if a thread would be lived otherwise, else 6 if one
    /// could not be checked or there was none.
    Replay {
        #[command(flatten)]
        round: Round,
        /// Take reworded prompts for a difference too
        #[arg(long)]
        prompts: bool,
        /// Also write the outcome as JUnit's XML
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
        /// Also write the outcome as SARIF 2.1.0
        #[arg(long, value_name = "FILE")]
        sarif: Option<PathBuf>,
    },
    /// Attests how far each thread goes and the hash of its last event, signed, in a place outside of the store
    ///
    /// Writes a note of some 200 bytes (a C2SP tlog-checkpoint) and, beside it under the same name and `.heads`, the list of
    /// heads that it attests. Only threads that have grown are added. Have somebody else keep a copy of the note.
    /// Exit code 1 if a log is not as it was appended or attested: that one is not attested anew, all others are.
    Checkpoint {
        /// The note, or a folder for it and its list, such as a git repository's
        #[arg(long, value_name = "FOLDER|FILE")]
        to: PathBuf,
        /// The key that signs
        #[arg(long, value_name = "FILE", default_value = DEFAULT_KEY)]
        key: PathBuf,
        /// Attest of threads that are gone, as after `store prune`, that they are; else they are a finding
        #[arg(long)]
        gone: bool,
        /// How many ranges of threads at once [default: as many as there are cores]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        jobs: Option<u16>,
    },
    /// Whether the logs are those that were appended and attested, and the read models what the logs say
    ///
    /// Exit code 0: intact; 1: tampered, and where and how; 6: not checked, and what and why.
    Verify {
        /// Only this thread; `last` is the newest
        thread: Option<String>,
        /// All threads, as if none is named
        #[arg(long, conflicts_with = "thread")]
        all: bool,
        /// A checkpoint, or the folder that it is in; give copies that others kept too
        #[arg(long, value_name = "FOLDER|FILE")]
        checkpoint: Vec<PathBuf>,
        /// The key that checks their signatures, as `audit key show` prints it
        #[arg(long, value_name = "KEY")]
        vkey: Option<String>,
        /// How many ranges of threads at once [default: as many as there are cores]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        jobs: Option<u16>,
    },
    /// Writes a thread into a folder, with a script that checks it without turnfold
    Export {
        /// Which; `last` is the newest
        thread: String,
        /// With the proof that this checkpoint attests it
        #[arg(long, value_name = "FOLDER|FILE")]
        proof: Option<PathBuf>,
        /// The folder, which is not there yet [default: proof-THREAD]
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
    },
    /// The key that signs checkpoints
    #[command(subcommand)]
    Key(AuditKey),
}

/// Where a key is, if nothing else is said.
const DEFAULT_KEY: &str = ".turnfold/audit.key";

#[derive(Subcommand)]
pub(crate) enum AuditKey {
    /// Makes a key that only its owner can read, and prints what checks its signatures
    New {
        /// Its name, and the origin of its checkpoints: best a URL of yours without its scheme [default: turnfold/HOST]
        #[arg(long)]
        name: Option<String>,
        /// Where it is kept
        #[arg(long, value_name = "FILE", default_value = DEFAULT_KEY)]
        key: PathBuf,
    },
    /// Prints what checks the signatures of a key: to be given to everybody
    Show {
        /// Where it is kept
        #[arg(long, value_name = "FILE", default_value = DEFAULT_KEY)]
        key: PathBuf,
    },
}
