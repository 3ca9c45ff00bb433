//! The OpenAPI document and the Swagger UI page that displays it.

use std::sync::{Arc, LazyLock};

use api_types::{Problem, Scope};
use axum::{
    Router,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use utoipa::{
    OpenApi,
    openapi::{
        Content, Ref, RefOr, ResponseBuilder,
        path::Operation,
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};
use utoipa_swagger_ui::Config;

use super::generator_rules;
use crate::server::{
    extract::Path,
    problem::{ApiError, Kind, PROBLEM_JSON},
    state::AppState,
};

/// Path of the document.
const DOCUMENT: &str = "/openapi.json";

/// Content security policy: the browser loads nothing from other hosts.
const SAME_ORIGIN_ONLY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                              frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Name of the security scheme.
const BEARER: &str = "bearer";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "turnfold",
        description = "Runs turns of LLM agents as durable jobs. A client submits a turn; the event log of its thread \
                       records everything that follows.\n\nErrors are problem details (RFC 9457) with the field `error` in OpenAI's shape, times are RFC 3339 \
                       in UTC, and ids are UUIDs. A list has the fields `data` and `has_more`; to read the next page, \
                       repeat the request with `after` set to the id of the last item. Paths with the tag `openai` or \
                       `bulk` follow OpenAI's API instead.\n\nEach route needs one scope of the key: `submit`, `read`, \
                       `answer`, `operate` or `admin`."
    ),
    components(schemas(Problem)),
    tags(
        (name = "turns", description = "Submit turns and read their results."),
        (name = "threads", description = "Conversations, each with one event log."),
        (name = "inbox", description = "Open questions to people, in the format of agent inboxes."),
        (name = "queue", description = "Turns that are not running, and the reasons."),
        (name = "workers", description = "Workers that run. For operators."),
        (name = "mcp", description = "MCP servers: state, tools, and approval of changed tools. For operators."),
        (name = "audit", description = "Integrity and replay of many threads, and checkpoints."),
        (name = "pauses", description = "Pause strategies, models and tenants. For operators."),
        (name = "keys", description = "API keys: create, list, rotate and revoke. Keys of a tenant are managed by its own admin keys."),
        (name = "openai", description = "OpenAI's chat completions. A strategy is a model."),
        (name = "bulk", description = "Files and batches, as in OpenAI's API."),
        (name = "schedules", description = "Turns and batches that are submitted at the times of a cron expression."),
        (name = "webhooks", description = "Webhooks that report the ends of turns and batches, questions and changes, and their deliveries."),
        (name = "strategies", description = "Agent strategies and their graphs."),
        (name = "health", description = "Liveness, readiness and this document.")
    )
)]
struct Document;

/// The document as JSON.
pub(super) static TEXT: LazyLock<String> = LazyLock::new(super::openapi);

/// Completes the document with everything that all routes share, and returns it as JSON.
pub(super) fn document(routes: utoipa::openapi::OpenApi) -> String {
    let mut document = Document::openapi();
    document.merge(routes);
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
        "A key of `turnfold key create`, or from `[api] keys` or `[tenants.NAME]`. Not required if no keys are configured.",
    ));
    let components = document.components.get_or_insert_default();
    components.security_schemes.insert(BEARER.to_owned(), RefOr::T(SecurityScheme::Http(scheme.build())));
    // Serializing strings and numbers cannot fail.
    let mut document = serde_json::to_value(&document).unwrap_or_default();
    generator_rules::apply(&mut document);
    document.to_string()
}

/// Adds the security scheme with the scope, if one is needed, and the common errors to a protected route.
pub(super) fn protect(operation: &mut Operation, scope: Option<Scope>) {
    let key = SecurityRequirement::new(BEARER, scope.map(Scope::as_str));
    operation.security = Some(vec![key, SecurityRequirement::default()]);
    let is_openai = operation.tags.iter().flatten().any(|tag| tag == "openai" || tag == "bulk");
    let kind = if is_openai { "application/json" } else { PROBLEM_JSON };
    let problem = |description: &str| {
        let content = Content::new(Some(Ref::from_schema_name("Problem")));
        RefOr::T(ResponseBuilder::new().description(description).content(kind, content).build())
    };
    let responses = &mut operation.responses.responses;
    responses.insert("401".to_owned(), problem("A valid key is required."));
    if let Some(scope) = scope {
        let forbidden = format!("The key lacks the scope `{scope}`.");
        responses.entry("403".to_owned()).or_insert_with(|| problem(&forbidden));
    }
    responses.insert(
        "503".to_owned(),
        problem("The store or the queue is temporarily unavailable; retry after `Retry-After`."),
    );
    responses.insert("default".to_owned(), problem("Any other error."));
}

/// Show the OpenAPI document
///
/// Returns this document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "health", operation_id = "openapi",
    responses((status = 200, description = "The document.", body = Object, content_type = "application/json"))
)]
pub(super) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str())
}

/// Routes of the page and its files.
pub(super) fn page() -> Router<Arc<AppState>> {
    Router::new()
        .route("/docs", get(async || Redirect::to("/docs/")))
        .route("/docs/", get(async || file("index.html")))
        .route("/docs/{*rest}", get(async |Path(rest): Path<String>| file(&rest)))
}

fn file(path: &str) -> Result<Response, ApiError> {
    // The validator is an external service.
    let config =
        Config::from(DOCUMENT).validator_url("none").try_it_out_enabled(true).display_request_duration(true);
    let file = utoipa_swagger_ui::serve(path, Arc::new(config));
    let file = file.map_err(|err| Kind::Internal.because(format!("cannot build the page: {err}")))?;
    let file =
        file.ok_or_else(|| Kind::UnknownPath.because(format!("the documentation page has no file {path}")))?;
    let mut response =
        (StatusCode::OK, [(header::CONTENT_TYPE, file.content_type)], file.bytes).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SAME_ORIGIN_ONLY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if file.gzpipped {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}
