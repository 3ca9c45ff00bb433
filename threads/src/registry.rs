//! The strategies of this process.

use std::collections::BTreeMap;

use shared::{DynThread, Event, Graph};
use store::{Error, ThreadId};

/// The strategies that this process knows, by name.
#[derive(Clone)]
pub struct StrategyRegistry(BTreeMap<&'static str, &'static dyn Graph>);

impl StrategyRegistry {
    /// Creates a registry of these strategies.
    pub fn new(graphs: impl IntoIterator<Item = &'static dyn Graph>) -> Self {
        Self(graphs.into_iter().map(|graph| (graph.name(), graph)).collect())
    }

    /// Adds a strategy; it replaces one with the same name.
    pub fn with(mut self, graph: &'static dyn Graph) -> Self {
        self.0.insert(graph.name(), graph);
        self
    }

    /// Returns the strategy with this name.
    pub fn find(&self, name: &str) -> Option<&'static dyn Graph> {
        self.0.get(name).copied()
    }

    /// Returns all strategies, ordered by name.
    pub fn all(&self) -> impl Iterator<Item = &'static dyn Graph> + '_ {
        self.0.values().copied()
    }

    /// Returns the names in alphabetical order.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }
}

/// Creates an empty thread with the strategy that the first event names.
pub(crate) fn begin(
    strategies: &StrategyRegistry,
    id: ThreadId,
    first: Option<&Event>,
) -> Result<Box<dyn DynThread>, Error> {
    let name = match first {
        Some(Event::Opened(opened)) => &opened.strategy,
        None => return Err(Error::UnknownThread(id)),
        Some(_) => {
            return Err(Error::Stuck {
                thread: id,
                what: "the log does not begin with the event `opened`".to_owned(),
            });
        }
    };
    let graph = strategies.find(name).ok_or_else(|| {
        let known = strategies.names().into_iter().map(str::to_owned).collect();
        Error::UnknownStrategy { thread: id, name: name.clone(), known }
    })?;
    Ok(graph.begin())
}
