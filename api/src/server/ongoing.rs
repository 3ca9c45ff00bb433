//! Requests that take long: they end when the key of their caller ends.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::header::CONTENT_TYPE,
    response::Response,
};
use futures::{StreamExt as _, future::Either, stream};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{api_keys::no_valid_key, caller::Caller, problem::ApiError, state::AppState};

/// Interval between two checks of the key of a request in progress.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Path below which responses have the form of OpenAI's API.
pub(super) const CHAT: &str = "/v1/chat/";

/// A request in progress and its caller.
pub(crate) struct Ongoing {
    pub(crate) app: Arc<AppState>,
    pub(crate) caller: Arc<Caller>,
}

impl Ongoing {
    /// Waits for the response, such as that of a long poll, while the key of the caller is valid. An event stream ends with an
    /// error once the key is not valid any more.
    ///
    /// # Errors
    ///
    /// [`Kind::Unauthorized`](super::problem::Kind::Unauthorized) if the key expired or was revoked meanwhile.
    pub(crate) async fn answer(
        self,
        is_chat: bool,
        response: impl Future<Output = Response>,
    ) -> Result<Response, ApiError> {
        let answered = tokio::select! {
            biased;
            response = response => response,
            () = self.ended() => return Err(no_valid_key()),
        };
        let is_stream = answered
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if !is_stream {
            return Ok(answered);
        }
        let last = match is_chat {
            true => format!("data: {}\n\ndata: [DONE]\n\n", json!({"error": no_valid_key().openai()})),
            false => format!("event: problem\ndata: {}\n\n", json!(no_valid_key().body())),
        };
        Ok(answered.map(|body| self.ending(body, last)))
    }

    /// A body that ends with the text `last` when the key ends.
    fn ending(self, body: Body, last: String) -> Body {
        let ended = Box::pin(async move { self.ended().await });
        let frames = stream::unfold(Some((body.into_data_stream(), ended)), move |open| {
            let last = last.clone();
            async move {
                let (mut frames, ended) = open?;
                match futures::future::select(frames.next(), ended).await {
                    Either::Left((frame, ended)) => Some((frame?, Some((frames, ended)))),
                    Either::Right(((), _)) => Some((Ok(Bytes::from(last)), None)),
                }
            }
        });
        Body::from_stream(frames)
    }

    /// Completes when the key is not valid any more.
    async fn ended(&self) {
        let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            heartbeat.tick().await;
            if !self.app.keys.is_valid(&self.caller).await {
                return;
            }
        }
    }
}
