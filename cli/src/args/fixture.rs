//! Arguments of `turnfold fixture`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Selection;

#[derive(Subcommand)]
pub(crate) enum Fixture {
    /// Capture a thread as a fixture, without its secrets and personal data
    ///
    /// Two checks come first: today's code must write the same log from the recorded answers, and the fixture must notice if
    /// any byte of an answer changes. If a check fails, nothing is written and the exit code is 1. Snapshots (expected
    /// transcripts) are written as .snap.new; accept them with `turnfold fixture test --accept`, or `cargo insta review`.
    Capture {
        /// Thread; `last` is the most recent one
        id: String,
        /// Name of the fixture [default: STRATEGY_1, or the next free number]
        #[arg(long)]
        name: Option<String>,
        /// Folder with one folder of fixtures for each strategy
        #[arg(long, value_name = "FOLDER", default_value = "fixtures")]
        to: PathBuf,
    },
    /// Find secrets, personal data, unused answers and unanswered requests in fixtures
    Check {
        /// Folder with one folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
    /// Show which nodes, transitions, errors, events and versions the fixtures of each strategy cover
    Coverage {
        /// Folder with one folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
    /// Name threads of the database that are worth capturing: the fewest that cover what no fixture covers
    Suggest {
        #[command(flatten)]
        selection: Selection,
        /// Folder with one folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
    /// Update fixtures and snapshots after an intended change, and list those that must be captured again
    ///
    /// Replaces the decisions in a fixture by those of today's code, and never changes a recorded answer. Changed snapshots
    /// are written as .snap.new; accept them with `turnfold fixture test --accept`, or `cargo insta review`. Exits with 1 if a fixture must be captured again.
    Refresh {
        /// Folder with one folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
    /// Run the tests of fixtures: transcripts, crash anywhere, map, prompts, and the settings of this project
    ///
    /// Needs no cargo, no key and no server. A transcript is compared with the accepted NAME.snap. `settings` shows which
    /// fixtures would go another way under `[strategies.NAME]` of this configuration. Exits with 1 if a test fails.
    Test {
        /// Folder with one folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
        /// Accept the output of today's code: write each changed snapshot
        #[arg(long)]
        accept: bool,
        /// Also write the result as JUnit XML
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
    },
}
