//! turnfold: runs conversation turns of LLM agents as durable jobs.
//!
//! This crate is the command line, and the library by which a binary of your own runs with strategies of your own:
//!
//! ```no_run
//! # mod mine { pub static MINE: shared::strategies::probe::Probe = shared::strategies::probe::Probe; }
//! fn main() -> std::process::ExitCode {
//!     let mut strategies = shared::strategies::all();
//!     strategies.push(&mine::MINE);
//!     turnfold::main(strategies)
//! }
//! ```

mod args;
mod ask;
mod client;
mod commands;
pub mod config;
mod demo;
mod engine;
mod exit;
mod output;
mod person;

use std::process::ExitCode;

use clap::FromArgMatches as _;
use shared::Graph;

pub use exit::Exit;

/// Does what the command line says, with these strategies.
pub fn main(strategies: Vec<&'static dyn Graph>) -> ExitCode {
    let args = args::Args::from_arg_matches(&args::command().get_matches()).unwrap_or_else(|err| err.exit());
    // The first provider installed stays; a second call by an embedding program is no fault.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(err) => return exit::report(&anyhow::anyhow!("cannot start the runtime: {err}")),
    };
    match runtime.block_on(commands::run(args, strategies)) {
        Ok(exit) => exit.into(),
        Err(err) => exit::report(&err),
    }
}
