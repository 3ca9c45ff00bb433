//! Files, in OpenAI's dialect: lines for batches, and what came of them.
//!
//! **Invariant:** no file is ever held as a whole, neither on its way in nor out: a piece at a time goes by.

mod form;

use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::header::{CONTENT_DISPOSITION, CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{
    Order,
    bulk::{Cutter, File, FileId, NewFile},
};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use self::form::{Form, Part};
use crate::{
    auth::Acting,
    batches::wire::{ExpiresAfter, Listing, seconds},
    extract::{NotInPassing, Path, Query},
    house::{House, Inside},
    openai::error::ErrorReply,
    page::{LIMIT_MAX, limit},
    problem::{Kind, Problem},
};

/// What files of lines are for.
const BATCH: &str = "batch";

/// The parts of a form that say for how long its file is kept.
const ANCHOR: &str = "expires_after[anchor]";
const SECONDS: &str = "expires_after[seconds]";

/// The longest name that a file may have, and the longest part of a form besides the file, in bytes.
const NAME_MAX: usize = 255;

/// How many files a page of OpenAI holds, at most.
const OPENAI_MAX: u64 = 10_000;

/// A file, as OpenAI has it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FileView {
    /// Which.
    #[schema(examples("file-019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"))]
    id: String,
    /// `file`.
    object: &'static str,
    /// How long it is.
    bytes: u64,
    /// When it was uploaded, in seconds since the Unix epoch.
    created_at: i64,
    /// When it is thrown away, if it is; a batch that reads it reads it to its end.
    expires_at: Option<i64>,
    /// What its owner calls it.
    #[schema(examples("lines.jsonl"))]
    filename: String,
    /// `batch`, or `batch_output`.
    purpose: String,
    /// `processed`.
    status: &'static str,
}

impl From<File> for FileView {
    fn from(it: File) -> Self {
        Self {
            id: name(it.id),
            object: "file",
            bytes: it.bytes,
            created_at: seconds(it.created_at),
            expires_at: it.expires_at.map(seconds),
            filename: it.filename,
            purpose: it.purpose,
            status: "processed",
        }
    }
}

/// An upload, as the document shows it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is read as a stream; this is what the document says of it")]
pub(crate) struct Upload {
    /// `batch`.
    purpose: String,
    /// The lines.
    #[schema(value_type = String, format = Binary)]
    file: String,
    /// With `expires_after[seconds]`: `created_at`, from when on that is counted.
    #[schema(rename = "expires_after[anchor]")]
    anchor: Option<String>,
    /// With `expires_after[anchor]`: for how many seconds the file is kept; until somebody deletes it, if nobody says.
    #[schema(rename = "expires_after[seconds]", minimum = 3600, maximum = 2592000)]
    seconds: Option<u64>,
}

/// What a form says besides its file.
#[derive(Default)]
struct Said {
    purpose: Option<String>,
    anchor: Option<String>,
    seconds: Option<String>,
}

impl Said {
    /// For how many seconds the file is kept, if not until somebody deletes it.
    fn kept(self) -> Result<Option<u64>, Problem> {
        let called = |part: &str| format!("expires_after[{part}]");
        let (anchor, seconds) = match (self.anchor, self.seconds) {
            (None, None) => return Ok(None),
            (Some(anchor), Some(seconds)) => (anchor, seconds),
            (anchor, _) => {
                let lacking = called(if anchor.is_none() { "anchor" } else { "seconds" });
                let mend = "send both parts of `expires_after`, or neither";
                return Err(Kind::Invalid.because(format!("{lacking}: it is missing")).mend(mend));
            }
        };
        let no_number = |_| {
            let words = format!("{}: {seconds:?} is no whole number", called("seconds"));
            Kind::Invalid.because(words).mend("send a number of seconds")
        };
        let seconds = seconds.parse().map_err(no_number)?;
        ExpiresAfter { anchor, seconds }.checked(called).map(Some)
    }
}

/// Which files.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Those for this purpose.
    purpose: Option<String>,
    /// Those after this file: the last of the page before.
    after: Option<String>,
    /// At most so many, and no more than 1000 in one page; 50 if nobody says.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u64>,
    /// `desc`, newest first, if nobody says; or `asc`, oldest first.
    #[param(inline)]
    order: Option<FileOrder>,
}

/// In which order files are listed.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum FileOrder {
    /// The oldest first.
    Asc,
    /// The newest first.
    Desc,
}

/// A file's name in this dialect.
pub(crate) fn name(id: FileId) -> String {
    format!("file-{}", id.simple())
}

