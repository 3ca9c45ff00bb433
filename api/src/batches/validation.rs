//! The route that checks a batch file.

use api_types::{BatchValidation, Problem};
use axum::{Json, body::Body, extract::State};
use futures::StreamExt as _;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{endpoint::BatchEndpoint, file_check::BatchFileCheck};
use crate::{
    files::routes::too_large,
    server::{
        extract::{Query, SameSite},
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::SharedState,
    },
};

/// Query parameters of a check.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ValidateParams {
    /// Path that every line is sent to. Default: that of the first line.
    endpoint: Option<String>,
}

/// Check a batch file
///
/// Checks every line of the body, which is the file, by the rules that `POST /v1/batches` applies to it. Nothing is stored.
#[utoipa::path(
    post, path = "/v1/batches/validate", tag = "bulk", operation_id = "validate_batch_file", params(ValidateParams),
    request_body(content = String, content_type = "application/jsonl", description = "The file: one JSON object a line."),
    responses(
        (status = 200, description = "The number of invalid lines, and the first of them.", body = BatchValidation),
        (status = 413, description = "The file is too large.", body = Problem),
        (status = 400, description = "The endpoint is not supported.", body = Problem)
    )
)]
pub(crate) async fn validate(
    State(app): SharedState,
    principal: Principal,
    author: Actor,
    _: SameSite,
    Query(params): Query<ValidateParams>,
    body: Body,
) -> Result<Json<BatchValidation>, ApiError> {
    let endpoint = params.endpoint.as_deref().map(BatchEndpoint::of_request).transpose()?;
    let mut check = BatchFileCheck::of_request(&app, &principal, author, endpoint);
    let (mut pieces, mut bytes) = (body.into_data_stream(), 0_u64);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            Kind::Malformed.because(format!("the body ended early: {error}")).hint("send the file again")
        })?;
        bytes += piece.len() as u64;
        if app.batches.file_max < bytes {
            return Err(too_large(app.batches.file_max));
        }
        // Checking takes long, so few files are checked at a time. None waits for a client that sends slowly.
        let _permit = app.quotes.acquire().await;
        check.push(&piece);
    }
    Ok(Json(check.finish()))
}
