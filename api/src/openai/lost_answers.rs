//! Requests whose answer was lost: the next identical request of the same caller joins the turn, once for each lost answer.
//!
//! ## Why
//!
//! Many clients repeat a request after a 504 or a broken connection, some of them a dozen times, and few mark repetitions. Each
//! would be another turn, and paid for. An identical request after an answer that arrived is a new one.
//!
//! ## What a killed process leaves
//!
//! It cannot keep that answers were lost. [`Waits`](super::waits::Waits) has written what its clients waited for.

use std::{sync::Arc, time::Duration};

use queue::clock;
use sha2::{Digest as _, Sha256};
use store::{AwaitedAnswer, LostAnswer, Turn, TurnId};
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{client_retries::RetryKey, waits::WaitId};
use crate::server::{
    principal::{Actor, Principal},
    problem::{ApiError, Kind},
    state::AppState,
};

/// Time after which an identical request is no repetition. Clients repeat within two minutes.
const REPEATED_WITHIN: Duration = Duration::from_secs(600);

/// Interval of the checks whether another process was killed, and the longest time until that is clear.
const RECHECKED_EVERY: Duration = Duration::from_millis(200);
const CLEAR_WITHIN: Duration = Duration::from_secs(3);

/// Identity of a request, if a lost answer is to be found by it.
pub(super) struct RequestId(Option<String>);

impl RequestId {
    /// Returns the identity of a request. An idempotency key needs none.
    pub(super) fn new(principal: &Principal, by: &Actor, request_hash: &str, key: &RetryKey) -> Self {
        if matches!(key, RetryKey::Client(_)) {
            return Self::none();
        }
        let caller = serde_json::json!([principal.tenant(), by.caller, by.name, request_hash]);
        Self(Some(hex::encode(Sha256::digest(caller.to_string()))))
    }

    /// A request that waits for no answer.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Joins the turn of an identical request whose answer was lost, or submits one. Returns the turn with a guard for its answer, and
    /// true if it was submitted before.
    pub(super) async fn join_or(
        &self,
        app: &Arc<AppState>,
        submit: impl Future<Output = Result<(Turn, bool), ApiError>>,
    ) -> Result<(Awaited, Turn, bool), ApiError> {
        if let Some((awaited, turn)) = self.take_lost(app).await? {
            return Ok((awaited, turn, true));
        }
        let (turn, known) = submit.await?;
        Ok((self.awaits(app, turn.id), turn, known))
    }

    /// Takes the turn of an identical request whose answer was lost, with a guard for its answer.
    pub(super) async fn take_lost(&self, app: &Arc<AppState>) -> Result<Option<(Awaited, Turn)>, ApiError> {
        let Some(key) = &self.0 else { return Ok(None) };
        let since = clock::now().saturating_sub(clock::duration_micros(REPEATED_WITHIN));
        let deadline = Instant::now() + CLEAR_WITHIN;
        loop {
            match app.backends.store.take_lost_answer(key, since).await? {
                LostAnswer::Taken(turn) => return Ok(Some((self.awaits(app, turn.id), *turn))),
                LostAnswer::Unclear if Instant::now() < deadline => sleep(RECHECKED_EVERY).await,
                LostAnswer::Unclear | LostAnswer::None => return Ok(None),
            }
        }
    }

    /// Returns a guard for the answer of a turn.
    pub(super) fn awaits(&self, app: &Arc<AppState>, turn: TurnId) -> Awaited {
        let wait = self.0.clone().map(|key| app.waits.begin(turn, key));
        Awaited { app: Arc::clone(app), wait }
    }
}

/// An answer that a client waits for. It is lost if this is dropped before [`arrives`](Self::arrives).
pub(super) struct Awaited {
    app: Arc<AppState>,
    wait: Option<WaitId>,
}

impl Awaited {
    /// Ends the wait: the answer is sent.
    pub(super) fn arrives(&mut self) {
        self.end();
    }

    /// Ends the wait with the answer, or with this error.
    pub(super) async fn ends_with(mut self, error: Option<&ApiError>) {
        let is_late = |error: &ApiError| matches!(error.kind, Kind::NotYet | Kind::Unavailable);
        if let Some(lost) = self.end().filter(|_| error.is_some_and(is_late)) {
            lose(&self.app, &lost).await;
        }
    }

    fn end(&mut self) -> Option<AwaitedAnswer> {
        self.app.waits.end(self.wait.take()?)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let Some(lost) = self.end() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let app = Arc::clone(&self.app);
        runtime.spawn(async move { lose(&app, &lost).await });
    }
}

async fn lose(app: &AppState, AwaitedAnswer { turn, key, .. }: &AwaitedAnswer) {
    if let Err(error) = app.backends.store.lose_answer(*turn, key).await {
        warn!(%turn, %error, "cannot keep that an answer was lost; a repetition will be another turn");
    }
}
