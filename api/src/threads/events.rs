//! Route that returns a log as a page or follows it as a stream.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use api_types::{LogEvent, Page, Problem};
use axum::{
    Json,
    extract::State,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::stream;
use queue::{Delta, Notification};
use serde::Deserialize;
use serde_json::json;
use shared::{Role, ThreadStatus, one_line};
use store::{Error, ThreadId};
use tracing::warn;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    logs::{
        live_answer::{Change, LiveAnswer},
        lookup::find_thread,
        subscription::{Signal, Subscription},
    },
    server::{
        extract::{LastEventId, Path, Query, WantsStream},
        json_event::json_event,
        pagination::{limit, page},
        principal::Principal,
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
        streams::StreamPermit,
    },
    views,
};

/// Interval at which a stream rereads the log without a notification.
const RECHECK: Duration = Duration::from_secs(10);

/// Maximum number of events that a stream reads at once. It reads more only after the client has received these.
const READ_AT_ONCE: u64 = 100;

/// Delay before a stream retries while the store is unavailable.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// Query parameters of the list of events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListEvents {
    /// Only events after this position. Default: all events.
    after: Option<u64>,
    /// Maximum number of events on a page. Default: 50. Streams have no limit.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
    /// If true, a stream includes the answer of a turn while a model writes it. Default: false.
    deltas: Option<bool>,
    /// Condition that ends a stream. Default: the stream does not end.
    #[param(inline)]
    until: Option<Until>,
}

/// Condition that ends a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    /// The thread has nothing to do and no turn is queued.
    Rest,
}

/// List or follow the events of a thread
///
/// Returns a page of JSON. With `Accept: text/event-stream`, returns a stream that follows the log: `id` is the position of
/// the event, `event` its kind, and `data` the same JSON as in a page. A client that was disconnected continues after
/// `Last-Event-ID`. An event of kind `problem` contains the error that ends the stream.
///
/// With `deltas=true`, events of kind `delta`, without an id, contain the answer of a turn while a model writes it, in
/// pieces to append: `turn_id`, `node`, `seq` of the request, and `text`. Output of models that is not the answer, such as
/// plans and judgements, is not among them. An event of kind `reset` says that the pieces received so far must be
/// discarded, because the attempt failed or the answer became another one. The event `decided` contains the complete
/// answer; its beginning is the text of the pieces since the last `reset`.
#[utoipa::path(
    get, path = "/v1/threads/{id}/events", tag = "threads", operation_id = "list_thread_events",
    params(
        ("id" = Uuid, Path, description = "Id of the thread."), ListEvents,
        ("Last-Event-ID" = Option<u64>, Header, description = "Last event that the client of a stream received; overrides `after`.")
    ),
    responses(
        (status = 200, description = "A page of events, or a stream.", content(
            (Page<LogEvent> = "application/json"),
            (String = "text/event-stream", example = "id: 0\nevent: opened\ndata: {\"seq\":0,\"kind\":\"opened\"}\n\n")
        )),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "The key has too many open event streams.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn events(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
    Query(params): Query<ListEvents>,
    LastEventId(last): LastEventId,
    WantsStream(stream): WantsStream,
) -> Result<Response, ApiError> {
    let limit = limit(params.limit)?;
    find_thread(&app, &principal, id).await?;
    if stream {
        let permit = app.streams.open(principal.caller())?;
        return Ok(follow(app, permit, id, last.or(params.after), &params).await);
    }
    let rows = app.backends.store.events(id, params.after, limit + 1).await?;
    Ok(Json(page(rows, limit).map(|row| views::log_event(&row))).into_response())
}

async fn follow(
    app: Arc<AppState>,
    permit: StreamPermit,
    thread: ThreadId,
    after: Option<u64>,
    params: &ListEvents,
) -> Response {
    // The subscription starts before the first read, so no event is missed in between.
    let subscription = Subscription::listen(&app, thread, RECHECK).await;
    let deltas = params.deltas.unwrap_or_default();
    if deltas {
        app.repeat_answer(thread).await;
    }
    let next = after.map_or(0, |seq| seq.saturating_add(1));
    let follower = Follower {
        app,
        permit,
        thread,
        subscription,
        next,
        known: None,
        unread: true,
        ready: VecDeque::new(),
        deltas,
        answer: LiveAnswer::default(),
        until: params.until,
        over: false,
    };
    let events = stream::unfold(follower, Follower::step);
    Sse::new(events).keep_alive(KeepAlive::new()).into_response()
}

