//! The fixtures of a strategy, as they lie in a folder: `FOLDER/<strategy>/<name>.jsonl`, an event a line.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shared::{Event, Graph, Reenacted, reenact};

/// A strategy and its fixtures.
pub struct Suite {
    /// The strategy.
    pub graph: &'static dyn Graph,
    /// Where they are.
    pub folder: PathBuf,
    /// All of them, by name.
    pub fixtures: Vec<Fixture>,
}

/// A log, recorded or written by hand.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// What it is called.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Its lines.
    pub script: Vec<Event>,
}

/// A fixture that tests nothing, because it cannot be read or not be lived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {why}", path.display())]
pub struct Broken {
    /// The file, or the folder.
    pub path: PathBuf,
    /// The line, counting from 1.
    pub line: usize,
    /// What is the matter.
    pub why: String,
}

impl Suite {
    /// The suites of these strategies. Each must have a folder.
    ///
    /// # Errors
    ///
    /// [`Broken`] if there is no strategy, a folder is not there or a line is no event.
    pub fn each_of(graphs: &[&'static dyn Graph], folder: &Path) -> Result<Vec<Self>, Broken> {
        if graphs.is_empty() {
            let why = "there is no strategy to test".to_owned();
            return Err(Broken { path: folder.to_owned(), line: 1, why });
        }
        graphs.iter().map(|graph| Self::read(*graph, folder)).collect()
    }

    /// The suite of one strategy, below `folder`.
    ///
    /// # Errors
    ///
    /// [`Broken`] if its folder is not there or a line is no event.
    pub fn read(graph: &'static dyn Graph, folder: &Path) -> Result<Self, Broken> {
        let folder = folder.join(graph.name());
        let fixtures = files(&folder)?.into_iter().map(Fixture::read).collect::<Result<_, _>>()?;
        Ok(Self { graph, folder, fixtures })
    }

    /// A fixture, lived by today's code.
    pub(crate) fn live(&self, fixture: &Fixture) -> Result<Reenacted, Broken> {
        reenact(self.graph, &fixture.script).map_err(|error| fixture.broken(0, error.to_string()))
    }
}

impl Fixture {
    /// Reads one file.
    ///
    /// # Errors
    ///
    /// [`Broken`] at the first line that is no event.
    pub fn read(path: PathBuf) -> Result<Self, Broken> {
        let broken = |line, why| Broken { path: path.clone(), line, why };
        let text = fs::read_to_string(&path).map_err(|error| broken(1, error.to_string()))?;
        let event = |(n, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| broken(n + 1, format!("this is no event: {error}")))
        };
        let script = text.lines().enumerate().map(event).collect::<Result<Vec<Event>, _>>()?;
        if !matches!(script.first(), Some(Event::Opened(_))) {
            return Err(broken(1, "a fixture begins with the event \"opened\"".to_owned()));
        }
        let name = path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { name, path, script })
    }

    /// What is the matter with the event of this number.
    pub(crate) fn broken(&self, nth: usize, why: String) -> Broken {
        Broken { path: self.path.clone(), line: nth + 1, why }
    }

    /// Whether it holds what the code decided, as a captured log does, besides what came from outside.
    pub fn is_whole(&self) -> bool {
        self.script.iter().any(Event::is_decision)
    }
}

/// The fixtures in a folder, in the order of their names.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Broken> {
    within(folder, |it| it.extension().is_some_and(|it| it == "jsonl"))
}

/// What of a folder is wanted, in the order of the names.
pub(crate) fn within(folder: &Path, wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, Broken> {
    let broken = |error: std::io::Error| Broken {
        path: folder.to_owned(),
        line: 1,
        why: format!("there are no fixtures: {error}"),
    };
    let entries = fs::read_dir(folder).map_err(broken)?;
    let mut paths =
        entries.map(|it| it.map(|it| it.path())).collect::<Result<Vec<_>, _>>().map_err(broken)?;
    paths.retain(|it| wanted(it));
    paths.sort();
    Ok(paths)
}
