//! Streaming parser of multipart forms with a bound on buffered data.
//!
//! ## Why the body is counted
//!
//! The multipart parser reads all of a body that is available before it parses any of it, and it keeps reading while
//! the headers of a part do not end. The body is therefore passed on in small pieces with a pause after each, so that
//! each piece is consumed before the next. Everything between two pieces of the file is limited, whether it is headers,
//! other fields or the text before the first field.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::{
        FromRequest, Multipart, Request,
        multipart::{Field, MultipartError},
    },
};
use futures::{Stream, StreamExt as _};

use crate::server::problem::{ApiError, Kind};

/// Maximum number of bytes in a form other than the file.
const OTHER_MAX: usize = 256 << 10;

/// Maximum number of bytes of a file passed on at once.
const PIECE: usize = 64 << 10;

/// Maximum number of bytes passed on at once before the file begins. The parser takes a piece for each name and each value of a
/// field, so bytes of a file that is already here count as other bytes until its first piece is read.
const FIRST_PIECE: usize = 4 << 10;

/// A multipart form.
pub(crate) struct Form {
    parts: Multipart,
    other: OtherBytes,
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let other = OtherBytes::default();
        let counted = |body: Body| {
            let (body, other) = (body.into_data_stream(), other.clone());
            Body::from_stream(Pieces { body, left: Bytes::new(), pause_next: false, other })
        };
        let not_a_form = |_| {
            Kind::MediaType
                .because("the body must be `multipart/form-data` with a `boundary`")
                .hint("use `curl -F purpose=batch -F file=@lines.jsonl`, or a client library of OpenAI")
        };
        let parts = Multipart::from_request(request.map(counted), state).await.map_err(not_a_form)?;
        Ok(Self { parts, other })
    }
}

impl Form {
    /// Returns the next field.
    pub(super) async fn part(&mut self) -> Result<Option<Part<'_>>, ApiError> {
        let other = &self.other;
        let field = self.parts.next_field().await.map_err(|err| other.problem(&err))?;
        Ok(field.map(|field| Part { field, other }))
    }
}

/// A form field.
pub(super) struct Part<'a> {
    field: Field<'a>,
    other: &'a OtherBytes,
}

impl Part<'_> {
    pub(super) fn name(&self) -> Option<&str> {
        self.field.name()
    }

    pub(super) fn file_name(&self) -> Option<&str> {
        self.field.file_name()
    }

    /// Returns the next piece of the field.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, ApiError> {
        self.field.chunk().await.map_err(|err| self.other.problem(&err))
    }

    /// Returns the next piece of the file, which has a limit of its own.
    pub(super) async fn piece_of_file(&mut self) -> Result<Option<Bytes>, ApiError> {
        let piece = self.piece().await?;
        self.other.0.bytes.store(0, Ordering::Relaxed);
        self.other.0.file_began.store(true, Ordering::Relaxed);
        Ok(piece)
    }
}

/// Number of bytes received since the last piece of the file.
#[derive(Clone, Default)]
struct OtherBytes(Arc<Received>);

#[derive(Default)]
struct Received {
    bytes: AtomicUsize,
    file_began: AtomicBool,
}

impl OtherBytes {
    fn is_too_much(&self) -> bool {
        OTHER_MAX < self.0.bytes.load(Ordering::Relaxed)
    }

    /// Counts the next bytes to pass on, of those that are left, and returns their number.
    fn count_piece(&self, left: usize) -> usize {
        let most = if self.0.file_began.load(Ordering::Relaxed) { PIECE } else { FIRST_PIECE };
        let size = most.min(left);
        self.0.bytes.fetch_add(size, Ordering::Relaxed);
        size
    }

    fn problem(&self, error: &MultipartError) -> ApiError {
        if self.is_too_much() {
            return Kind::TooLarge
                .because(format!("the form has more than {} KiB other than the file", OTHER_MAX >> 10))
                .hint("send only `purpose`, `file` and `expires_after`");
        }
        Kind::Malformed
            .because(format!("the form: {}", error.body_text()))
            .hint("send a complete form with `purpose` and `file`")
    }
}

/// A body in small pieces, with a pause after each.
struct Pieces {
    body: BodyDataStream,
    left: Bytes,
    pause_next: bool,
    other: OtherBytes,
}

impl Stream for Pieces {
    type Item = Result<Bytes, axum::BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.pause_next) {
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.other.is_too_much() {
            return Poll::Ready(Some(Err(io::Error::other(
                "the form has too much data other than the file",
            )
            .into())));
        }
        if self.left.is_empty() {
            match ready!(self.body.poll_next_unpin(task)) {
                Some(Ok(piece)) => self.left = piece,
                Some(Err(err)) => return Poll::Ready(Some(Err(err.into()))),
                None => return Poll::Ready(None),
            }
        }
        let size = self.other.count_piece(self.left.len());
        let piece = self.left.split_to(size);
        self.pause_next = true;
        Poll::Ready(Some(Ok(piece)))
    }
}
