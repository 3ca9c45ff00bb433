//! Routes of files.

use api_types::{DeletedFile, ExpiresAfter, OpenAiList, Problem, UploadForm};
use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::header::{CONTENT_DISPOSITION, CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures::stream;
use queue::clock;
use serde::Deserialize;
use store::{
    Order,
    batches::{Chunker, File, FileId, NewFile},
};
use utoipa::{IntoParams, ToSchema};

use super::{
    lookup::{find_file, retention, unknown_file},
    multipart::{Form, Part},
};
use crate::server::{
    extract::{Path, Query, SameSite, deserialize},
    openai_ids::{file_id, file_name, seconds},
    pagination::{LIMIT_MAX, limit, openai_list, page},
    principal::{Decider, Principal},
    problem::{ApiError, Kind},
    rejections::invalid_json,
    state::{AppState, SharedState},
};

/// The only purpose of an upload.
const BATCH: &str = "batch";

/// Names of the form fields for the retention period: one with both as JSON, or one for each.
const EXPIRES_AFTER: &str = "expires_after";
const ANCHOR: &str = "expires_after[anchor]";
const SECONDS: &str = "expires_after[seconds]";

/// Maximum length of a file name and of a form field other than the file, in bytes.
const NAME_MAX: usize = 255;

/// Maximum number of files on a page of OpenAI's API.
const OPENAI_LIMIT_MAX: u64 = 10_000;

fn file_view(file: File) -> api_types::File {
    api_types::File {
        id: file_name(file.id),
        object: "file".to_owned(),
        bytes: file.bytes,
        created_at: seconds(file.created_at),
        expires_at: file.expires_at.map(seconds),
        filename: file.filename,
        purpose: file.purpose,
        status: "processed".to_owned(),
    }
}

/// Form fields other than the file.
#[derive(Default)]
struct Fields {
    purpose: Option<String>,
    anchor: Option<String>,
    seconds: Option<String>,
    /// Both as one JSON object.
    expires_after: Option<String>,
}

impl Fields {
    /// Returns the retention period in seconds; none means until the file is deleted.
    fn retention(self) -> Result<Option<u64>, ApiError> {
        let path = |field: &str| format!("expires_after[{field}]");
        if let Some(object) = &self.expires_after {
            if self.anchor.is_some() || self.seconds.is_some() {
                return Err(Kind::Invalid
                    .because("expires_after: it is sent twice, as one object and as two fields")
                    .hint("send one of them"));
            }
            let mut json = serde_json::Deserializer::from_str(object);
            let expires = deserialize(EXPIRES_AFTER, &mut json)?;
            json.end().map_err(|error| invalid_json(&error))?;
            return retention(&expires, |field| format!("{EXPIRES_AFTER}.{field}")).map(Some);
        }
        let (anchor, seconds) = match (self.anchor, self.seconds) {
            (None, None) => return Ok(None),
            (Some(anchor), Some(seconds)) => (anchor, seconds),
            (anchor, _) => {
                let missing = path(if anchor.is_none() { "anchor" } else { "seconds" });
                let hint = "send both fields of `expires_after`, or neither";
                return Err(Kind::Invalid.because(format!("{missing} is missing")).hint(hint));
            }
        };
        let not_a_number = |_| {
            let detail = format!("{}: {seconds:?} is not a whole number", path("seconds"));
            Kind::Invalid.because(detail).hint("send a number of seconds")
        };
        let seconds = seconds.parse().map_err(not_a_number)?;
        retention(&ExpiresAfter { anchor, seconds }, path).map(Some)
    }
}

/// Query parameters of the list of files.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListFiles {
    /// Only files with this purpose.
    purpose: Option<String>,
    /// Only files after this one: the last file of the previous page.
    after: Option<String>,
    /// Maximum number of files, at most 1,000 on one page. Default: 50.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u64>,
    /// Order of the list. Default: `desc`.
    #[param(inline)]
    order: Option<FileOrder>,
}

/// Order of a list of files.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum FileOrder {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}

