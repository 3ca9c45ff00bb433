//! Route that searches the logs for words.

use api_types::{Problem, SaidBy, SearchHit, SearchMark, SearchResults};
use axum::{Json, extract::State};
use queue::clock::rfc3339;
use serde::Deserialize;
use store::{Found, MOST_FOUND, QueryWords, Speaker};
use utoipa::IntoParams;

use crate::{
    server::{
        extract::Query,
        principal::Principal,
        problem::{ApiError, Kind},
        state::SharedState,
    },
    views,
};

/// Default number of threads.
const LIMIT: usize = 20;

/// Query parameters of a search.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParams {
    /// The words, at most 256 characters. Nothing in them is syntax. Numbers such as `A-10/77` are found as they are written.
    #[param(example = "order A-10/77")]
    q: String,
    /// Maximum number of threads. Default: 20.
    #[param(minimum = 1, maximum = 99)]
    limit: Option<usize>,
}

/// Search for words
///
/// Returns the threads of which one event has all the words: in a message of a person, a reply of a model, the arguments of a call or the
/// result of a tool. The order of the words and their case do not matter. Newest events first. Events of the last seconds may be missing;
/// `indexed_until` says up to when all are searched.
#[utoipa::path(
    get, path = "/v1/search", tag = "threads", operation_id = "search", params(SearchParams),
    responses(
        (status = 200, description = "The threads.", body = SearchResults),
        (status = 409, description = "The search index is switched off.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "There are no words, or too many.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn search(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<SearchParams>,
) -> Result<Json<SearchResults>, ApiError> {
    let limit = params.limit.unwrap_or(LIMIT);
    if !(1..MOST_FOUND).contains(&limit) {
        let most = MOST_FOUND - 1;
        let detail = format!("limit must be between 1 and {most}, but is {limit}");
        return Err(Kind::Malformed.because(detail).hint(format!("leave it out for {LIMIT}")));
    }
    let words = QueryWords::parse(&params.q)
        .map_err(|(what, hint)| Kind::Invalid.because(format!("q: {what}")).hint(hint).with_param("q"))?;
    let store = &app.backends.store;
    let progress = store.search_progress().await?;
    let mut found = store.search(&words, principal.only(), limit + 1).await?;
    let has_more = limit < found.len();
    found.truncate(limit);
    let mut data = Vec::with_capacity(found.len());
    for hit in found {
        // A thread that was deleted meanwhile is left out.
        if let Some(thread) = store.thread(hit.thread).await?.filter(|thread| principal.sees(&thread.tenant))
        {
            data.push(shown(thread, hit));
        }
    }
    let indexed_until = rfc3339(progress.indexed_until);
    Ok(Json(SearchResults { data, has_more, indexed_until, is_behind: progress.is_behind }))
}

fn shown(thread: store::Thread, hit: Found) -> SearchHit {
    SearchHit {
        thread: views::thread_summary(thread),
        seq: hit.seq,
        at: rfc3339(hit.at),
        said_by: match hit.by {
            Speaker::User => SaidBy::User,
            Speaker::System => SaidBy::System,
            Speaker::Assistant => SaidBy::Assistant,
            Speaker::Arguments => SaidBy::Arguments,
            Speaker::Tool => SaidBy::Tool,
        },
        author: Some(hit.author).filter(|author| !author.is_empty()),
        snippet: hit.snippet,
        marks: hit.marks.into_iter().map(|(start, end)| SearchMark { start, end }).collect(),
    }
}
