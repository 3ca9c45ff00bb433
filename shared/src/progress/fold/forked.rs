//! Fork of a log: what the copy keeps of its source, and the configuration from there on.

use serde_json::Value;

use crate::{
    event::Forked,
    node_config::EngineConfig,
    progress::{
        InvalidLog, Progress,
        phase::{Phase, read},
        slot::Slot,
    },
    strategy::Strategy,
};

impl<S: Strategy> Progress<S> {
    /// A request without any history is issued again, because its content may have changed.
    pub(super) fn fold_forked(&mut self, forked: &Forked) -> Result<(), InvalidLog> {
        let state = self.state_after(&forked.facts)?;
        // Calls of cancelled turns end in the source thread.
        self.unended.clear();
        self.is_cancelled = false;
        // The tasks belong to the source thread.
        if let Phase::AwaitingResponses(_, _, slots) | Phase::Failed(_, _, slots, _) = &mut self.at {
            slots.iter_mut().for_each(|slot| slot.task = None);
        }
        self.configure(&forked.config)?;
        if let Some(budget) = &forked.budget {
            self.thread.budget.clone_from(budget);
        }
        self.thread.state = state;
        for (node, prompt) in &forked.prompts {
            self.engine.nodes.entry(node.clone()).or_default().prompt = Some(prompt.clone());
        }
        self.at = match std::mem::replace(&mut self.at, Phase::Idle) {
            Phase::AwaitingResponses(place, _, slots) | Phase::Failed(place, _, slots, _)
                if !slots.iter().any(Slot::is_begun) =>
            {
                Phase::Ready(place.node())
            }
            Phase::AwaitingResponses(place, asked, mut slots) | Phase::Failed(place, asked, mut slots, _) => {
                slots.iter_mut().for_each(Slot::retry);
                Phase::AwaitingResponses(place, asked, slots)
            }
            other @ (Phase::Idle | Phase::AwaitingAnswer(..) | Phase::Ready(_)) => other,
        };
        Ok(())
    }

    /// Replaces the configuration. Null leaves it as it is.
    pub(super) fn configure(&mut self, config: &Value) -> Result<(), InvalidLog> {
        if config.is_null() {
            return Ok(());
        }
        let (engine, own) = EngineConfig::split(config)?;
        self.thread.config = read(&own)?;
        if let Some(servers) = &engine.servers {
            self.thread.servers.retain(|name, _| servers.contains(name));
        }
        self.engine = engine;
        Ok(())
    }
}
