//! The one binary, with the strategies that come with turnfold.

use std::process::ExitCode;

fn main() -> ExitCode {
    turnfold::main(shared::strategies::all())
}
