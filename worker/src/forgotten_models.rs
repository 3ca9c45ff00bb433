//! Models about which an operator had everything forgotten, as a worker knows them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use queue::{
    clock,
    rate_limits::{RateLimiter, Subject},
};
use shared::{DynThread, Event};
use store::ForgottenModel;
use threads::Log;
use tracing::{info, warn};
use world::World;

use crate::learned_limits::LearnedLimits;

/// Times at which models were forgotten, in microseconds since the Unix epoch. `None` until they were read.
#[derive(Default)]
pub(crate) struct ForgottenModels(Mutex<Option<BTreeMap<String, i64>>>);

impl ForgottenModels {
    /// Reads the requests of operators, and forgets what this worker learned before them. The learned rate of a throttled model
    /// is forgotten with it, for all workers, unless this is the first reading: those requests were obeyed before this worker
    /// started.
    pub(crate) async fn refresh<L: Log>(
        &self,
        store: &L,
        world: &dyn World,
        limits: &dyn RateLimiter,
        learned: &LearnedLimits,
    ) {
        let requests = match store.forgotten_models().await {
            Ok(requests) => requests,
            Err(error) => {
                warn!(%error, "cannot read which models were forgotten, retrying at the next sweep");
                return;
            }
        };
        let (models, is_first) = self.update(requests);
        for model in models {
            world.forget_model(&model);
            learned.forget(&model);
            if is_first {
                continue;
            }
            if let Err(error) = limits.forget(&Subject::Model(model.clone())).await {
                warn!(model, %error, "cannot forget at which rate a model took requests");
            }
            info!(model, "what was learned about the model is forgotten");
        }
    }

    /// Returns the models with a new request, and true at the first call.
    fn update(&self, requests: Vec<ForgottenModel>) -> (Vec<String>, bool) {
        let mut known = self.lock();
        let is_first = known.is_none();
        let times = known.get_or_insert_default();
        let is_new =
            |request: &ForgottenModel| times.insert(request.model.clone(), request.at) != Some(request.at);
        (requests.into_iter().filter(is_new).map(|request| request.model).collect(), is_first)
    }

    /// Adds to the start of a turn which models its thread forgets.
    pub(crate) fn note(&self, thread: &dyn DynThread, mut event: Event) -> Event {
        let known = self.lock();
        if let Event::TurnStarted(started) = &mut event
            && let Some(known) = known.as_ref().filter(|known| !known.is_empty())
        {
            let times = known.iter().map(|(model, at)| (model.clone(), clock::rfc3339(*at))).collect();
            started.forgotten_models = thread.models_to_forget(&times);
        }
        event
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<String, i64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[test]
fn a_request_is_obeyed_once() {
    let forgotten = ForgottenModels::default();
    let request = |model: &str, at| ForgottenModel { model: model.to_owned(), by: "Ada".to_owned(), at };
    let update = |requests: &[ForgottenModel]| forgotten.update(requests.to_vec());
    let both = || vec!["a/x".to_owned(), "a/y".to_owned()];
    assert_eq!(update(&[request("a/x", 1), request("a/y", 1)]), (both(), true), "obeyed before the start");
    assert_eq!(update(&[request("a/x", 1), request("a/y", 1)]), (Vec::new(), false));
    assert_eq!(update(&[request("a/x", 2), request("a/y", 1)]), (vec!["a/x".to_owned()], false));
}

#[test]
fn a_turn_starts_without_the_limits_that_were_learned_before_a_request() {
    let log =
        include_str!("../../fixtures/golden/v1/planner__a_refusal_makes_the_context_window_known.jsonl");
    let mut thread = strategies::find("planner").unwrap().begin();
    let mut started = None;
    for line in log.lines() {
        let mut event: Event = serde_json::from_str(line).unwrap();
        if let Event::TurnStarted(started) = &mut event {
            "2026-12-03T09:00:00Z".clone_into(&mut started.time);
        }
        thread.apply(&event).unwrap();
        started = started.or(Some(event).filter(|event| matches!(event, Event::TurnStarted(_))));
    }
    let forgotten = ForgottenModels::default();
    let noted = || {
        let Event::TurnStarted(noted) = forgotten.note(&*thread, started.clone().unwrap()) else { panic!() };
        noted.forgotten_models
    };
    assert!(noted().is_empty(), "no request was read");
    let request = |at| ForgottenModel { model: "openai/gpt-4o".to_owned(), by: "Ada".to_owned(), at };
    forgotten.update(vec![request(1)]);
    assert!(noted().is_empty(), "the limits were learned later");
    forgotten.update(vec![request(clock::parse_rfc3339("2099-01-01T00:00:00Z").unwrap())]);
    assert_eq!(noted(), ["openai/gpt-4o"]);
}
