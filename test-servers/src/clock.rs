//! Programs with a wrong clock.

use std::path::PathBuf;
use std::process::Command;

use crate::install::{self, Program};

const FAKETIME: Program = Program { name: "faketime", package: "faketime", versions: None, at_least: (0, 9) };

/// Sets the clock of a program that is about to start forward or back by `off` seconds. Its monotonic clock is
/// unchanged. Installs `faketime` if it is missing.
///
/// ## Why not with the program `faketime`
///
/// It starts the program as another process, which survives if `faketime` is killed.
///
/// # Panics
///
/// If it cannot be installed.
pub fn set_clock(command: &mut Command, off: i64) {
    install::find(&FAKETIME);
    // The loader replaces `$LIB`.
    let library: PathBuf = ["/usr", "$LIB", "faketime", "libfaketime.so.1"].iter().collect();
    command.env("LD_PRELOAD", library).env("FAKETIME", format!("{off:+}"));
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
}
