//! Arguments of `turnfold fixture`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Selection;

#[derive(Subcommand)]
pub(crate) enum Fixture {
    /// Capture a thread as a fixture, without its secrets
    ///
    /// Today's code must write the same log from the recorded answers, and changing one byte of any recorded answer must
    /// make the test fail; otherwise the fixture is refused and the exit code is 1. Snapshots are written as .snap.new, for
    /// `cargo insta review`.
    Capture {
        /// Thread; `last` is the most recent one
        id: String,
        /// Name of the fixture [default: the first words of the conversation]
        #[arg(long)]
        name: Option<String>,
        /// Folder with one folder of fixtures for each strategy
        #[arg(long, value_name = "FOLDER", default_value = "fixtures")]
        to: PathBuf,
    },
    /// Find secrets, unused answers and unanswered requests in fixtures
    Check {
        /// Folder with one folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
    /// Show which nodes, edges, errors, events and versions the fixtures of each strategy cover
    Coverage {
        /// Folder with one folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
    /// Name the fewest threads in the database that cover what the fixtures do not
    Suggest {
        #[command(flatten)]
        selection: Selection,
        /// Folder with one folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
    /// Update fixtures and snapshots after an intended change, and list those that must be captured again
    ///
    /// Rewrites what the code decided; recorded answers stay byte for byte. Changed snapshots are written as .snap.new, for
    /// `cargo insta review`. Exits with 1 if a fixture must be captured again.
    Refresh {
        /// Folder with one folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
}
