//! What is wrong with fixtures: secrets, answers that nobody asks for, requests that nothing answers.

use std::path::{Path, PathBuf};

use serde::Serialize;
use shared::{Event, Graph, Next, Request, reenact};

use crate::{
    difference::nearest,
    redact::{Hit, KEPT, hits},
    reproduce::{Parted, parted},
    secrets::Secrets,
    suite::{Broken, Fixture, files, within},
};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// The line, counting from 1.
    pub line: usize,
    /// What.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

impl From<Broken> for Finding {
    fn from(it: Broken) -> Self {
        Self { path: it.path, line: it.line, what: it.why }
    }
}

/// Looks at all fixtures in `folder`, each in the folder of its strategy; gives back how many there are, and what is wrong.
///
/// # Errors
///
/// [`Broken`] if the folder cannot be read.
pub fn check(
    graphs: &[&'static dyn Graph],
    folder: &Path,
    secrets: &Secrets,
) -> Result<(usize, Vec<Finding>), Broken> {
    let (mut count, mut findings) = (0, Vec::new());
    for below in within(folder, Path::is_dir)? {
        let name = below.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let graph = graphs.iter().find(|it| it.name() == name);
        let mut fixtures = Vec::new();
        for path in files(&below)? {
            match (graph, Fixture::read(path)) {
                (Some(_), Ok(fixture)) => fixtures.push(fixture),
                (Some(_), Err(broken)) => findings.push(broken.into()),
                (None, Ok(fixture)) => {
                    let known: Vec<_> = graphs.iter().map(|it| it.name()).collect();
                    let why = format!(
                        "no strategy is called {name:?} as this folder is; there are: {}",
                        known.join(", ")
                    );
                    findings.push(fixture.broken(0, why).into());
                }
                // Not everything that lies beside fixtures is one.
                (None, Err(_)) => {}
            }
        }
        count += fixtures.len();
        if let Some(graph) = graph {
            let answered = recorded(*graph, &fixtures);
            findings.extend(fixtures.iter().flat_map(|it| look(*graph, it, secrets, &answered)));
        }
    }
    Ok((count, findings))
}

fn look(
    graph: &'static dyn Graph,
    fixture: &Fixture,
    secrets: &Secrets,
    answered: &[Request],
) -> Vec<Finding> {
    let finding = |nth, why: String| Finding::from(fixture.broken(nth, why));
    let mut findings = Vec::new();
    for (n, event) in fixture.script.iter().enumerate() {
        // What a server keeps is taken away from a capture; written by hand, it is a word as another.
        let written = |it: &Hit| it.what != KEPT || !secrets.find(&it.secret).is_empty();
        for it in hits(event, secrets).unwrap_or_default().into_iter().filter(written) {
            findings.push(finding(n, format!("{} holds {}: put SECRET_1 in its place", it.path, it.what)));
        }
        if let Event::Opened(it) = event
            && it.strategy != graph.name()
        {
            findings
                .push(finding(n, format!("a thread of {} in the folder of {}", it.strategy, graph.name())));
        }
    }
    let told = match fixture.is_whole() {
        true => parts(graph, fixture),
        false => loose_ends(graph, fixture, answered),
    };
    match told {
        Ok(told) => findings.extend(told.into_iter().map(|(n, what)| finding(n, what))),
        Err(why) => findings.push(finding(0, why)),
    }
    findings
}

/// Where today's code parts from a captured log.
fn parts(graph: &'static dyn Graph, fixture: &Fixture) -> Result<Vec<(usize, String)>, String> {
    let parted = parted(graph, &fixture.script).map_err(|error| error.to_string())?;
    let told = |it: Parted| {
        let at = it.difference().map(|it| format!("\n  first difference at {it}")).unwrap_or_default();
        let Parted { seq, then, today } = it;
        let last = fixture.script.len().saturating_sub(1);
        let what = match (then, today) {
            (Some(then), None) if then.is_outside() => format!("no longer asked for: {then}"),
            (Some(Event::Asked(then)), Some(Event::Asked(today))) => {
                let miss = today.requests.iter().find(|it| !then.requests.contains(it));
                let miss = miss.map(|it| near(it, &then.requests)).unwrap_or_default();
                format!("{} asks otherwise today{miss}", today.node)
            }
            (Some(then), Some(today)) => format!("recorded otherwise{at}\n  then:  {then}\n  today: {today}"),
            (Some(then), None) => format!("today's code does not come to this: {then}"),
            (None, Some(today)) => format!("the log ends here, and today's code goes on: {today}"),
            (None, None) => String::new(),
        };
        (seq.min(last), what)
    };
    Ok(parted.map(told).into_iter().collect())
}

/// What nobody asks for any more in a fixture, and what it leaves without an answer.
fn loose_ends(
    graph: &'static dyn Graph,
    fixture: &Fixture,
    answered: &[Request],
) -> Result<Vec<(usize, String)>, String> {
    let lived = reenact(graph, &fixture.script).map_err(|error| error.to_string())?;
    let outside: Vec<usize> = (0..fixture.script.len()).filter(|n| fixture.script[*n].is_outside()).collect();
    let lines = &outside[outside.len().saturating_sub(lived.left_over.len())..];
    let told = |n: &usize| (*n, format!("no longer asked for: {}", fixture.script[*n]));
    let mut told: Vec<_> = lines.iter().map(told).collect();
    let thread = graph.replay(&lived.log).map_err(|error| error.to_string())?;
    if let Next::Perform(due) = thread.next().map_err(|error| error.to_string())? {
        let last = lines.first().copied().unwrap_or(fixture.script.len()).saturating_sub(1);
        told.extend(due.iter().map(|it| (last, format!("nothing answers{}", near(&it.request, answered)))));
    }
    Ok(told)
}

/// A request, the nearest that was recorded, and where they differ.
fn near<'a>(wanted: &Request, recorded: impl IntoIterator<Item = &'a Request>) -> String {
    match nearest(wanted, recorded) {
        None => format!(": {wanted}"),
        Some((it, difference)) => {
            format!(": {wanted}\n  the nearest that was recorded: {it}\n  first difference at {difference}")
        }
    }
}

