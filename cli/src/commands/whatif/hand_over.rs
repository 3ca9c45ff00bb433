//! The build that runs the threads of `turnfold whatif run --build`, in place of this process.

use std::{os::unix::process::CommandExt as _, path::Path, process::Command};

use super::plan::Folder;
use crate::{
    args::value_name,
    commands::{Context, executable::Executable},
    exit::{CliError, Exit},
};

/// Finds the binary that `--build` names.
pub(super) fn find(named: &Path) -> anyhow::Result<Executable> {
    Executable::named(named).map_err(|error| {
        let message = format!("--build: cannot start {}: {error}", named.display());
        CliError::with_exit(Exit::Usage, message)
    })
}

/// Lets the build of a planned run take the place of this process, which returns only if that fails.
pub(super) fn hand_over(
    ctx: &Context,
    folder: &Folder,
    build: &Executable,
    flags: &[String],
) -> anyhow::Result<Exit> {
    let path = build.path().display();
    if Executable::at(build.path()).ok().as_ref() != Some(build) {
        let message = format!(
            "{path} is not the build that this run was planned with\n\
             hint: put that build back, or start another run with --to and --build"
        );
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    let error = Command::new(build.path())
        .args(&ctx.config_flags)
        .args(["--output", &value_name(&ctx.format)])
        .args(ctx.tenant.iter().flat_map(|tenant| ["--tenant", tenant]))
        .args(["whatif", "run", "--handed-over", "--yes", "--resume"])
        .arg(folder.path())
        .args(flags)
        .exec();
    Err(CliError::with_exit(Exit::Unchecked, format!("--build: cannot start {path}: {error}")))
}
