//! Responses of models in a log, each with the model that was asked.

use shared::{Event, Request, Usage};
use store::ModelResponse;

/// The models of the requests of the last node, by slot.
#[derive(Debug, Default)]
pub(crate) struct AskedModels(Vec<Option<String>>);

impl AskedModels {
    /// Reads the next event of a log, and returns the response of a model that it records.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only three kinds of events ask or answer")]
    pub(crate) fn read(&mut self, event: &Event) -> Option<ModelResponse> {
        match event {
            Event::Asked(asked) => {
                self.0.clear();
                self.0.extend(asked.requests.iter().map(model_of));
                None
            }
            Event::Answered(answered) => {
                self.response(answered.slot, answered.usage.as_ref().unwrap_or(&Usage::default()))
            }
            Event::AttemptFailed(failed) => self.response(failed.slot, failed.usage.as_ref()?),
            _ => None,
        }
    }

    fn response(&self, slot: usize, usage: &Usage) -> Option<ModelResponse> {
        let model = self.0.get(slot)?.clone()?;
        Some(ModelResponse { model, usage: usage.clone() })
    }
}

fn model_of(request: &Request) -> Option<String> {
    if let Request::Chat { model, .. } = request { Some(model.clone()) } else { None }
}