/// Every request that some fixture answers.
fn recorded(graph: &'static dyn Graph, fixtures: &[Fixture]) -> Vec<Request> {
    let mut answered = Vec::new();
    for fixture in fixtures {
        let Ok(lived) = reenact(graph, &fixture.script) else { continue };
        let mut asked = Vec::new();
        for event in &lived.log {
            if let Event::Asked(it) = event {
                asked.clone_from(&it.requests);
            }
            if let Event::Answered(it) = event
                && let Some(request) = asked.get(it.slot).filter(|it| !answered.contains(*it))
            {
                answered.push(request.clone());
            }
        }
    }
    answered
}

/// The lines of a captured fixture as today's code writes them, where they are others than now. What came from outside stays.
///
/// # Errors
///
/// Why it must be captured anew: today's code no longer asks for all that was answered, or asks for more.
pub fn refreshed(graph: &'static dyn Graph, fixture: &Fixture) -> Result<Option<Vec<Event>>, Finding> {
    let broken = |why: String| Finding::from(fixture.broken(0, why));
    let ends = loose_ends(graph, fixture, &[]).map_err(broken)?;
    if let Some((n, what)) = ends.into_iter().next() {
        return Err(fixture.broken(n, format!("{what}; take it away, or capture the thread anew")).into());
    }
    if !fixture.is_whole() {
        return Ok(None);
    }
    let log = reenact(graph, &fixture.script).map_err(|error| broken(error.to_string()))?.log;
    Ok(parted(graph, &fixture.script).map_err(|error| broken(error.to_string()))?.map(|_| log))
}
