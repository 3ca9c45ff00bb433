//! Limits of models that the threads of this worker learned, for people who look at them. The logs alone decide what counts.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use shared::{AttemptFailed, Event, Request};
use store::{LearnedModel, ThreadId};

/// Maximum models, and maximum trials under way. More are not noted.
const MAX: usize = 1_000;

/// Limits by model, and those that a trial assumes.
#[derive(Default)]
pub(crate) struct LearnedLimits(Mutex<Limits>);

#[derive(Default)]
struct Limits {
    learned: BTreeMap<String, LearnedModel>,
    assumed: BTreeMap<(ThreadId, String), LearnedModel>,
}

impl LearnedLimits {
    /// Notes what the outcome of a request teaches. A trial teaches once its model has answered.
    pub(crate) fn note(&self, thread: ThreadId, request: &Request, event: &Event) {
        let Request::Chat { model, .. } = request else { return };
        if let Event::Answered(_) = event {
            let limits = &mut *self.lock();
            // Nearly always empty: no key is built for an answer.
            if !limits.assumed.is_empty()
                && let Some(learned) = limits.assumed.remove(&(thread, model.clone()))
            {
                limits.learn(learned);
            }
        }
        let Event::AttemptFailed(failed) = event else { return };
        if !failed.is_too_large() {
            return;
        }
        let limits = &mut *self.lock();
        let (learned, assumed) = (limits_of(model, failed), (thread, model.clone()));
        if !failed.is_trial {
            limits.learn(learned);
        } else if limits.assumed.len() < MAX || limits.assumed.contains_key(&assumed) {
            limits.assumed.insert(assumed, learned);
        }
    }

    /// Forgets a model.
    pub(crate) fn forget(&self, model: &str) {
        let mut limits = self.lock();
        limits.learned.remove(model);
        limits.assumed.retain(|(_, assumed), _| assumed != model);
    }

    /// Adds the limits to what was learned otherwise, and returns all of it sorted by model.
    pub(crate) fn with(&self, others: Vec<LearnedModel>) -> Vec<LearnedModel> {
        let mut models = self.lock().learned.clone();
        for other in others {
            let model = models.entry(other.model.clone()).or_default();
            model.model.clone_from(&other.model);
            model.merge(other);
        }
        models.into_values().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Limits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limits {
    fn learn(&mut self, learned: LearnedModel) {
        if self.learned.len() < MAX || self.learned.contains_key(&learned.model) {
            self.learned.entry(learned.model.clone()).or_insert_with(|| learned.clone()).merge(learned);
        }
    }
}

fn limits_of(model: &str, failed: &AttemptFailed) -> LearnedModel {
    LearnedModel {
        model: model.to_owned(),
        context_tokens: failed.context_tokens,
        attachments_max: failed.attachments_max,
        ..LearnedModel::default()
    }
}

#[test]
fn a_trial_teaches_once_the_model_has_answered() {
    let log =
        include_str!("../../fixtures/golden/v1/planner__a_refusal_makes_the_context_window_known.jsonl");
    let events: Vec<Event> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |is: fn(&Event) -> bool| events.iter().find(|event| is(event)).unwrap().clone();
    let Event::AttemptFailed(refused) = find(|event| matches!(event, Event::AttemptFailed(_))) else {
        panic!()
    };
    let answered = find(|event| matches!(event, Event::Answered(_)));
    let (limits, thread) = (LearnedLimits::default(), ThreadId::nil());
    let asked = events.iter().find_map(|event| {
        let Event::Asked(asked) = event else { return None };
        asked.requests.iter().find(|request| matches!(request, Request::Chat { .. }))
    });
    let (request, window) = (asked.unwrap(), refused.context_tokens.unwrap());
    let learned = || limits.with(Vec::new()).first().and_then(|learned| learned.context_tokens);
    limits.note(thread, request, &AttemptFailed { is_trial: true, ..refused.clone() }.into());
    assert_eq!(learned(), None, "not answered yet");
    limits.note(thread, request, &answered);
    assert_eq!(learned(), Some(window));
    let smaller = AttemptFailed { context_tokens: Some(window - 1), is_trial: false, ..refused };
    limits.note(thread, request, &smaller.into());
    assert_eq!(learned(), Some(window - 1));
    let Request::Chat { model, .. } = request else { panic!() };
    limits.forget(model);
    assert_eq!(learned(), None);
}
