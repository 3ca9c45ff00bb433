//! Limits of models, learned from their refusals: context windows, and the number of images and files of a request.
//!
//! A limit that a refusal names is believed. Where a refusal names none, one smaller request is tried for each part that
//! can be smaller: the limit of that trial is kept if the model takes the request, and forgotten otherwise.

use std::collections::BTreeMap;

use crate::event::AttemptFailed;

/// Limits of one model. `None` where nothing was learned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Limits {
    context_tokens: Option<u64>,
    attachments: Option<u64>,
}

/// Size of a request, as far as it is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestSize {
    /// Tokens of messages, prompt and servers' tools.
    pub(super) tokens: u64,
    /// Images and files.
    pub(super) attachments: u64,
}

/// Limits that are not yet confirmed by an answer.
#[derive(Clone, Debug)]
struct Trial {
    model: String,
    /// Limits before the trial.
    before: Option<Limits>,
    /// Number of the `asked` event whose request was refused.
    asked: usize,
    has_fewer_tokens: bool,
    has_fewer_attachments: bool,
    error: String,
}

/// Parts of a request that were made smaller already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried {
    pub(super) tokens: bool,
    pub(super) attachments: bool,
}

/// Learned limits of all models of a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct LearnedLimits {
    by_model: BTreeMap<String, Limits>,
    /// Largest sizes that each model took.
    taken: BTreeMap<String, RequestSize>,
    trial: Option<Trial>,
}

impl LearnedLimits {
    pub(super) fn context_tokens(&self, model: &str) -> Option<u64> {
        self.by_model.get(model)?.context_tokens
    }

    pub(super) fn attachments(&self, model: &str) -> Option<u64> {
        self.by_model.get(model)?.attachments
    }

    /// Returns the largest sizes that the model took.
    pub(super) fn taken(&self, model: &str) -> RequestSize {
        self.taken.get(model).copied().unwrap_or_default()
    }

    /// Returns the parts that the trial of this model made smaller. `asked` is the number of the event that issued the
    /// refused request: several of one event are one trial.
    pub(super) fn tried(&self, model: &str, asked: usize) -> Tried {
        match &self.trial {
            Some(trial) if trial.model == model && trial.asked != asked => {
                Tried { tokens: trial.has_fewer_tokens, attachments: trial.has_fewer_attachments }
            }
            Some(_) | None => Tried::default(),
        }
    }

    /// Returns the error that began the trial under way.
    pub(super) fn trial_error(&self) -> Option<&str> {
        self.trial.as_ref().map(|trial| trial.error.as_str())
    }

    /// Learns the limits of a refusal.
    pub(super) fn refuse(&mut self, model: &str, failed: &AttemptFailed, asked: usize) {
        if failed.is_trial {
            let before = self.by_model.get(model).cloned();
            let trial = self.trial.take().filter(|trial| trial.model == model);
            let mut trial = trial.unwrap_or_else(|| Trial {
                model: model.to_owned(),
                before,
                asked,
                has_fewer_tokens: false,
                has_fewer_attachments: false,
                error: failed.error.clone(),
            });
            trial.asked = asked;
            trial.has_fewer_tokens |= failed.context_tokens.is_some();
            trial.has_fewer_attachments |= failed.attachments_max.is_some();
            self.trial = Some(trial);
        }
        let limits = self.by_model.entry(model.to_owned()).or_default();
        limits.context_tokens = failed.context_tokens.or(limits.context_tokens);
        limits.attachments = failed.attachments_max.or(limits.attachments);
    }

    /// Records the size of a request that the model took. A trial is confirmed by the answer to a later request.
    pub(super) fn take(&mut self, model: &str, size: RequestSize, asked: usize) {
        self.trial.take_if(|trial| trial.model == model && trial.asked != asked);
        if let Some(taken) = self.taken.get_mut(model) {
            taken.tokens = taken.tokens.max(size.tokens);
            taken.attachments = taken.attachments.max(size.attachments);
        } else {
            self.taken.insert(model.to_owned(), size);
        }
    }

    /// Forgets the limits of a trial that no answer confirmed.
    pub(super) fn end_trial(&mut self) {
        if let Some(Trial { model, before, .. }) = self.trial.take() {
            match before {
                Some(before) => self.by_model.insert(model, before),
                None => self.by_model.remove(&model),
            };
        }
    }
}