/// Follows a log for one client at the client's pace.
struct Follower {
    app: Arc<AppState>,
    #[expect(dead_code, reason = "counts the stream until it ends")]
    permit: StreamPermit,
    thread: ThreadId,
    subscription: Subscription,
    /// Position of the next event to read.
    next: u64,
    /// Length of the log at the last notification. Unknown until the log has been read once.
    known: Option<u64>,
    /// True if there may be events to read.
    unread: bool,
    /// Events that were read and not sent yet.
    ready: VecDeque<Event>,
    deltas: bool,
    /// Answer that is being written, as sent to the client.
    answer: LiveAnswer,
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
                self.wait().await;
            }
        }
    }

    async fn read(&mut self) {
        match self.try_read().await {
            Ok(()) => (),
            Err(Error::Unavailable(error)) => {
                warn!(thread = %self.thread, error, "store unavailable; the event stream will retry");
                self.over = self.subscription.pause(STORE_RETRY).await;
            }
            Err(error) => {
                let problem = json!(ApiError::from(error).body());
                self.ready.push_back(json_event(Event::default().event("problem"), &problem));
                self.over = true;
            }
        }
    }

    async fn try_read(&mut self) -> Result<(), Error> {
        // The status is read before the events: an event appended in between is read, and the status is read again.
        let rests = self.until == Some(Until::Rest) && self.rests().await?;
        let store = &self.app.backends.store;
        let page = store.events(self.thread, self.next.checked_sub(1), READ_AT_ONCE).await?;
        for recorded in &page {
            self.end_answer(&recorded.event);
            self.ready.push_back(sse_event(recorded));
        }
        if let Some(last) = page.last() {
            self.next = last.seq + 1;
        }
        let all = u64::try_from(page.len()).is_ok_and(|count| count < READ_AT_ONCE);
        self.unread = !all || (self.until.is_some() && !page.is_empty());
        self.over = rests && page.is_empty();
        if all {
            self.known.get_or_insert(self.next);
        }
        Ok(())
    }

    /// Reports whether the thread has nothing to do and no turn is queued.
    async fn rests(&mut self) -> Result<bool, Error> {
        let store = &self.app.backends.store;
        let thread = store.thread(self.thread).await?.ok_or(Error::UnknownThread(self.thread))?;
        let at_rest = match thread.status {
            ThreadStatus::Busy => false,
            ThreadStatus::Idle | ThreadStatus::Interrupted | ThreadStatus::Error => true,
        };
        Ok(at_rest && store.next_queued(self.thread).await?.is_none())
    }

    async fn wait(&mut self) {
        match self.subscription.next().await {
            Signal::Shutdown => self.over = true,
            Signal::Recheck => {
                self.known = None;
                self.unread = true;
            }
            Signal::Notification(Notification::Appended { seq, .. }) => {
                self.known = self.known.max(Some(seq));
                self.unread = self.next < seq || self.until.is_some();
            }
            // A delta that precedes an event the client has received is obsolete: the event contains the whole text.
            Signal::Notification(Notification::Delta(delta))
                if self.deltas && Some(self.next) <= self.known =>
            {
                self.add_delta(&delta);
            }
            Signal::Notification(
                Notification::Delta(_)
                | Notification::Changed { .. }
                | Notification::FollowerJoined { .. }
                | Notification::PausesChanged
                | Notification::ModelResumed { .. }
                | Notification::KeysChanged,
            ) => (),
        }
    }

    fn add_delta(&mut self, delta: &Delta) {
        let from = match self.answer.add(delta) {
            Change::None => return,
            Change::Grew(from) => from,
            Change::Restarted => {
                self.ready.push_back(reset("the model was asked again"));
                0
            }
        };
        let Delta { turn, node, seq, .. } = delta;
        let text = &self.answer.text()[from..];
        let delta = json!({"turn_id": turn, "node": node, "seq": seq, "text": text});
        self.ready.push_back(json_event(Event::default().event("delta"), &delta));
    }

    /// Ends the answer that is being written if this event ends it. Tells the client if the answer does not begin with what
    /// was sent.
    fn end_answer(&mut self, event: &shared::Event) {
        let is_whole = match event {
            shared::Event::Decided(decided) => {
                let answer = decided.messages.iter().rfind(|message| message.role == Role::Assistant);
                answer.is_some_and(|answer| answer.content.starts_with(self.answer.text()))
            }
            shared::Event::AttemptFailed(_)
            | shared::Event::Abandoned(_)
            | shared::Event::Failed(_)
            | shared::Event::Cancelled(_) => false,
            shared::Event::Opened(_)
            | shared::Event::TurnStarted(_)
            | shared::Event::Asked(_)
            | shared::Event::Attempted(_)
            | shared::Event::Answered(_)
            | shared::Event::InDoubt(_)
            | shared::Event::Reconciled(_)
            | shared::Event::Summarised(_)
            | shared::Event::TaskStarted(_)
            | shared::Event::InputRequired(_)
            | shared::Event::InputProvided(_)
            | shared::Event::Retried(_)
            | shared::Event::WriteEnded(_)
            | shared::Event::Forked(_)
            | shared::Event::TakenOver(_)
            | shared::Event::Rated(_) => return,
        };
        if !is_whole && !self.answer.text().is_empty() {
            self.ready.push_back(reset("the answer did not come to its end, or became another one"));
        }
        self.answer.end();
    }
}

fn reset(reason: &str) -> Event {
    json_event(Event::default().event("reset"), &json!({"reason": reason}))
}

fn sse_event(recorded: &store::Recorded) -> Event {
    let log_event = views::log_event(recorded);
    let event = Event::default().id(log_event.seq.to_string()).event(&log_event.kind);
    match serde_json::to_string(&log_event) {
        Ok(data) => event.data(one_line(data)),
        Err(error) => {
            let detail = format!("event {} cannot be serialized: {error}", log_event.seq);
            json_event(event, &json!(Kind::Internal.because(detail).body()))
        }
    }
}
