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

/// Times at which models were forgotten, in microseconds since the Unix epoch. `None` until they were read.
#[derive(Default)]
pub(crate) struct ForgottenModels(Mutex<Option<BTreeMap<String, i64>>>);

impl ForgottenModels {
    /// Reads the requests of operators, and forgets what this worker learned before them. The learned rate of a throttled model
    /// is forgotten with it, for all workers, unless this is the first reading: those requests were obeyed before this worker
    /// started.
    pub(crate) async fn refresh<L: Log>(&self, store: &L, world: &dyn World, limits: &dyn RateLimiter) {
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
