//! A form on its way in: no more of it is taken than is used up.
//!
//! ## Why its body is counted
//!
//! Who reads forms takes all of a body that there is before looking at any of it, and goes on as long as a part's headers do
//! not end. So a body comes in small pieces with a rest after each, in which what came is used up; and what comes between
//! two pieces of the file has a limit, whatever it is: headers, other parts, or what is before the first one.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
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

use crate::problem::{Kind, Problem};

/// How much a form may hold besides its file, in bytes.
const BESIDES: usize = 256 << 10;

/// How much is taken at once, in bytes.
const PIECE: usize = 64 << 10;

/// A form.
pub(crate) struct Form {
    parts: Multipart,
    besides: Besides,
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let besides = Besides::default();
        let counted = |body: Body| {
            let (body, besides) = (body.into_data_stream(), besides.clone());
            Body::from_stream(Pieces { body, left: Bytes::new(), rests: false, besides })
        };
        let no_form = |_| {
            Kind::MediaType
                .because("a file comes in a form: `multipart/form-data` with its `boundary`")
                .mend("send it as `curl -F purpose=batch -F file=@lines.jsonl` or a client of OpenAI does")
        };
        let parts = Multipart::from_request(request.map(counted), state).await.map_err(no_form)?;
        Ok(Self { parts, besides })
    }
}

impl Form {
    /// The next part.
    pub(super) async fn part(&mut self) -> Result<Option<Part<'_>>, Problem> {
        let besides = &self.besides;
        let field = self.parts.next_field().await.map_err(|err| besides.problem(&err))?;
        Ok(field.map(|field| Part { field, besides }))
    }
}

/// A part of a form.
pub(super) struct Part<'a> {
    field: Field<'a>,
    besides: &'a Besides,
}

impl Part<'_> {
    pub(super) fn name(&self) -> Option<&str> {
        self.field.name()
    }

    pub(super) fn file_name(&self) -> Option<&str> {
        self.field.file_name()
    }

    /// Its next piece.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Problem> {
        self.field.chunk().await.map_err(|err| self.besides.problem(&err))
    }

    /// The same of the file, which has a limit of its own.
    pub(super) async fn piece_of_file(&mut self) -> Result<Option<Bytes>, Problem> {
        let piece = self.piece().await?;
        self.besides.0.store(0, Ordering::Relaxed);
        Ok(piece)
    }
}

/// How much came since the last piece of the file.
#[derive(Clone, Default)]
struct Besides(Arc<AtomicUsize>);

impl Besides {
    fn is_too_much(&self) -> bool {
        BESIDES < self.0.load(Ordering::Relaxed)
    }

    fn problem(&self, error: &MultipartError) -> Problem {
        if self.is_too_much() {
            return Kind::TooLarge
                .because(format!("the form: it holds more than {} KiB besides its file", BESIDES >> 10))
                .mend("send `purpose` and `file`, and nothing large besides");
        }
        Kind::Malformed
            .because(format!("the form: {}", error.body_text()))
            .mend("send all of it, with `purpose` and `file`")
    }
}

/// A body in pieces, with a rest after each.
struct Pieces {
    body: BodyDataStream,
    left: Bytes,
    rests: bool,
    besides: Besides,
}

impl Stream for Pieces {
    type Item = Result<Bytes, axum::BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.rests) {
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.besides.is_too_much() {
            return Poll::Ready(Some(Err(
                io::Error::other("the form holds too much besides its file").into()
            )));
        }
        if self.left.is_empty() {
            match ready!(self.body.poll_next_unpin(task)) {
                Some(Ok(piece)) => self.left = piece,
                Some(Err(err)) => return Poll::Ready(Some(Err(err.into()))),
                None => return Poll::Ready(None),
            }
        }
        let size = PIECE.min(self.left.len());
        let piece = self.left.split_to(size);
        self.besides.0.fetch_add(size, Ordering::Relaxed);
        self.rests = true;
        Poll::Ready(Some(Ok(piece)))
    }
}
