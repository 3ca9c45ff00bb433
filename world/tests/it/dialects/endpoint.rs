//! An endpoint of one dialect that sends prepared replies.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use shared::Reply;
use world::Dialect;

use super::{replies, strict};

/// A running endpoint.
pub(super) struct Endpoint {
    pub(super) base_url: String,
    pub(super) dialect: Dialect,
    state: Arc<EndpointState>,
}

struct EndpointState {
    dialect: Dialect,
    reply: Mutex<Reply>,
    refused: Mutex<Vec<String>>,
}

impl Endpoint {
    pub(super) async fn serve(dialect: Dialect) -> Self {
        let state = Arc::new(EndpointState { dialect, reply: Mutex::default(), refused: Mutex::default() });
        let app = Router::new()
            .route("/v1/chat/completions", post(complete))
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&state));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        Self { base_url, dialect, state }
    }

    /// Sets the reply to the next request that is not refused.
    pub(super) fn will_reply(&self, reply: &Reply) {
        *self.state.reply.lock().unwrap() = reply.clone();
    }

    /// Returns the reasons of all refusals.
    pub(super) fn refused(&self) -> Vec<String> {
        self.state.refused.lock().unwrap().clone()
    }

    /// Returns true if replies of the dialect hold reasoning.
    pub(super) fn reasons(&self) -> bool {
        replies::reasons(self.dialect)
    }
}

async fn complete(State(state): State<Arc<EndpointState>>, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap();
    if let Err(why) = strict::check(state.dialect, &request) {
        state.refused.lock().unwrap().push(why.clone());
        return refusal(state.dialect, &why);
    }
    let reply = state.reply.lock().unwrap().clone();
    let body = replies::written(state.dialect, &reply, &request);
    let kind = if request["stream"] == true { "text/event-stream" } else { "application/json" };
    ([("content-type", kind)], body).into_response()
}

/// Writes a refusal in the format of the dialect.
fn refusal(dialect: Dialect, why: &str) -> Response {
    let (status, body) = match dialect {
        Dialect::Vllm => {
            (400, json!({ "object": "error", "message": why, "type": "BadRequestError", "code": 400 }))
        }
        Dialect::LlamaCpp => {
            (500, json!({ "error": { "code": 500, "message": why, "type": "server_error" } }))
        }
        Dialect::Gemini => {
            (400, json!([{ "error": { "code": 400, "message": why, "status": "INVALID_ARGUMENT" } }]))
        }
        Dialect::Mistral => {
            let detail = json!([{ "type": "value_error", "loc": ["body"], "msg": why }]);
            (
                422,
                json!({ "object": "error", "message": { "detail": detail }, "type": "invalid_request_error" }),
            )
        }
        Dialect::OpenRouter => {
            let raw = json!({ "object": "error", "message": why, "code": "3230" }).to_string();
            let metadata = json!({ "raw": raw, "provider_name": "Upstream" });
            (
                400,
                json!({ "error": { "message": "Provider returned error", "code": 400, "metadata": metadata } }),
            )
        }
        Dialect::OpenAi
        | Dialect::Azure
        | Dialect::Anthropic
        | Dialect::Ollama
        | Dialect::Groq
        | Dialect::Compatible => {
            (400, json!({ "error": { "message": why, "type": "invalid_request_error", "code": null } }))
        }
    };
    (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
}
