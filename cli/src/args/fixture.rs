//! `turnfold fixture …`: what happened, as tests.

use std::path::PathBuf;

use clap::Subcommand;

use super::Round;

#[derive(Subcommand)]
pub(crate) enum Fixture {
    /// Makes a fixture of a thread, without its secrets; refused, if it would test nothing
    ///
    /// Today's code lives it again and must write the same log; then a byte of each recorded answer is flipped, and each
    /// must turn the tests red. What it makes of it arrives as .snap.new, for `cargo insta review`. Exit code 1, if refused.
    Capture {
        /// Which thread; `last` is the newest
        id: String,
        /// What the fixture is called [default: the first words that were said]
        #[arg(long)]
        name: Option<String>,
        /// The folder that holds a folder of fixtures for each strategy
        #[arg(long, value_name = "FOLDER", default_value = "fixtures")]
        to: PathBuf,
    },
    /// Looks for secrets, answers that nobody asks for, requests that nothing answers
    Check {
        /// The folder that holds a folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
    /// Tells which nodes, edges, errors, kinds of events and versions the fixtures of each strategy have seen
    Coverage {
        /// The folder that holds a folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
    /// Names the fewest threads of the store that show what the fixtures have not seen
    Suggest {
        #[command(flatten)]
        round: Round,
        /// The folder that holds a folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
    /// Makes what is derived anew, after a change that is meant, and names the fixtures that must be captured anew
    ///
    /// Snapshots that are others now arrive as .snap.new, for `cargo insta review`; in captured logs, what the code decided is
    /// written anew, and what came from outside stays byte for byte. Exit code 1, if some must be captured anew.
    Refresh {
        /// The folder that holds a folder of fixtures for each strategy
        #[arg(default_value = "fixtures")]
        folder: PathBuf,
    },
}