/// The file that is called so, whether or not it is there.
pub(crate) fn id(name: &str) -> Option<FileId> {
    name.strip_prefix("file-").and_then(|it| Uuid::try_parse(it).ok())
}

/// No file is called so.
pub(crate) fn unknown(name: &str) -> Problem {
    Kind::UnknownFile.because(format!("there is no file {name:?}"))
}

/// The file of this name, if whoever asks sees it.
pub(crate) async fn find(house: &House, acting: &Acting, name: &str) -> Result<File, Problem> {
    let id = id(name).ok_or_else(|| unknown(name))?;
    let file = house.parts.store.file(id).await?.filter(|it| acting.sees(&it.tenant));
    file.ok_or_else(|| unknown(name))
}

/// Uploads a file
///
/// A form with `purpose`, which is `batch`, and `file`: lines of JSON. With `expires_after[anchor]` (`created_at`) and
/// `expires_after[seconds]` it goes by itself after that time; a batch that is not over by then keeps it until it is.
#[utoipa::path(
    post, path = "/v1/files", tag = "bulk", operation_id = "upload_file",
    request_body(content = Upload, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "It is kept.", body = FileView),
        (status = 413, description = "It is too long.", body = ErrorReply),
        (status = 400, description = "The form lacks something.", body = ErrorReply)
    )
)]
pub(crate) async fn upload(
    State(house): Inside,
    acting: Acting,
    _: NotInPassing,
    mut form: Form,
) -> Result<Json<FileView>, Problem> {
    let id = Uuid::now_v7();
    let outcome = read_form(&house, &acting, id, &mut form).await;
    if outcome.is_err() {
        // Should this fail too, what was kept is swept away in a day.
        let _ = house.parts.store.delete_file(id).await;
    }
    Ok(Json(outcome?.into()))
}

async fn read_form(house: &House, acting: &Acting, id: FileId, form: &mut Form) -> Result<File, Problem> {
    let (mut said, mut kept) = (Said::default(), None);
    while let Some(mut part) = form.part().await? {
        match part.name() {
            Some("purpose") => said.purpose = Some(text(&mut part, "purpose").await?),
            Some(ANCHOR) => said.anchor = Some(text(&mut part, ANCHOR).await?),
            Some(SECONDS) => said.seconds = Some(text(&mut part, SECONDS).await?),
            Some("file") if kept.is_none() => {
                let filename = part.file_name().unwrap_or("upload").to_owned();
                if NAME_MAX < filename.len() {
                    return Err(
                        Kind::Invalid.because(format!("file: its name is longer than {NAME_MAX} bytes"))
                    );
                }
                let new = NewFile { tenant: acting.tenant().to_owned(), filename, purpose: BATCH.to_owned() };
                house.parts.store.begin_file(id, new).await?;
                kept = Some(keep(house, id, &mut part).await?);
            }
            // Clients send what newer versions of the dialect know.
            Some(_) | None => while part.piece().await?.is_some() {},
        }
    }
    let (chunks, bytes) = kept.ok_or_else(|| Kind::Invalid.because("file: the form has no such part"))?;
    match said.purpose.as_deref() {
        Some(BATCH) => {}
        Some(other) => {
            return Err(
                Kind::Invalid.because(format!("purpose: {other:?} is not known here; it is \"batch\""))
            );
        }
        None => return Err(Kind::Invalid.because("purpose: it is missing; it is \"batch\"")),
    }
    let file = house.parts.store.finish_file(id, chunks, bytes, said.kept()?).await?;
    file.ok_or_else(|| Kind::Internal.because("a file was lost on its way in"))
}

/// Keeps a file piece by piece, and says how many pieces that are and how long it is.
async fn keep(house: &House, id: FileId, part: &mut Part<'_>) -> Result<(u32, u64), Problem> {
    let (mut cutter, mut nth, mut bytes) = (Cutter::new(house.bulk.line_max), 0, 0_u64);
    while let Some(piece) = part.piece_of_file().await? {
        bytes += piece.len() as u64;
        if house.bulk.file_max < bytes {
            let mib = house.bulk.file_max / (1 << 20);
            return Err(Kind::TooLarge
                .because(format!("file: it is longer than {mib} MiB"))
                .mend("send several files, or raise `file_mib` under `[batch]`"));
        }
        for chunk in cutter.push(&piece) {
            house.parts.store.write_chunk(id, nth, chunk).await?;
            nth += 1;
        }
    }
    if let Some(chunk) = cutter.finish() {
        house.parts.store.write_chunk(id, nth, chunk).await?;
        nth += 1;
    }
    Ok((nth, bytes))
}

