//! `turnfold init`: a configuration to begin with.

use std::{fs::File, io, io::Write as _, path::Path};

use anyhow::Context as _;

use crate::{
    exit::{CliError, Exit},
    output,
};

/// The configuration that is written.
const STARTER: &str = include_str!("../starter.toml");

/// Name of the file, unless `--config` names another.
const FILE: &str = "turnfold.toml";

/// Writes the configuration. A file that exists is never changed.
pub(super) fn run(config: Option<&Path>) -> anyhow::Result<Exit> {
    let path = config.unwrap_or(Path::new(FILE));
    let shown = path.display();
    let mut file = match File::create_new(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let why = format!(
                "{shown} exists and is not changed; hint: move it, or name another file with --config"
            );
            return Err(CliError::with_exit(Exit::Usage, why));
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {shown}")),
    };
    file.write_all(STARTER.as_bytes()).with_context(|| format!("cannot write {shown}"))?;
    output::print(&format!(
        "wrote {shown}\nIt offers public prices of models, as comments with their date: compare them with those of your provider.\n"
    ))?;
    Ok(Exit::Ok)
}