/// Upload a file
///
/// Takes a form with `purpose`, which is `batch`, and `file`, which contains one JSON object a line. With
/// `expires_after[anchor]` (`created_at`) and `expires_after[seconds]`, or `expires_after` with both as one JSON object, the file is
/// deleted after that time. If a batch still reads the file then, it is deleted when the batch has ended. A second file and any
/// other field are refused.
#[utoipa::path(
    post, path = "/v1/files", tag = "bulk", operation_id = "upload_file",
    request_body(content = UploadForm, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "The uploaded file.", body = api_types::File),
        (status = 413, description = "The file is too large.", body = Problem),
        (status = 507, description = "The tenant may store nothing more.", body = Problem),
        (status = 400, description = "A form field is missing or invalid.", body = Problem)
    )
)]
pub(crate) async fn upload(
    State(app): SharedState,
    principal: Principal,
    _: SameSite,
    mut form: Form,
) -> Result<Json<api_types::File>, ApiError> {
    let id = clock::new_id();
    let left = app.storage_left(principal.tenant()).await?;
    let outcome = read_form(&app, &principal, id, &mut form, left).await;
    if let Ok(file) = &outcome {
        app.storage.add(principal.tenant(), file.bytes).await;
    }
    if outcome.is_err() {
        // If the deletion fails as well, the incomplete file is removed within a day.
        let _ = app.backends.store.delete_file(id, "turnfold").await;
    }
    Ok(Json(file_view(outcome?)))
}

async fn read_form(
    app: &AppState,
    principal: &Principal,
    id: FileId,
    form: &mut Form,
    storage_left: Option<u64>,
) -> Result<File, ApiError> {
    let (mut fields, mut stored) = (Fields::default(), None);
    while let Some(mut part) = form.part().await? {
        match part.name() {
            Some("purpose") => fields.purpose = Some(text(&mut part, "purpose").await?),
            Some(ANCHOR) => fields.anchor = Some(text(&mut part, ANCHOR).await?),
            Some(SECONDS) => fields.seconds = Some(text(&mut part, SECONDS).await?),
            Some(EXPIRES_AFTER) => fields.expires_after = Some(text(&mut part, EXPIRES_AFTER).await?),
            Some("file") if stored.is_none() => {
                let filename = part.file_name().unwrap_or("upload").to_owned();
                if NAME_MAX < filename.len() || filename.contains('\0') {
                    let detail = format!("file: its name is longer than {NAME_MAX} bytes or contains NUL");
                    return Err(Kind::Invalid.because(detail));
                }
                let new =
                    NewFile { tenant: principal.tenant().to_owned(), filename, purpose: BATCH.to_owned() };
                app.backends.store.begin_file(id, new).await?;
                let limit = storage_left.map(|left| (principal.tenant(), left));
                stored = Some(store_file(app, id, &mut part, limit).await?);
            }
            Some("file") => {
                return Err(Kind::Invalid
                    .because("file: the form has a second file")
                    .hint("send each file in a request of its own"));
            }
            Some(other) => {
                let other: String = other.chars().take(NAME_MAX).collect();
                return Err(Kind::Invalid
                    .because(format!("{other}: the form has no such field"))
                    .hint("send only `purpose`, `file` and `expires_after`"));
            }
            None => return Err(Kind::Invalid.because("the form has a field without a name")),
        }
    }
    let (chunks, bytes) = stored.ok_or_else(|| Kind::Invalid.because("file: the field is missing"))?;
    match fields.purpose.as_deref() {
        Some(BATCH) => {}
        Some(other) => {
            let detail = format!("purpose: {other:?} is not supported; use \"batch\"");
            return Err(Kind::Invalid.because(detail));
        }
        None => return Err(Kind::Invalid.because("purpose: the field is missing; use \"batch\"")),
    }
    let file = app.backends.store.finish_file(id, chunks, bytes, fields.retention()?).await?;
    file.ok_or_else(|| Kind::Internal.because("the file was deleted during the upload"))
}

/// Stores a file in chunks. Returns the number of chunks and of bytes. `storage` is the tenant and what it may still store.
async fn store_file(
    app: &AppState,
    id: FileId,
    part: &mut Part<'_>,
    storage: Option<(&str, u64)>,
) -> Result<(u32, u64), ApiError> {
    let (mut cutter, mut nth, mut bytes) = (Chunker::new(app.batches.line_max), 0, 0_u64);
    while let Some(piece) = part.piece_of_file().await? {
        bytes += piece.len() as u64;
        if app.batches.file_max < bytes {
            return Err(too_large(app.batches.file_max));
        }
        if let Some((tenant, left)) = storage.filter(|(_, left)| *left < bytes) {
            return Err(app.storage.too_large(tenant, left));
        }
        for chunk in cutter.push(&piece) {
            app.backends.store.write_chunk(id, nth, chunk).await?;
            nth += 1;
        }
    }
    if let Some(chunk) = cutter.finish() {
        app.backends.store.write_chunk(id, nth, chunk).await?;
        nth += 1;
    }
    Ok((nth, bytes))
}

/// Returns the error of a file of more than `max` bytes.
pub(crate) fn too_large(max: u64) -> ApiError {
    let mib = max / (1 << 20);
    Kind::TooLarge
        .because(format!("file: it is larger than {mib} MiB"))
        .hint("send several files, or raise `file_mib` under `[batch]`")
}

