//! Models that a log asks: of each response, and of each turn.

use std::collections::BTreeSet;

use shared::{Event, Request};
use store::{AskedModel, ModelResponse};

/// Maximum number of models, prompts and nodes of one turn that are counted.
const OF_TURN_MAX: usize = 100;

/// The models of the requests of the last node, by slot, and those of the turn so far.
#[derive(Debug, Default)]
pub(crate) struct AskedModels {
    by_slot: Vec<Option<AskedModel>>,
    of_turn: BTreeSet<AskedModel>,
}

impl AskedModels {
    /// Reads the next event of a log, and returns the response of a model that it records.
    pub(crate) fn read(&mut self, event: &Event) -> Option<ModelResponse> {
        if event.turn_started().is_some() {
            self.of_turn.clear();
        }
        if let Event::Asked(asked) = event {
            self.by_slot.clear();
            self.by_slot.extend(asked.requests.iter().map(|request| model_of(&asked.node, request)));
            let left = OF_TURN_MAX.saturating_sub(self.of_turn.len());
            self.of_turn.extend(self.by_slot.iter().flatten().take(left).cloned());
        }
        self.response(event)
    }

    /// Returns the response of a model that this event records. An event that makes requests records none.
    pub(crate) fn response(&self, event: &Event) -> Option<ModelResponse> {
        let (slot, usage) = event.spent()?;
        let asked = self.by_slot.get(slot)?.clone()?;
        Some(ModelResponse { asked, usage: usage.into_owned() })
    }

    /// Returns the models that the turn has asked so far.
    pub(crate) fn of_turn(&self) -> impl Iterator<Item = &AskedModel> {
        self.of_turn.iter()
    }
}

fn model_of(node: &str, request: &Request) -> Option<AskedModel> {
    let Request::Chat { model, prompt, .. } = request else { return None };
    let (node, prompt, model) = (node.to_owned(), prompt.clone().unwrap_or_default(), model.clone());
    Some(AskedModel { node, prompt, model })
}
