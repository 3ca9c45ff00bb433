//! The OpenAPI document, and the page on which it can be read and tried.

use std::sync::{Arc, LazyLock};

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

use crate::{
    extract::Path,
    house::House,
    openai::error::ErrorReply,
    problem::{Kind, PROBLEM_JSON, Problem},
};

/// Where the page finds the document.
const DOCUMENT: &str = "/openapi.json";

/// The browser itself refuses whatever the page would load from elsewhere.
const FROM_HERE_ONLY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                              frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// The name of the security scheme.
const BEARER: &str = "bearer";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "turnfold",
        description = "Runs conversation turns of LLM agents as durable jobs: a turn goes in, its thread's log says \
                       everything that came of it.\n\nErrors are problem details (RFC 9457); times are RFC 3339; \
                       ids are UUIDs; lists come in pages, newest first, continued with `after`."
    ),
    components(schemas(Problem, ErrorReply)),
    tags(
        (name = "turns", description = "What is said, and what came of it."),
        (name = "threads", description = "Conversations: one log each."),
        (name = "inbox", description = "What is asked of people, in the form that agent inboxes speak."),
        (name = "queue", description = "What turns wait for."),
        (name = "pauses", description = "What an operator lets nothing new begin of."),
        (name = "openai", description = "The same in OpenAI's dialect: a strategy is a model. Errors have OpenAI's shape."),
        (name = "bulk", description = "Files of lines, and batches of them, in OpenAI's dialect, errors too."),
        (name = "webhooks", description = "Who is told of the ends of batches, and what they were told."),
        (name = "strategies", description = "The graphs that threads run under."),
        (name = "health", description = "Whether the api lives and can work, and this document.")
    )
)]
struct Document;

static TEXT: LazyLock<String> = LazyLock::new(super::openapi);

/// The document as JSON, with what all of its routes have in common.
pub(super) fn document(routes: utoipa::openapi::OpenApi) -> String {
    let mut document = Document::openapi();
    document.merge(routes);
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
        "One of the keys under `[api] keys`; nobody is asked for one where there are none.",
    ));
    let components = document.components.get_or_insert_default();
    components.security_schemes.insert(BEARER.to_owned(), RefOr::T(SecurityScheme::Http(scheme.build())));
    for (path, item) in &mut document.paths.paths {
        let methods = [&mut item.get, &mut item.post, &mut item.put, &mut item.delete];
        let operations = methods.into_iter().flatten();
        operations.filter(|_| path.starts_with("/v1/")).for_each(keyed);
    }
    // A document made of strings and numbers has JSON.
    document.to_json().unwrap_or_default()
}

/// What every route behind the guard has in common.
fn keyed(operation: &mut Operation) {
    let nothing: [&str; 0] = [];
    operation.security =
        Some(vec![SecurityRequirement::new(BEARER, nothing), SecurityRequirement::default()]);
    let in_dialect = operation.tags.iter().flatten().any(|it| it == "openai" || it == "bulk");
    let (schema, kind) =
        if in_dialect { ("ErrorReply", "application/json") } else { ("Problem", PROBLEM_JSON) };
    let problem = |words: &str| {
        let content = Content::new(Some(Ref::from_schema_name(schema)));
        RefOr::T(ResponseBuilder::new().description(words).content(kind, content).build())
    };
    let responses = &mut operation.responses.responses;
    responses.insert("401".to_owned(), problem("A key is asked for."));
    responses.insert(
        "503".to_owned(),
        problem("Something is away for the moment: ask again after `Retry-After`."),
    );
    responses.insert("default".to_owned(), problem("Anything else that is the matter."));
}

/// Shows the OpenAPI document
///
/// This one.
#[utoipa::path(
    get, path = "/openapi.json", tag = "health", operation_id = "openapi",
    responses((status = 200, description = "The document.", body = Object, content_type = "application/json"))
)]
pub(super) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str())
}

/// The page, with all that it loads.
pub(super) fn page() -> Router<Arc<House>> {
    Router::new()
        .route("/docs", get(async || Redirect::to("/docs/")))
        .route("/docs/", get(async || file("index.html")))
        .route("/docs/{*rest}", get(async |Path(rest): Path<String>| file(&rest)))
}

fn file(path: &str) -> Result<Response, Problem> {
    // The validator is a service elsewhere.
    let config =
        Config::from(DOCUMENT).validator_url("none").try_it_out_enabled(true).display_request_duration(true);
    let file = utoipa_swagger_ui::serve(path, Arc::new(config));
    let file = file.map_err(|err| Kind::Internal.because(format!("the page cannot be made: {err}")))?;
    let file = file.ok_or_else(|| Kind::UnknownPath.because(format!("the page has no file {path}")))?;
    let mut response =
        (StatusCode::OK, [(header::CONTENT_TYPE, file.content_type)], file.bytes).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(FROM_HERE_ONLY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if file.gzpipped {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}
