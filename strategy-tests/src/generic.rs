//! The four tests that every strategy gets.

use std::collections::{BTreeMap, BTreeSet};

use shared::{
    DynThread, Edge, Event, Graph, InvalidLog, Next, NodeInfo, Request, Safety, UsageTotal, Walked, map,
    replay, rerun, transcript,
};

use crate::{
    sent,
    snapshot::Snapshot,
    suite::{Broken, Fixture, Suite},
};

impl Suite {
    /// Returns a readable transcript of each fixture as today's code runs it, with the final state.
    ///
    /// # Errors
    ///
    /// [`Broken`] if today's code rejects a fixture.
    pub fn transcripts(&self) -> Result<Vec<Snapshot>, Broken> {
        self.fixtures.iter().map(|fixture| self.transcript(fixture)).collect()
    }

    /// Returns the transcript of one fixture.
    pub(crate) fn transcript(&self, fixture: &Fixture) -> Result<Snapshot, Broken> {
        let contents = final_transcript(self.graph, &fixture.script).map_err(|why| fixture.broken(0, why))?;
        Ok(Snapshot { folder: self.folder.clone(), name: fixture.name.clone(), contents })
    }

    /// Checks a takeover after every event: the new worker must take the same next step, or the next event must be external and
    /// able to arrive then. A call that may be repeated is repeated, and no person is asked about it.
    ///
    /// # Errors
    ///
    /// [`Broken`] at the first event where this fails.
    pub fn crash_anywhere(&self) -> Result<(), Broken> {
        self.fixtures.iter().try_for_each(|fixture| self.crash_of(fixture))
    }

    /// Checks a takeover after every event of one fixture.
    pub(crate) fn crash_of(&self, fixture: &Fixture) -> Result<(), Broken> {
        let stuck = |error: InvalidLog| fixture.broken(0, error.to_string());
        let log = self.rerun(fixture)?.log;
        let mut thread = self.graph.begin();
        let mut asked: &[Request] = &[];
        for (cut, event) in log.iter().enumerate() {
            let next = thread.next().map_err(stuck)?;
            if let Event::Asked(event) = event {
                asked = &event.requests;
            }
            if !follows(&next, event) || !may_be_doubted(thread.as_ref(), asked, &next, event) {
                let why = format!(
                    "after a crash before event {cut}, another worker would not continue with {event}"
                );
                return Err(fixture.broken(0, why));
            }
            thread.apply(event).map_err(stuck)?;
        }
        match replay(self.graph, &log).map_err(stuck)?.first() {
            None => Ok(()),
            Some(first) => {
                let why = format!("event {}: {}, then {}", first.seq, first.then, first.today);
                Err(fixture.broken(0, why))
            }
        }
    }

    /// Returns the map of the strategy, with edges that no fixture takes dashed.
    ///
    /// # Errors
    ///
    /// [`Broken`] if a fixture takes an edge that is not on the map.
    pub fn map(&self) -> Result<Snapshot, Broken> {
        let contents = map(&self.graph.topology(), Some(&self.walked()?));
        Ok(Snapshot { folder: self.folder.clone(), name: "map".to_owned(), contents })
    }

    /// Returns the edges that no fixture takes, as text.
    ///
    /// # Errors
    ///
    /// [`Broken`] if a fixture takes an edge that is not on the map.
    pub fn dashed(&self) -> Result<Vec<String>, Broken> {
        let walked = self.walked()?;
        let dashed = edges(self.graph).into_iter().filter(|edge| !walked.contains(edge));
        Ok(dashed.map(|(from, to)| format!("{}: {}", self.graph.name(), edge_text(&from, &to))).collect())
    }

    /// Returns in full what models and operators read: of each node its own tools, the schema of the answer, every distinct prompt
    /// and the parts of requests that no event shows; the usage of each fixture that reports tokens; and of the strategy its purpose,
    /// the defaults and the schema of its configuration.
    ///
    /// # Errors
    ///
    /// [`Broken`] if today's code rejects a fixture.
    pub fn prompts(&self) -> Result<Snapshot, Broken> {
        let (mut read, mut used) = (BTreeMap::new(), Vec::new());
        for fixture in &self.fixtures {
            let usage = self.read_fixture(fixture, &mut read)?;
            if 0 < usage.tokens() {
                let usage = serde_json::to_string(&usage).unwrap_or_else(|error| error.to_string());
                used.push(format!("{}: {usage}", fixture.name));
            }
        }
        let mut all: Vec<String> = read
            .iter()
            .flat_map(|(node, texts)| texts.iter().map(move |(of, text)| format!("── {node}{of}\n{text}\n")))
            .collect();
        if !used.is_empty() {
            all.push(format!("── usage\n{}\n", used.join("\n")));
        }
        let graph = self.graph;
        let nodes: Vec<String> = graph.nodes().iter().map(node_text).collect();
        all.push(format!("── nodes\n{}\n", nodes.join("\n")));
        all.push(format!("── about\n{}\n", graph.about()));
        all.push(format!("── configuration · defaults\n{}\n", json(&graph.defaults())));
        all.push(format!("── configuration · schema\n{}\n", json(&graph.config_schema())));
        let contents = all.join("\n");
        Ok(Snapshot { folder: self.folder.clone(), name: "prompts".to_owned(), contents })
    }

