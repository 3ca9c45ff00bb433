//! The configuration: precedence of the layers, messages about mistakes, and completeness of the reference.

mod entries;
mod layers;
mod limits;
mod manual;
mod mistakes;
mod nodes;
mod secrets;

use std::fs;
use tempfile::TempDir;
use turnfold::config::{Origins, Settings, Sources};

/// Sources with a folder that contains these files, and an empty environment.
fn sources(files: &[(&str, &str)]) -> (TempDir, Sources) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let sources =
        Sources { folder: folder.path().into(), strategies: strategies::all(), ..Sources::default() };
    (folder, sources)
}

fn variable(mut sources: Sources, name: &str, value: &str) -> Sources {
    sources.environment.insert(name.into(), value.into());
    sources
}

/// Loads a `turnfold.toml` with this content.
fn toml(text: &str) -> (Settings, Origins) {
    let (_folder, sources) = sources(&[("turnfold.toml", text)]);
    Settings::load(sources).unwrap()
}

/// The error message for a `turnfold.toml` with this content.
fn error_of(text: &str) -> String {
    let (_folder, sources) = sources(&[("turnfold.toml", text)]);
    refusal(sources)
}

fn refusal(sources: Sources) -> String {
    Settings::load(sources).unwrap_err().to_string()
}

fn shown(origins: &Origins, key: &str) -> (String, String) {
    let all = origins.shown();
    let found = all.into_iter().find(|(it, ..)| it == key);
    let (_, value, origin) = found.unwrap_or_else(|| panic!("{key} is not shown"));
    (value, origin)
}
