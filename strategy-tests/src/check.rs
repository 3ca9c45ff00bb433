//! Checks fixtures for secrets, for answers that no request asks for, and for requests without an answer.

use std::path::{Path, PathBuf};

use serde::Serialize;
use shared::{Event, Graph, Next, Request, rerun};

use crate::{
    redact::{Hit, KEPT, hits},
    reproduce::{Parted, parted},
    request_diff::nearest,
    secrets::Secrets,
    suite::{Broken, Fixture, files, within},
};

/// A problem in a fixture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Path of the fixture.
    pub path: PathBuf,
    /// Line number, counted from 1.
    pub line: usize,
    /// Description of the problem.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

impl From<Broken> for Finding {
    fn from(broken: Broken) -> Self {
        Self { path: broken.path, line: broken.line, what: broken.why }
    }
}

/// Checks all fixtures in `folder`, which has one folder per strategy. Returns the number of fixtures and the
/// findings.
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
        let name = below.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let graph = graphs.iter().find(|graph| graph.name() == name);
        let mut fixtures = Vec::new();
        for path in files(&below)? {
            match (graph, Fixture::read(path)) {
                (Some(_), Ok(fixture)) => fixtures.push(fixture),
                (Some(_), Err(broken)) => findings.push(broken.into()),
                (None, Ok(fixture)) => {
                    let known: Vec<_> = graphs.iter().map(|graph| graph.name()).collect();
                    let why = format!(
                        "unknown strategy {name:?}, the name of this folder; known: {}",
                        known.join(", ")
                    );
                    findings.push(fixture.broken(0, why).into());
                }
                // A folder beside the fixtures need not belong to a strategy.
                (None, Err(_)) => {}
            }
        }
        count += fixtures.len();
        if let Some(graph) = graph {
            let answered = recorded(*graph, &fixtures);
            findings.extend(fixtures.iter().flat_map(|fixture| look(*graph, fixture, secrets, &answered)));
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
        // A captured log never contains values that a server keeps. In a handwritten log they are ordinary words.
        let written = |hit: &Hit| hit.what != KEPT || !secrets.find(&hit.secret).is_empty();
        for hit in hits(event, secrets).unwrap_or_default().into_iter().filter(written) {
            findings.push(finding(
                n,
                format!("{} contains {}; hint: replace it with SECRET_1", hit.path, hit.what),
            ));
        }
        if let Event::Opened(opened) = event
            && opened.strategy != graph.name()
        {
            findings.push(finding(
                n,
                format!("a thread of {} in the folder of {}", opened.strategy, graph.name()),
            ));
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

/// Differences between a captured log and the log that today's code writes.
fn parts(graph: &'static dyn Graph, fixture: &Fixture) -> Result<Vec<(usize, String)>, String> {
    let parted = parted(graph, &fixture.script).map_err(|error| error.to_string())?;
    let told = |parted: Parted| {
        let at = parted
            .difference()
            .map(|difference| format!("\n  first difference at {difference}"))
            .unwrap_or_default();
        let Parted { seq, then, today } = parted;
        let last = fixture.script.len().saturating_sub(1);
        let what = match (then, today) {
            (Some(then), None) if then.is_external() => unasked(&then),
            (Some(Event::Asked(then)), Some(Event::Asked(today))) => {
                let miss = today.requests.iter().find(|request| !then.requests.contains(request));
                let miss = miss.map(|request| near(request, &then.requests)).unwrap_or_default();
                format!("{} makes a different request today{miss}", today.node)
            }
            (Some(then), Some(today)) => {
                format!("recorded differently{at}\n  then:  {then}\n  today: {today}")
            }
            (Some(then), None) => format!("today's code does not reach this event: {then}"),
            (None, Some(today)) => format!("the log ends here, but today's code continues: {today}"),
            (None, None) => String::new(),
        };
        (seq.min(last), what)
    };
    Ok(parted.map(told).into_iter().collect())
}

/// Answers that no request of a fixture asks for any more, and requests that are left without an answer.
fn loose_ends(
    graph: &'static dyn Graph,
    fixture: &Fixture,
    answered: &[Request],
) -> Result<Vec<(usize, String)>, String> {
    let lived = rerun(graph, &fixture.script).map_err(|error| error.to_string())?;
    let outside: Vec<usize> =
        (0..fixture.script.len()).filter(|n| fixture.script[*n].is_external()).collect();
    let lines = &outside[outside.len().saturating_sub(lived.unused.len())..];
    let told = |n: &usize| (*n, unasked(&fixture.script[*n]));
    let mut told: Vec<_> = lines.iter().map(told).collect();
    let thread = graph.fold(&lived.log).map_err(|error| error.to_string())?;
    if let Next::Perform(due) = thread.next().map_err(|error| error.to_string())? {
        let last = lines.first().copied().unwrap_or(fixture.script.len()).saturating_sub(1);
        told.extend(
            due.iter().map(|pending| {
                (last, format!("no answer for a request{}", near(&pending.request, answered)))
            }),
        );
    }
    Ok(told)
}

/// The problem of an answer that no request asks for. An answer is displayed with an indent, which a message leaves out.
fn unasked(event: &Event) -> String {
    format!("no longer asked for: {}", event.to_string().trim_start())
}

/// The recorded request nearest to `wanted`, and the first difference between them.
fn near<'a>(wanted: &Request, recorded: impl IntoIterator<Item = &'a Request>) -> String {
    match nearest(wanted, recorded) {
        None => format!(": {wanted}"),
        Some((request, difference)) => {
            format!(": {wanted}\n  nearest recorded request: {request}\n  first difference at {difference}")
        }
    }
}

/// All requests that the fixtures answer.
fn recorded(graph: &'static dyn Graph, fixtures: &[Fixture]) -> Vec<Request> {
    let mut answered = Vec::new();
    for fixture in fixtures {
        let Ok(lived) = rerun(graph, &fixture.script) else { continue };
        let mut asked = Vec::new();
        for event in &lived.log {
            if let Event::Asked(event) = event {
                asked.clone_from(&event.requests);
            }
            if let Event::Answered(event) = event
                && let Some(request) = asked.get(event.slot).filter(|request| !answered.contains(*request))
            {
                answered.push(request.clone());
            }
        }
    }
    answered
}

/// The lines of a captured fixture as today's code writes them, or `None` if nothing changes. External events are
/// kept.
///
/// # Errors
///
/// The reason why the log must be captured anew: today's code no longer makes all recorded requests, or makes more.
pub fn refreshed(graph: &'static dyn Graph, fixture: &Fixture) -> Result<Option<Vec<Event>>, Finding> {
    let broken = |why: String| Finding::from(fixture.broken(0, why));
    let ends = loose_ends(graph, fixture, &[]).map_err(broken)?;
    if let Some((n, what)) = ends.into_iter().next() {
        return Err(fixture
            .broken(n, format!("{what}; hint: delete the line, or capture the thread again"))
            .into());
    }
    if !fixture.is_whole() {
        return Ok(None);
    }
    let log = rerun(graph, &fixture.script).map_err(|error| broken(error.to_string()))?.log;
    Ok(parted(graph, &fixture.script).map_err(|error| broken(error.to_string()))?.map(|_| log))
}
