//! The turnfold binary, with the bundled strategies.

use std::process::ExitCode;

/// Steps allocate and free many small objects on several threads; with the system's allocator they take a quarter longer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    turnfold::main(strategies::all())
}
