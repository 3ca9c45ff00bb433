//! Results of a search for words.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ThreadSummary;

/// Results of a search, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SearchResults {
    /// Threads, each with the newest of its events that has all the words.
    pub data: Vec<SearchHit>,
    /// True if there are more.
    pub has_more: bool,
    /// Time up to which everything is indexed (RFC 3339). Before the first scan of the logs has ended, it is the year 1970.
    #[schema(examples("2026-11-21T22:57:00.000000Z"))]
    pub indexed_until: String,
    /// True if events of more than a minute ago may be missing.
    pub is_behind: bool,
}

/// A thread with the words of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SearchHit {
    /// The thread, as in lists.
    pub thread: ThreadSummary,
    /// Number of the event.
    pub seq: u64,
    /// Time of the event (RFC 3339).
    #[schema(examples("2026-11-21T22:57:00.000000Z"))]
    pub at: String,
    /// Kind of the text.
    pub said_by: SaidBy,
    /// Name of the person or program that sent the message; null for other texts.
    #[schema(examples("ada"))]
    pub author: Option<String>,
    /// The part of the text that has the words, at most 200 characters.
    #[schema(examples("Where is order A-10/77?"))]
    pub snippet: String,
    /// Places of the words in the snippet.
    pub marks: Vec<SearchMark>,
}

/// Kind of a text that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SaidBy {
    /// Message of a person or program.
    User,
    /// Instructions of a client.
    System,
    /// Reply of a model, or of the strategy on its behalf.
    Assistant,
    /// Arguments of a call.
    Arguments,
    /// Result of a tool.
    Tool,
}

/// Place of a word in a snippet, in Unicode characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SearchMark {
    /// Index of the first character.
    pub start: usize,
    /// Index after the last character.
    pub end: usize,
}
