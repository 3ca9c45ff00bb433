//! Requests that no route takes: each is refused with the way out.

use std::{collections::BTreeMap, sync::LazyLock};

use axum::{extract::Request, http::Uri};
use serde_json::Value;
use shared::closest;

use super::openapi_page::TEXT;
use crate::server::problem::{ApiError, Kind};

/// Parts of OpenAI's API that turnfold does not have, by the first part of their paths.
const NOT_OFFERED: [&str; 15] = [
    "assistants",
    "audio",
    "chatkit",
    "containers",
    "edits",
    "engines",
    "evals",
    "fine_tuning",
    "images",
    "moderations",
    "organization",
    "realtime",
    "uploads",
    "vector_stores",
    "videos",
];

/// The methods of every documented path.
static ROUTES: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(&TEXT).unwrap_or_default();
    let paths = document["paths"].as_object().into_iter().flatten();
    let methods =
        |item: &Value| item.as_object().into_iter().flatten().map(|(name, _)| name.to_uppercase()).collect();
    paths.map(|(path, item)| (path.clone(), methods(item))).collect()
});

/// Refuses a path that no route has.
pub(super) async fn path(uri: Uri) -> ApiError {
    let path = uri.path();
    Kind::UnknownPath.because(format!("no route has the path {path}")).hint(way_out(path))
}

/// Refuses a method that the route of the path does not have.
pub(super) async fn method(request: Request) -> ApiError {
    let path = request.uri().path();
    let detail = format!("{path} does not support {}", request.method());
    let hint = match methods(path) {
        Some(methods) => format!("it supports {}", methods.join(" and ")),
        None => "see /docs for all routes".to_owned(),
    };
    Kind::Method.because(detail).hint(hint)
}

/// Returns the methods of a path; none if no documented route has it.
fn methods(path: &str) -> Option<&'static [String]> {
    let is_match = |template: &str| {
        let parts = template.split('/').zip(path.split('/'));
        template.split('/').count() == path.split('/').count()
            && parts
                .into_iter()
                .all(|(part, sent)| part == sent || (part.starts_with('{') && !sent.is_empty()))
    };
    ROUTES.iter().find(|(template, _)| is_match(template)).map(|(_, methods)| methods.as_slice())
}

/// Returns the hint for a path that no route has.
fn way_out(path: &str) -> String {
    let is_known = |path: &str| methods(path).is_some();
    let in_v1 = format!("/v1{path}");
    let without_slash = path.trim_end_matches('/');
    if without_slash != path && is_known(without_slash) {
        return format!("use {without_slash}, without the slash at its end");
    }
    if let Some(rest) = path.strip_prefix("/v1").filter(|rest| is_known(rest)) {
        return format!("use {rest}: the base URL of a client ends in one /v1");
    }
    if is_known(&in_v1) {
        return format!("use {in_v1}: the base URL of a client ends in /v1");
    }
    let part = path.strip_prefix("/v1/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if NOT_OFFERED.contains(&part) {
        return "of OpenAI's API, turnfold has chat completions, responses, conversations, completions, embeddings, models, files and batches"
            .to_owned();
    }
    match closest(path, ROUTES.keys().map(String::as_str).filter(|known| !known.contains('{'))) {
        Some(known) => format!("did you mean {known}? See /docs for all routes"),
        None => "see /docs for all routes".to_owned(),
    }
}