    /// Adds what the models of a fixture read, by node. Returns the usage of its thread.
    fn read_fixture(
        &self,
        fixture: &Fixture,
        read: &mut BTreeMap<String, BTreeSet<sent::Part>>,
    ) -> Result<UsageTotal, Broken> {
        let mut thread = self.graph.begin();
        let stuck = |error: InvalidLog| fixture.broken(0, error.to_string());
        for event in self.rerun(fixture)?.log {
            thread.apply(&event).map_err(stuck)?;
            if let Some(node) = thread.node() {
                read.entry(node)
                    .or_default()
                    .extend(sent::parts(&fixture.name, thread.as_ref()).map_err(stuck)?);
            }
            let Event::Asked(asked) = event else { continue };
            let texts = read.entry(asked.node).or_default();
            texts.extend(thread.tools().iter().map(|tool| (" · tool", json(tool))));
            texts.extend(thread.schema().iter().map(|schema| (" · answer", json(schema))));
            for request in asked.requests {
                if let Request::Chat { system, .. } = request {
                    texts.insert(("", system));
                }
            }
        }
        Ok(*thread.usage())
    }

    fn walked(&self) -> Result<Walked, Broken> {
        let (known, mut walked) = (edges(self.graph), Walked::new());
        for fixture in &self.fixtures {
            for edge in self.rerun(fixture)?.log.iter().filter_map(taken_edge) {
                if !known.contains(&edge) {
                    let why = format!("the fixture leaves the map: {}", edge_text(&edge.0, &edge.1));
                    return Err(fixture.broken(0, why));
                }
                walked.insert(edge);
            }
        }
        Ok(walked)
    }
}

/// Describes what an operator may configure of a node.
fn node_text(node: &NodeInfo) -> String {
    let NodeInfo { name, asks_model, prompt, model_key } = node;
    let model = if *asks_model { format!(" · model as {model_key}") } else { String::new() };
    format!("{name}{model}{}", if prompt.is_some() { " · prompt" } else { "" })
}

pub(crate) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string())
}

/// Transcript of a script run by today's code, with the final state.
pub(crate) fn final_transcript(graph: &'static dyn Graph, script: &[Event]) -> Result<String, String> {
    let text = |error: shared::InvalidLog| error.to_string();
    let result = rerun(graph, script).map_err(text)?;
    let left = result
        .unused
        .iter()
        .map(|request| format!("     no longer asked for: {request}\n"))
        .collect::<String>();
    let state = graph.fold(&result.log).map_err(text)?.state().map_err(|error| error.to_string())?;
    Ok(format!("{}{left}\nstate {state:#}", transcript(&result.log)))
}

fn follows(next: &Next, event: &Event) -> bool {
    match next {
        // A write that was in progress when the worker died may have happened and must not be repeated.
        Next::Append(Event::InDoubt(_)) | Next::Wait => event.is_external(),
        Next::Append(next) if event.is_decision() => next == event,
        Next::Append(_) => event.is_external(),
        Next::Perform(due) => {
            let attempted = matches!(event, Event::Attempted(attempted) if due.iter().any(|due| due.slot == attempted.slot));
            event.is_external() || attempted
        }
    }
}

/// Returns false if a person would be asked about a call that may be repeated.
fn may_be_doubted(thread: &dyn DynThread, asked: &[Request], next: &Next, event: &Event) -> bool {
    let (Next::Append(Event::InDoubt(doubt)), false) = (next, matches!(event, Event::InDoubt(_))) else {
        return true;
    };
    let Some(Request::CallTool { server, call }) = asked.get(doubt.slot) else { return true };
    let tools = thread.server_tools(server).unwrap_or_default();
    tools.iter().all(|tool| tool.name != call.name || tool.safety == Safety::Write)
}

/// The edge that an event takes. The end by a budget belongs to the engine and is on no strategy's map.
pub(crate) fn taken_edge(event: &Event) -> Option<(String, Edge<String>)> {
    let Event::Decided(decided) = event else { return None };
    decided.budget_exceeded.is_none().then(|| (decided.node.clone(), Edge::taken(&decided.to)))
}

pub(crate) fn edges(graph: &'static dyn Graph) -> Walked {
    let edges = graph.topology().edges;
    edges.into_iter().flat_map(|(from, tos)| tos.into_iter().map(move |to| (from.clone(), to))).collect()
}

/// An edge as text.
pub(crate) fn edge_text(from: &str, to: &Edge<String>) -> String {
    match to {
        Edge::To(node) => format!("{from} → {node}"),
        Edge::Ask(node) => format!("{from} → a person → {node}"),
        Edge::End => format!("{from} → end"),
    }
}
