//! The four tests that a strategy gets for nothing.

use std::collections::{BTreeMap, BTreeSet};

use shared::{Edge, Event, Graph, Next, Request, Walked, map, reenact, transcript, verify};

use crate::{
    snapshot::Snapshot,
    suite::{Broken, Fixture, Suite},
};

impl Suite {
    /// What today's code makes of each fixture, as people read it, and what it remembers at the end.
    ///
    /// # Errors
    ///
    /// [`Broken`] if it cannot go on in one.
    pub fn transcripts(&self) -> Result<Vec<Snapshot>, Broken> {
        let one = |it: &Fixture| {
            let contents = lived(self.graph, &it.script).map_err(|why| it.broken(0, why))?;
            Ok(Snapshot { folder: self.folder.clone(), name: it.name.clone(), contents })
        };
        self.fixtures.iter().map(one).collect()
    }

    /// Whichever event a worker dies after, the next worker takes the very next step, or the next event came from outside
    /// and could come now as well.
    ///
    /// # Errors
    ///
    /// [`Broken`] where it would not.
    pub fn crash_anywhere(&self) -> Result<(), Broken> {
        for fixture in &self.fixtures {
            let log = self.live(fixture)?.log;
            let mut thread = self.graph.begin();
            for (cut, event) in log.iter().enumerate() {
                let stuck = |error: shared::Corrupt| fixture.broken(0, error.to_string());
                let next = thread.next().map_err(stuck)?;
                if !follows(&next, event) {
                    let why =
                        format!("cut off before event {cut}, another worker would not go on with {event}");
                    return Err(fixture.broken(0, why));
                }
                thread.apply(event).map_err(stuck)?;
            }
            let divergences =
                verify(self.graph, &log).map_err(|error| fixture.broken(0, error.to_string()))?;
            if let Some(it) = divergences.first() {
                return Err(fixture.broken(0, format!("event {}: {}, then {}", it.seq, it.then, it.today)));
            }
        }
        Ok(())
    }

    /// The map, where what no fixture walks is dashed.
    ///
    /// # Errors
    ///
    /// [`Broken`] if a fixture leaves it.
    pub fn map(&self) -> Result<Snapshot, Broken> {
        let contents = map(&self.graph.topology(), Some(&self.walked()?));
        Ok(Snapshot { folder: self.folder.clone(), name: "map".to_owned(), contents })
    }

    /// Edges that no fixture walks, in words.
    ///
    /// # Errors
    ///
    /// [`Broken`] if a fixture leaves the map.
    pub fn dashed(&self) -> Result<Vec<String>, Broken> {
        let walked = self.walked()?;
        let dashed = edges(self.graph).into_iter().filter(|it| !walked.contains(it));
        Ok(dashed.map(|(from, to)| format!("{}: {}", self.graph.name(), told(&from, &to))).collect())
    }

    /// Every distinct prompt in full.
    ///
    /// # Errors
    ///
    /// [`Broken`] if today's code cannot go on in a fixture.
    pub fn prompts(&self) -> Result<Snapshot, Broken> {
        let mut prompts = BTreeMap::<String, BTreeSet<String>>::new();
        for fixture in &self.fixtures {
            for event in self.live(fixture)?.log {
                let Event::Asked(asked) = event else { continue };
                for request in asked.requests {
                    if let Request::Chat { system, .. } = request {
                        prompts.entry(asked.node.clone()).or_default().insert(system);
                    }
                }
            }
        }
        let all =
            prompts.iter().flat_map(|(node, it)| it.iter().map(move |text| format!("── {node}\n{text}\n")));
        let contents = all.collect::<Vec<_>>().join("\n");
        Ok(Snapshot { folder: self.folder.clone(), name: "prompts".to_owned(), contents })
    }

    fn walked(&self) -> Result<Walked, Broken> {
        let (known, mut walked) = (edges(self.graph), Walked::new());
        for fixture in &self.fixtures {
            for edge in self.live(fixture)?.log.iter().filter_map(walk) {
                if !known.contains(&edge) {
                    let why = format!("it leaves the map: {}", told(&edge.0, &edge.1));
                    return Err(fixture.broken(0, why));
                }
                walked.insert(edge);
            }
        }
        Ok(walked)
    }
}

/// The transcript of a script as today's code lives it, and the state at the end.
pub(crate) fn lived(graph: &'static dyn Graph, script: &[Event]) -> Result<String, String> {
    let told = |error: shared::Corrupt| error.to_string();
    let lived = reenact(graph, script).map_err(told)?;
    let left =
        lived.left_over.iter().map(|it| format!("     no longer asked for: {it}\n")).collect::<String>();
    let state = graph.replay(&lived.log).map_err(told)?.state().map_err(|error| error.to_string())?;
    Ok(format!("{}{left}\nstate {state:#}", transcript(&lived.log)))
}

fn follows(next: &Next, event: &Event) -> bool {
    match next {
        // A write that was under way when the worker died may have happened, and nobody may repeat it.
        Next::Append(Event::Doubted(_)) | Next::Rest => event.is_outside(),
        Next::Append(next) if event.is_decision() => next == event,
        Next::Append(_) => event.is_outside(),
        Next::Perform(due) => {
            let attempted =
                matches!(event, Event::Attempted(it) if due.iter().any(|due| due.slot == it.slot));
            event.is_outside() || attempted
        }
    }
}

/// The edge that an event walks. The end by a budget is the engine's, before any node, and stands on no strategy's map.
pub(crate) fn walk(event: &Event) -> Option<(String, Edge<String>)> {
    let Event::Decided(it) = event else { return None };
    it.spent.is_none().then(|| (it.node.clone(), Edge::taken(&it.to)))
}

pub(crate) fn edges(graph: &'static dyn Graph) -> Walked {
    let edges = graph.topology().edges;
    edges.into_iter().flat_map(|(from, tos)| tos.into_iter().map(move |to| (from.clone(), to))).collect()
}

/// An edge in words.
pub(crate) fn told(from: &str, to: &Edge<String>) -> String {
    match to {
        Edge::To(node) => format!("{from} → {node}"),
        Edge::Ask(node) => format!("{from} → a person → {node}"),
        Edge::End => format!("{from} → end"),
    }
}
