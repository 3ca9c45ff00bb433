//! `turnfold completions` and `turnfold man`: generated from the definition of the command line.

use std::{fs, path::Path};

use anyhow::Context as _;

use crate::{
    args::{self, Shell},
    exit::Exit,
    output,
};

/// Prints the completion script of a shell.
pub(super) fn completions(shell: Shell) -> anyhow::Result<Exit> {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "turnfold", &mut script);
    output::print(&String::from_utf8(script)?)?;
    Ok(Exit::Ok)
}

/// Writes one page for each command and subcommand into a folder.
pub(super) fn man(folder: &Path) -> anyhow::Result<Exit> {
    let cannot_write = || format!("cannot write man pages to {}", folder.display());
    fs::create_dir_all(folder).with_context(cannot_write)?;
    clap_mangen::generate_to(args::command(), folder).with_context(cannot_write)?;
    output::note(&format!("man pages are in {0}; read one with: man {0}/turnfold.1", folder.display()));
    Ok(Exit::Ok)
}
