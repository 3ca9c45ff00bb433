//! Rows of files, as far as a principal may see them, and checks of their retention.

use api_types::ExpiresAfter;
use store::batches::File;

use crate::server::{
    openai_ids::file_id,
    principal::Principal,
    problem::{ApiError, Kind},
    state::AppState,
};

/// The only start of a retention period.
const ANCHOR: &str = "created_at";

/// Minimum and maximum length of a retention period in seconds.
const RETENTION: (u64, u64) = (3600, 30 * 24 * 60 * 60);

/// Creates the error for a file that does not exist.
pub(crate) fn unknown_file(name: &str) -> ApiError {
    Kind::UnknownFile.because(format!("file {name:?} does not exist"))
}

/// Returns the row of a file. A file of another tenant does not exist.
pub(crate) async fn find_file(app: &AppState, principal: &Principal, name: &str) -> Result<File, ApiError> {
    let id = file_id(name).ok_or_else(|| unknown_file(name))?;
    let file = app.backends.store.file(id).await?.filter(|file| principal.sees(&file.tenant));
    file.ok_or_else(|| unknown_file(name))
}

/// Returns the retention period in seconds. `path` gives the path of a field, for errors.
pub(crate) fn retention(expires: &ExpiresAfter, path: impl Fn(&str) -> String) -> Result<u64, ApiError> {
    let (least, most) = RETENTION;
    if expires.anchor != ANCHOR {
        let detail = format!("{}: {:?} is not supported", path("anchor"), expires.anchor);
        return Err(Kind::Invalid.because(detail).hint(format!("send {ANCHOR:?}")));
    }
    if !(least..=most).contains(&expires.seconds) {
        let detail = format!("{}: {} is not between {least} and {most}", path("seconds"), expires.seconds);
        return Err(Kind::Invalid.because(detail).hint("send seconds between one hour and 30 days"));
    }
    Ok(expires.seconds)
}
