//! The command line of turnfold, which runs LLM agent conversations as durable jobs.
//!
//! As a library, this crate builds a binary with your own strategies. [`strategy`] has everything that a strategy needs.
//!
//! ```no_run
//! # mod mine { pub static MINE: strategies::probe::Probe = strategies::probe::Probe; }
//! fn main() -> std::process::ExitCode {
//!     let mut strategies = turnfold::strategy::bundled();
//!     strategies.push(&mine::MINE);
//!     turnfold::main(strategies)
//! }
//! ```

mod args;
mod client;
mod commands;
pub mod config;
mod confirm;
mod demo;
mod engine;
mod exit;
mod ids;
mod json_option;
mod log;
mod output;
mod process;
pub mod strategy;
mod suggest;
mod telemetry;
mod user;

use std::{env, process::ExitCode};

use clap::FromArgMatches as _;
use shared::Graph;

pub use exit::Exit;

/// Runs the command line with these strategies and returns the exit code.
pub fn main(strategies: Vec<&'static dyn Graph>) -> ExitCode {
    process::protect();
    let matches = args::command().get_matches_from(args::sets_first(env::args_os()));
    let args = args::Args::from_arg_matches(&matches).unwrap_or_else(|err| err.exit());
    // Fails if an embedding program has installed a provider already; that one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(err) => return exit::report(&anyhow::anyhow!("cannot start the async runtime: {err}")),
    };
    match runtime.block_on(commands::run(args, strategies)) {
        Ok(exit) => exit.into(),
        Err(err) => exit::report(&err),
    }
}
