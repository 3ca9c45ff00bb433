//! The logs of the fixtures, as today's code writes them.

use std::{fs, path::PathBuf};

use shared::{Event, Graph, rerun};

/// The log of a fixture.
pub(crate) struct Lived {
    pub(crate) graph: &'static dyn Graph,
    pub(crate) name: String,
    pub(crate) log: Vec<Event>,
}

/// Logs of all fixtures.
pub(crate) fn all() -> Vec<Lived> {
    strategies::all().into_iter().flat_map(of).collect()
}

/// The log of the fixture with this name.
pub(crate) fn lived(strategy: &str, name: &str) -> Lived {
    all().into_iter().find(|it| it.graph.name() == strategy && it.name == name).unwrap()
}

fn of(graph: &'static dyn Graph) -> Vec<Lived> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(graph.name());
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.retain(|it| it.extension().is_some_and(|it| it == "jsonl"));
    paths.sort();
    let lived = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let script: Vec<Event> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        Lived { graph, name, log: rerun(graph, &script).unwrap().log }
    };
    paths.into_iter().map(lived).collect()
}
