//! Requests that take long: they end when the key or the session of their caller ends.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::header::CONTENT_TYPE,
    response::Response,
};
use futures::{StreamExt as _, future::Either, stream};
use queue::clock;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{api_keys::no_valid_key, caller::Caller, problem::ApiError, state::AppState};

/// Interval between two checks of the key of a request in progress.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Form in which a stream ends with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamForm {
    /// Events of a thread.
    Events,
    /// Chunks of completions.
    Chunks,
    /// Events of a response.
    Response,
}

impl StreamForm {
    /// Returns the form of the streams at a path.
    pub(super) fn at(path: &str) -> Self {
        match path {
            path if path.starts_with("/v1/chat/") || path == "/v1/completions" => Self::Chunks,
            path if path.starts_with("/v1/responses") => Self::Response,
            _ => Self::Events,
        }
    }

    /// Returns the text that ends a stream because the key is not valid any more.
    fn last(self) -> String {
        let error = no_valid_key();
        match self {
            Self::Events => format!("event: problem\ndata: {}\n\n", json!(error.body())),
            Self::Chunks => format!("data: {}\n\ndata: [DONE]\n\n", json!({"error": error.openai()})),
            Self::Response => {
                let mut data = json!(error.openai());
                // Only the stream itself counts its events.
                (data["type"], data["sequence_number"]) = (json!("error"), json!(u32::MAX));
                data["error"] = json!(error.openai());
                format!("event: error\ndata: {data}\n\n")
            }
        }
    }
}

/// A request in progress and its caller.
pub(crate) struct Ongoing {
    pub(crate) app: Arc<AppState>,
    pub(crate) caller: Arc<Caller>,
    /// End of the session to which the request belongs, in microseconds since the Unix epoch.
    pub(crate) session_end: Option<i64>,
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
        form: StreamForm,
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
        let last = form.last();
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

    /// Completes when the key is not valid any more, or the session is over.
    async fn ended(&self) {
        let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            heartbeat.tick().await;
            let is_over = self.session_end.is_some_and(|end| end <= clock::now());
            if is_over || !self.app.keys.is_valid(&self.caller).await {
                return;
            }
        }
    }
}
