//! A log as a page, or as a stream that follows it.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::stream;
use serde::Deserialize;
use serde_json::json;
use store::{Error, Notice, ThreadId, ThreadStatus};
use tracing::warn;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    auth::Acting,
    ears::{Ears, Sound},
    extract::{LastEventId, Path, Query, WantsStream},
    house::{House, Inside},
    page::{Page, limit},
    problem::{Kind, Problem},
    schema::EventLine,
    threads::find,
};

/// How often a stream looks at the log by itself.
const LOOK: Duration = Duration::from_secs(10);

/// How many events a stream reads at once. It reads no more before the reader has taken these.
const AT_ONCE: u64 = 100;

/// How long a stream waits when the store is away.
const STORE_AWAY: Duration = Duration::from_secs(1);

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Those after this number; from the first, if nobody says.
    after: Option<u64>,
    /// At most so many on a page; 50 if nobody says. A stream has no limit.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
    /// Whether the stream also tells what a model says while it says it.
    deltas: Option<bool>,
    /// When the stream ends by itself.
    #[param(inline)]
    until: Option<Until>,
}

/// When a stream ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    /// Once the thread rests and no turn waits for it.
    Rest,
}

/// Shows the events of a thread
///
/// As a page of JSON; or, with `Accept: text/event-stream`, as a stream that goes on as the thread does. In the stream
/// `id` is the number of the event, `event` its kind, and `data` the same JSON as in a page. A reader that was cut off
/// goes on after `Last-Event-ID`. With `deltas=true`, events of kind `delta` without an id tell what a model says while
/// it says it. An event `problem` says why a stream cannot go on.
#[utoipa::path(
    get, path = "/v1/threads/{id}/events", tag = "threads", operation_id = "list_thread_events",
    params(
        ("id" = Uuid, Path, description = "The thread."), Which,
        ("Last-Event-ID" = Option<u64>, Header, description = "The last event that a stream's reader saw; goes before `after`.")
    ),
    responses(
        (status = 200, description = "A page of events, or a stream of them.", content(
            (Page<EventLine> = "application/json"),
            (String = "text/event-stream", example = "id: 0\nevent: opened\ndata: {\"seq\":0,\"kind\":\"opened\"}\n\n")
        )),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn events(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<Uuid>,
    Query(which): Query<Which>,
    LastEventId(last): LastEventId,
    WantsStream(stream): WantsStream,
) -> Result<Response, Problem> {
    let limit = limit(which.limit)?;
    find(&house, &acting, id).await?;
    if stream {
        return Ok(follow(house, id, last.or(which.after), &which).await);
    }
    let rows = house.parts.store.events(id, which.after, limit + 1).await?;
    Ok(Json(Page::cut(rows, limit).map(|it| EventLine::from(&it))).into_response())
}

async fn follow(house: Arc<House>, thread: ThreadId, after: Option<u64>, which: &Which) -> Response {
    // Before the first look, so that nothing falls between.
    let ears = Ears::listen(&house, thread, LOOK).await;
    let next = after.map_or(0, |it| it.saturating_add(1));
    let follower = Follower {
        house,
        thread,
        ears,
        next,
        known: None,
        unread: true,
        ready: VecDeque::new(),
        deltas: which.deltas.unwrap_or_default(),
        until: which.until,
        over: false,
    };
    let events = stream::unfold(follower, Follower::step);
    Sse::new(events).keep_alive(KeepAlive::new()).into_response()
}

/// Follows a log for one reader, at that reader's pace: nobody waits for it.
struct Follower {
    house: Arc<House>,
    thread: ThreadId,
    ears: Ears,
    /// The number of the next event to read.
    next: u64,
    /// How far the log was when the last notice was sent; unknown before the first look is over.
    known: Option<u64>,
    /// Whether there may be events to read.
    unread: bool,
    /// Read, and not yet taken by the reader.
    ready: VecDeque<Event>,
    deltas: bool,
    until: Option<Until>,
    over: bool,
}

impl Follower {
    async fn step(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((Ok(event), self));
            }
            if self.over {
                return None;
            }
            if self.unread {
                self.read().await;
            } else {
                self.hear().await;
            }
        }
    }

    async fn read(&mut self) {
        match self.look().await {
            Ok(()) => (),
            Err(Error::Unavailable(error)) => {
                warn!(thread = %self.thread, error, "a stream waits for the store");
                self.over = self.ears.pause(STORE_AWAY).await;
            }
            Err(error) => {
                let problem = json!(Problem::from(error)).to_string();
                self.ready.push_back(Event::default().event("problem").data(problem));
                self.over = true;
            }
        }
    }

    async fn look(&mut self) -> Result<(), Error> {
        // First whether it rests, then the events: what was appended between is seen, and looked at once more.
        let rests = self.until == Some(Until::Rest) && self.rests().await?;
        let store = &self.house.parts.store;
        let page = store.events(self.thread, self.next.checked_sub(1), AT_ONCE).await?;
        self.ready.extend(page.iter().map(line));
        if let Some(last) = page.last() {
            self.next = last.seq + 1;
        }
        let all = u64::try_from(page.len()).is_ok_and(|it| it < AT_ONCE);
        self.unread = !all || (self.until.is_some() && !page.is_empty());
        self.over = rests && page.is_empty();
        if all {
            self.known.get_or_insert(self.next);
        }
        Ok(())
    }

    /// Whether the thread rests and no turn waits for it.
    async fn rests(&mut self) -> Result<bool, Error> {
        let store = &self.house.parts.store;
        let thread = store.thread(self.thread).await?.ok_or(Error::UnknownThread(self.thread))?;
        let at_rest = match thread.status {
            ThreadStatus::Busy => false,
            ThreadStatus::Idle | ThreadStatus::Interrupted | ThreadStatus::Error => true,
        };
        Ok(at_rest && store.next_queued(self.thread).await?.is_none())
    }

    async fn hear(&mut self) {
        match self.ears.next().await {
            Sound::Stop => self.over = true,
            Sound::Silence => {
                self.known = None;
                self.unread = true;
            }
            Sound::Notice(Notice::Appended { seq }) => {
                self.known = self.known.max(Some(seq));
                self.unread = self.next < seq || self.until.is_some();
            }
            // What was said before an event that the reader has seen is old: the event says it all.
            Sound::Notice(Notice::Delta { node, slot, text })
                if self.deltas && Some(self.next) <= self.known =>
            {
                let delta = json!({"node": node, "slot": slot, "text": text}).to_string();
                self.ready.push_back(Event::default().event("delta").data(delta));
            }
            Sound::Notice(Notice::Delta { .. } | Notice::Recalled { .. } | Notice::Paused) => (),
        }
    }
}

fn line(recorded: &store::Recorded) -> Event {
    let line = EventLine::from(recorded);
    let event = Event::default().id(line.seq.to_string()).event(line.kind);
    match event.clone().json_data(&line) {
        Ok(event) => event,
        Err(error) => {
            let problem = Kind::Internal.because(format!("event {} has no JSON: {error}", line.seq));
            event.data(json!(problem).to_string())
        }
    }
}
