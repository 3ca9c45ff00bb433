//! Checks fixtures for secrets, for answers that no request asks for, and for requests without an answer.

use std::path::{Path, PathBuf};

use serde::Serialize;
use shared::{Event, Graph, Next, Request, rerun};

use crate::{
    redact::{Hit, KEPT, hits},
    reproduce::{FirstDivergence, first_divergence},
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
            findings.extend(
                fixtures.iter().flat_map(|fixture| check_fixture(*graph, fixture, secrets, &answered)),
            );
        }
    }
    Ok((count, findings))
}

fn check_fixture(
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
                format!("{} contains {}; hint: replace it with {}", hit.path, hit.what, hit.stands.nth(1)),
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
    let problems = match fixture.is_whole() {
        true => divergences(graph, fixture),
        false => unmatched_requests(graph, fixture, answered),
    };
    match problems {
        Ok(problems) => findings.extend(problems.into_iter().map(|(n, what)| finding(n, what))),
        Err(why) => findings.push(finding(0, why)),
    }
    findings
}

/// Differences between a captured log and the log that today's code writes.
fn divergences(graph: &'static dyn Graph, fixture: &Fixture) -> Result<Vec<(usize, String)>, String> {
    let first_divergence = first_divergence(graph, &fixture.script).map_err(|error| error.to_string())?;
    let problems = |first_divergence: FirstDivergence| {
        let at = first_divergence
            .difference()
            .map(|difference| format!("\n  first difference at {difference}"))
            .unwrap_or_default();
        let FirstDivergence { seq, then, today } = first_divergence;
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
    Ok(first_divergence.map(problems).into_iter().collect())
}

/// Answers that no request of a fixture asks for any more, and requests that are left without an answer.
fn unmatched_requests(
    graph: &'static dyn Graph,
    fixture: &Fixture,
    answered: &[Request],
) -> Result<Vec<(usize, String)>, String> {
    let result = rerun(graph, &fixture.script).map_err(|error| error.to_string())?;
    let outside: Vec<usize> =
        (0..fixture.script.len()).filter(|n| fixture.script[*n].is_external()).collect();
    let lines = &outside[outside.len().saturating_sub(result.unused.len())..];
    let problems = |n: &usize| (*n, unasked(&fixture.script[*n]));
    let mut problems: Vec<_> = lines.iter().map(problems).collect();
    let thread = graph.fold(&result.log).map_err(|error| error.to_string())?;
    if let Next::Perform(due) = thread.next().map_err(|error| error.to_string())? {
        let last = lines.first().copied().unwrap_or(fixture.script.len()).saturating_sub(1);
        problems.extend(
            due.iter().map(|due| (last, format!("no answer for a request{}", near(&due.request, answered)))),
        );
    }
    Ok(problems)
}

/// Describes an answer that no request asks for.
fn unasked(event: &Event) -> String {
    format!("no longer asked for: {}", event.to_string().trim_start())
}

/// The recorded request nearest to `wanted`, and the first difference between them.
fn near<'a>(wanted: &Request, recorded: impl IntoIterator<Item = &'a Request>) -> String {
    match nearest(wanted, recorded) {
        None => format!(": {wanted}"),
        Some((nearest, difference)) => {
            format!(": {wanted}\n  nearest recorded request: {nearest}\n  first difference at {difference}")
        }
    }
}

/// All requests that the fixtures answer.
fn recorded(graph: &'static dyn Graph, fixtures: &[Fixture]) -> Vec<Request> {
    let mut answered = Vec::new();
    for fixture in fixtures {
        let Ok(result) = rerun(graph, &fixture.script) else { continue };
        let mut asked = Vec::new();
        for event in &result.log {
            if let Event::Asked(today) = event {
                asked.clone_from(&today.requests);
            }
            if let Event::Answered(answer) = event
                && let Some(request) = asked.get(answer.slot).filter(|request| !answered.contains(*request))
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
    let ends = unmatched_requests(graph, fixture, &[]).map_err(broken)?;
    if let Some((n, what)) = ends.into_iter().next() {
        return Err(fixture
            .broken(n, format!("{what}; hint: delete the line, or capture the thread again"))
            .into());
    }
    if !fixture.is_whole() {
        return Ok(None);
    }
    let log = rerun(graph, &fixture.script).map_err(|error| broken(error.to_string()))?.log;
    Ok(first_divergence(graph, &fixture.script).map_err(|error| broken(error.to_string()))?.map(|_| log))
}
