//! The one binary, with the strategies that come with turnfold.

use std::process::ExitCode;

/// A step makes and drops many small things on several threads; the system's allocator takes a quarter more for it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    turnfold::main(shared::strategies::all())
}
