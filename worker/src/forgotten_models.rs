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

/// Times at which models were forgotten, in microseconds since the Unix epoch.
#[derive(Default)]
pub(crate) struct ForgottenModels(Mutex<BTreeMap<String, i64>>);

impl ForgottenModels {
    /// Reads the requests of operators, and forgets what this worker learned before them. The learned rate of a throttled model
    /// is forgotten with it, for all workers.
    pub(crate) async fn refresh<L: Log>(&self, store: &L, world: &dyn World, limits: &dyn RateLimiter) {
        let requests = match store.forgotten_models().await {
            Ok(requests) => requests,
            Err(error) => {
                warn!(%error, "cannot read which models were forgotten, retrying at the next sweep");
                return;
            }
        };
        for model in self.update(requests) {
            world.forget_model(&model);
            if let Err(error) = limits.forget(&Subject::Model(model.clone())).await {
                warn!(model, %error, "cannot forget at which rate a model took requests");
            }
            info!(model, "what was learned about the model is forgotten");
        }
    }

    /// Returns the models with a new request.
    fn update(&self, requests: Vec<ForgottenModel>) -> Vec<String> {
        let mut known = self.lock();
        let is_new =
            |request: &ForgottenModel| known.insert(request.model.clone(), request.at) != Some(request.at);
        requests.into_iter().filter(is_new).map(|request| request.model).collect()
    }

    /// Adds to the start of a turn which models its thread forgets.
    pub(crate) fn note(&self, thread: &dyn DynThread, mut event: Event) -> Event {
        let known = self.lock();
        if let Event::TurnStarted(started) = &mut event
            && !known.is_empty()
        {
            let times = known.iter().map(|(model, at)| (model.clone(), clock::rfc3339(*at))).collect();
            started.forgotten_models = thread.models_to_forget(&times);
        }
        event
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[test]
fn a_request_is_obeyed_once() {
    let forgotten = ForgottenModels::default();
    let request = |model: &str, at| ForgottenModel { model: model.to_owned(), by: "Ada".to_owned(), at };
    assert_eq!(forgotten.update(vec![request("a/x", 1), request("a/y", 1)]), ["a/x", "a/y"]);
    assert!(forgotten.update(vec![request("a/x", 1), request("a/y", 1)]).is_empty());
    assert_eq!(forgotten.update(vec![request("a/x", 2), request("a/y", 1)]), ["a/x"]);
}