/// A short part of the form.
async fn text(part: &mut Part<'_>, name: &str) -> Result<String, Problem> {
    let mut text = Vec::new();
    while let Some(piece) = part.piece().await? {
        text.extend_from_slice(&piece);
        if NAME_MAX < text.len() {
            return Err(Kind::Invalid.because(format!("{name}: it is too long")));
        }
    }
    String::from_utf8(text).map_err(|_| Kind::Invalid.because(format!("{name}: it is no text")))
}

/// Lists files
///
/// Newest first, unless another order is asked for.
#[utoipa::path(
    get, path = "/v1/files", tag = "bulk", operation_id = "list_files", params(Which),
    responses((status = 200, description = "A page of files.", body = Listing<FileView>))
)]
pub(crate) async fn list(
    State(house): Inside,
    acting: Acting,
    Query(which): Query<Which>,
) -> Result<Json<Listing<FileView>>, Problem> {
    let order = match which.order {
        Some(FileOrder::Asc) => Order::OldestFirst,
        Some(FileOrder::Desc) | None => Order::NewestFirst,
    };
    // Clients ask for as many as OpenAI gives at once; the page says that there are more.
    let asked = which.limit.map(|it| if it <= OPENAI_MAX { it.min(LIMIT_MAX) } else { it });
    let limit = limit(asked)?;
    // It need not be there any more: whoever cleans up deletes what it lists.
    let after = which.after.as_deref().map(|it| id(it).ok_or_else(|| unknown(it))).transpose()?;
    let store = &house.parts.store;
    let rows = store.files(acting.only(), which.purpose.as_deref(), order, after, limit + 1).await?;
    Ok(Json(Listing::cut(rows, limit, |it| name(it.id)).map(FileView::from)))
}

/// Shows a file
///
/// Not its content.
#[utoipa::path(
    get, path = "/v1/files/{id}", tag = "bulk", operation_id = "get_file",
    params(("id" = String, Path, description = "The file.")),
    responses(
        (status = 200, description = "The file.", body = FileView),
        (status = 404, description = "There is no such file.", body = ErrorReply)
    )
)]
pub(crate) async fn get(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<String>,
) -> Result<Json<FileView>, Problem> {
    Ok(Json(find(&house, &acting, &id).await?.into()))
}

/// Reads a file
///
/// Byte for byte as it was sent.
#[utoipa::path(
    get, path = "/v1/files/{id}/content", tag = "bulk", operation_id = "read_file",
    params(("id" = String, Path, description = "The file.")),
    responses(
        (status = 200, description = "Its content.", body = String, content_type = "application/octet-stream"),
        (status = 404, description = "There is no such file.", body = ErrorReply)
    )
)]
pub(crate) async fn content(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let file = find(&house, &acting, &id).await?;
    // A piece is read once the one before it is on its way. What fails in the middle breaks the line off, so nobody
    // takes a part for the whole.
    let pieces = stream::try_unfold((house, 0, file.bytes), move |(house, nth, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        // It was deleted, or its time was over, since the first piece.
        let gone = || store::Error::Database(format!("file {} is gone", file.id));
        let piece = house.parts.store.chunk(file.id, nth).await?.ok_or_else(gone)?.data;
        let left = left.saturating_sub(piece.len() as u64);
        Ok::<_, store::Error>(Some((Bytes::from(piece), (house, nth + 1, left))))
    });
    let headers = [(CONTENT_TYPE, "application/octet-stream"), (CONTENT_DISPOSITION, "attachment")];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// Deletes a file
///
/// Not while a batch that is not over reads it.
#[utoipa::path(
    delete, path = "/v1/files/{id}", tag = "bulk", operation_id = "delete_file",
    params(("id" = String, Path, description = "The file.")),
    responses(
        (status = 200, description = "It is gone.", body = Object),
        (status = 404, description = "There is no such file.", body = ErrorReply),
        (status = 409, description = "A batch reads it.", body = ErrorReply)
    )
)]
pub(crate) async fn delete(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let file = find(&house, &acting, &id).await?;
    if !house.parts.store.delete_file(file.id).await? {
        return Err(Kind::FileInUse
            .because("a batch that is not over reads the file")
            .mend("cancel the batch, or wait for its end"));
    }
    Ok(Json(json!({"id": name(file.id), "object": "file", "deleted": true})))
}
