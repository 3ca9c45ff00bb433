//! A clock that is off.

use std::path::PathBuf;
use std::process::Command;

use crate::install::{self, Program};

const FAKETIME: Program = Program { name: "faketime", package: "faketime", versions: None, at_least: (0, 9) };

/// Lets a program that is about to start believe that it is so many seconds later, or earlier. How long something takes it
/// still knows. Installs `faketime` when there is none.
///
/// ## Why not by the program `faketime`
///
/// It starts another process, and whoever kills the first leaves the second.
///
/// # Panics
///
/// When it cannot be installed.
pub fn set_clock(command: &mut Command, off: i64) {
    install::find(&FAKETIME);
    // The loader knows what `$LIB` is here.
    let library: PathBuf = ["/usr", "$LIB", "faketime", "libfaketime.so.1"].iter().collect();
    command.env("LD_PRELOAD", library).env("FAKETIME", format!("{off:+}"));
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
}
