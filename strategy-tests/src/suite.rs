//! The fixtures of a strategy, read from `FOLDER/<strategy>/<name>.jsonl`, one event per line.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shared::{Event, Graph, Rerun, rerun};

/// A strategy and its fixtures.
pub struct Suite {
    /// The strategy's graph.
    pub graph: &'static dyn Graph,
    /// Folder of the fixtures.
    pub folder: PathBuf,
    /// All fixtures, sorted by name.
    pub fixtures: Vec<Fixture>,
}

/// A log, recorded or written by hand.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// Name of the fixture.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Events of the file.
    pub script: Vec<Event>,
}

/// A fixture that cannot be read, or that today's code rejects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {why}", path.display())]
pub struct Broken {
    /// Path of the file or folder.
    pub path: PathBuf,
    /// Line number, counted from 1.
    pub line: usize,
    /// Description of the problem.
    pub why: String,
}

impl Suite {
    /// Reads the suites of these strategies. Each must have a folder.
    ///
    /// # Errors
    ///
    /// [`Broken`] if no strategy is given, a folder is missing or a line is not an event.
    pub fn each_of(graphs: &[&'static dyn Graph], folder: &Path) -> Result<Vec<Self>, Broken> {
        if graphs.is_empty() {
            let why = "there is no strategy to test".to_owned();
            return Err(Broken { path: folder.to_owned(), line: 1, why });
        }
        graphs.iter().map(|graph| Self::read(*graph, folder)).collect()
    }

    /// Reads the suite of one strategy below `folder`.
    ///
    /// # Errors
    ///
    /// [`Broken`] if its folder is missing or a line is not an event.
    pub fn read(graph: &'static dyn Graph, folder: &Path) -> Result<Self, Broken> {
        let folder = folder.join(graph.name());
        let fixtures = files(&folder)?.into_iter().map(Fixture::read).collect::<Result<_, _>>()?;
        Ok(Self { graph, folder, fixtures })
    }

    /// Runs today's code on a fixture.
    pub(crate) fn live(&self, fixture: &Fixture) -> Result<Rerun, Broken> {
        rerun(self.graph, &fixture.script).map_err(|error| fixture.broken(0, error.to_string()))
    }
}

impl Fixture {
    /// Reads one file.
    ///
    /// # Errors
    ///
    /// [`Broken`] at the first line that is not an event.
    pub fn read(path: PathBuf) -> Result<Self, Broken> {
        let broken = |line, why| Broken { path: path.clone(), line, why };
        let text = fs::read_to_string(&path).map_err(|error| broken(1, error.to_string()))?;
        let event = |(n, line): (usize, &str)| {
            serde_json::from_str(line)
                .map_err(|error| broken(n + 1, format!("this is not an event: {error}")))
        };
        let script = text.lines().enumerate().map(event).collect::<Result<Vec<Event>, _>>()?;
        if !matches!(script.first(), Some(Event::Opened(_))) {
            return Err(broken(1, "a fixture begins with the event \"opened\"".to_owned()));
        }
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { name, path, script })
    }

    /// Describes a problem with the event of this number.
    pub(crate) fn broken(&self, nth: usize, why: String) -> Broken {
        Broken { path: self.path.clone(), line: nth + 1, why }
    }

    /// Reports whether the fixture contains decisions, as a captured log does, and not only external events.
    pub fn is_whole(&self) -> bool {
        self.script.iter().any(Event::is_decision)
    }
}

/// Fixtures in a folder, sorted by name.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Broken> {
    within(folder, |path| path.extension().is_some_and(|extension| extension == "jsonl"))
}

/// Paths in a folder that match, sorted by name.
pub(crate) fn within(folder: &Path, wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, Broken> {
    let broken = |error: std::io::Error| Broken {
        path: folder.to_owned(),
        line: 1,
        why: format!("there are no fixtures: {error}"),
    };
    let entries = fs::read_dir(folder).map_err(broken)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(broken)?;
    paths.retain(|it| wanted(it));
    paths.sort();
    Ok(paths)
}