/// Reads a short form field.
async fn text(part: &mut Part<'_>, name: &str) -> Result<String, ApiError> {
    let mut text = Vec::new();
    while let Some(piece) = part.piece().await? {
        text.extend_from_slice(&piece);
        if NAME_MAX < text.len() {
            return Err(Kind::Invalid.because(format!("{name}: it is longer than {NAME_MAX} bytes")));
        }
    }
    String::from_utf8(text).map_err(|_| Kind::Invalid.because(format!("{name}: it is not UTF-8")))
}

/// List files
///
/// Returns a page of files, newest first unless `order` is `asc`.
#[utoipa::path(
    get, path = "/v1/files", tag = "bulk", operation_id = "list_files", params(ListFiles),
    responses((status = 200, description = "A page of files.", body = OpenAiList<api_types::File>))
)]
pub(crate) async fn list(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<ListFiles>,
) -> Result<Json<OpenAiList<api_types::File>>, ApiError> {
    let order = match params.order {
        Some(FileOrder::Asc) => Order::OldestFirst,
        Some(FileOrder::Desc) | None => Order::NewestFirst,
    };
    // Clients may ask for as many files as OpenAI returns at once. The page then reports that there are more.
    let requested = params.limit.map(|it| if it <= OPENAI_LIMIT_MAX { it.min(LIMIT_MAX) } else { it });
    let limit = limit(requested)?;
    // The file may be gone: clients that clean up delete what they list.
    let after =
        params.after.as_deref().map(|name| file_id(name).ok_or_else(|| unknown_file(name))).transpose()?;
    let store = &app.backends.store;
    let rows = store.files(principal.only(), params.purpose.as_deref(), order, after, limit + 1).await?;
    Ok(Json(openai_list(page(rows, limit).map(file_view), |file| file.id.clone())))
}

/// Show a file
///
/// Returns the file's name, size and times, without its content.
#[utoipa::path(
    get, path = "/v1/files/{id}", tag = "bulk", operation_id = "get_file",
    params(("id" = String, Path, description = "Id of the file.")),
    responses(
        (status = 200, description = "The file.", body = api_types::File),
        (status = 404, description = "The file does not exist.", body = Problem)
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<String>,
) -> Result<Json<api_types::File>, ApiError> {
    Ok(Json(file_view(find_file(&app, &principal, &id).await?)))
}

/// Download a file
///
/// Returns exactly the bytes that were uploaded or written.
#[utoipa::path(
    get, path = "/v1/files/{id}/content", tag = "bulk", operation_id = "read_file",
    params(("id" = String, Path, description = "Id of the file.")),
    responses(
        (status = 200, description = "The content.", body = String, content_type = "application/octet-stream"),
        (status = 404, description = "The file does not exist.", body = Problem)
    )
)]
pub(crate) async fn content(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let file = find_file(&app, &principal, &id).await?;
    // A chunk is read when the previous one has been sent. An error aborts the connection, so that no client takes a part
    // for the whole file.
    let chunks = stream::try_unfold((app, 0, file.bytes), move |(app, nth, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        // The file was deleted or expired after the first chunk.
        let gone = || store::Error::Database(format!("file {} is gone", file.id));
        let chunk = app.backends.store.chunk(file.id, nth).await?.ok_or_else(gone)?.data;
        let left = left.saturating_sub(chunk.len() as u64);
        Ok::<_, store::Error>(Some((Bytes::from(chunk), (app, nth + 1, left))))
    });
    let headers = [(CONTENT_TYPE, "application/octet-stream"), (CONTENT_DISPOSITION, "attachment")];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

/// Delete a file
///
/// Fails while an open batch reads the file.
#[utoipa::path(
    delete, path = "/v1/files/{id}", tag = "bulk", operation_id = "delete_file",
    params(
        ("id" = String, Path, description = "Id of the file."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The file is deleted.", body = DeletedFile),
        (status = 404, description = "The file does not exist.", body = Problem),
        (status = 409, description = "An open batch reads the file.", body = Problem)
    )
)]
pub(crate) async fn delete(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<String>,
) -> Result<Json<DeletedFile>, ApiError> {
    let file = find_file(&app, &principal, &id).await?;
    if !app.backends.store.delete_file(file.id, by).await? {
        return Err(Kind::FileInUse
            .because("an open batch reads the file")
            .hint("cancel the batch, or wait until it has ended"));
    }
    Ok(Json(DeletedFile { id: file_name(file.id), object: "file".to_owned(), deleted: true }))
}
