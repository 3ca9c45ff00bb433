//! Responses of models in a log, each with the model that was asked.

use shared::{Event, Request};
use store::ModelResponse;

/// The models of the requests of the last node, by slot.
#[derive(Debug, Default)]
pub(crate) struct AskedModels(Vec<Option<String>>);

impl AskedModels {
    /// Reads the next event of a log, and returns the response of a model that it records.
    pub(crate) fn read(&mut self, event: &Event) -> Option<ModelResponse> {
        if let Event::Asked(asked) = event {
            self.0.clear();
            self.0.extend(asked.requests.iter().map(model_of));
        }
        self.response(event)
    }

    /// Returns the response of a model that this event records. An event that makes requests records none.
    pub(crate) fn response(&self, event: &Event) -> Option<ModelResponse> {
        let (slot, usage) = event.spent()?;
        let model = self.0.get(slot)?.clone()?;
        Some(ModelResponse { model, usage: usage.into_owned() })
    }
}

fn model_of(request: &Request) -> Option<String> {
    if let Request::Chat { model, .. } = request { Some(model.clone()) } else { None }
}
