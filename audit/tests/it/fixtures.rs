//! The logs of the fixtures, as today's code writes them.

use std::{fs, path::PathBuf};

use shared::{Event, Graph, rerun};

/// The log of a fixture.
pub(crate) struct FixtureLog {
    pub(crate) graph: &'static dyn Graph,
    pub(crate) name: String,
    pub(crate) log: Vec<Event>,
}

/// Logs of all fixtures.
pub(crate) fn all() -> Vec<FixtureLog> {
    strategies::all().into_iter().flat_map(of).collect()
}

/// The log of the fixture with this name.
pub(crate) fn fixture_log(strategy: &str, name: &str) -> FixtureLog {
    all().into_iter().find(|fixture| fixture.graph.name() == strategy && fixture.name == name).unwrap()
}

fn of(graph: &'static dyn Graph) -> Vec<FixtureLog> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(graph.name());
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    let fixture_log = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let script: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        FixtureLog { graph, name, log: rerun(graph, &script).unwrap().log }
    };
    paths.into_iter().map(fixture_log).collect()
}
