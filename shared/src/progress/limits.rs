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
    /// Start of the turn in which they were learned.
    learned_at: String,
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

    /// Returns the models whose limits were learned before an operator asked to forget them. The times are RFC 3339.
    pub(super) fn learned_before(&self, forgotten: &BTreeMap<String, String>) -> Vec<String> {
        let is_outdated = |(model, limits): &(&String, &Limits)| {
            forgotten.get(*model).is_some_and(|at| limits.learned_at < *at)
        };
        self.by_model.iter().filter(is_outdated).map(|(model, _)| model.clone()).collect()
    }

    /// Forgets everything about these models.
    pub(super) fn forget(&mut self, models: &[String]) {
        for model in models {
            self.by_model.remove(model);
            self.taken.remove(model);
            self.trial.take_if(|trial| trial.model == *model);
        }
    }

    /// Learns the limits of a refusal. `turn` is the start of its turn.
    pub(super) fn refuse(&mut self, model: &str, failed: &AttemptFailed, asked: usize, turn: &str) {
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
        turn.clone_into(&mut limits.learned_at);
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

#[test]
fn what_was_learned_before_a_request_to_forget_is_forgotten() {
    let failed = serde_json::json!({ "slot": 0, "error": "too long", "context_tokens": 8_000 });
    let failed: AttemptFailed = serde_json::from_value(failed).unwrap();
    let mut limits = LearnedLimits::default();
    limits.refuse("a/x", &failed, 1, "2026-12-03T09:00:00Z");
    limits.refuse("a/y", &failed, 2, "2026-12-03T09:00:00Z");
    let forgotten =
        |at: &str| BTreeMap::from([("a/x".to_owned(), at.to_owned()), ("a/z".to_owned(), at.to_owned())]);
    assert!(limits.learned_before(&forgotten("2026-12-03T08:59:59.999999Z")).is_empty(), "learned later");
    let models = limits.learned_before(&forgotten("2026-12-03T09:00:01.000000Z"));
    assert_eq!(models, ["a/x"]);
    limits.forget(&models);
    assert_eq!((limits.context_tokens("a/x"), limits.context_tokens("a/y")), (None, Some(8_000)));
    limits.refuse("a/x", &failed, 3, "2026-12-03T10:00:00Z");
    assert!(limits.learned_before(&forgotten("2026-12-03T09:00:01.000000Z")).is_empty(), "learned anew");
}
