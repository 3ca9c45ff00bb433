//! Hits of a query, newest first, each with a snippet that is made from the log.

use std::collections::BTreeSet;

use sea_orm::{ConnectionTrait as _, DbBackend, FromQueryResult};
use shared::{Event, InputProvided, TurnStarted};

use super::{
    content::{Piece, Speaker, pieces},
    matching::matching,
    words::QueryWords,
};
use crate::{
    Error, Store, Stored, ThreadId,
    log::{replanned::Replanned, statement, unsigned},
};

/// Maximum number of threads that a search returns.
pub const MOST_FOUND: usize = 100;

/// Entries that are read at a time, and how many times at most. Several hits may be of one thread.
const PAGE: usize = 100;
const PAGES: usize = 20;

/// Newest entries by which the share of entries with the words is estimated, and the number of hits among them from which the next
/// page is read in the order of ids.
const SAMPLE: usize = 500;
const COMMON: usize = 10;

/// Length of a snippet, and of the text before its first hit, in characters.
const SNIPPET: usize = 200;
const BEFORE: usize = 60;

/// A thread with the words of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Newest event of the thread with all the words.
    pub seq: u64,
    /// Time of the event, in microseconds since the Unix epoch.
    pub at: i64,
    /// Author of the text.
    pub by: Speaker,
    /// Name of the person or program that sent the text; empty for texts of models and tools.
    pub author: String,
    /// Part of the text.
    pub snippet: String,
    /// Places of the words in the snippet: first character, and the first after it.
    pub marks: Vec<(usize, usize)>,
}

#[derive(FromQueryResult)]
struct Hit {
    id: i64,
    thread_id: ThreadId,
    seq: i64,
    is_visible: bool,
}

#[derive(FromQueryResult)]
struct EntryId {
    id: i64,
}

impl Store {
    /// Finds the threads of a tenant, or of all tenants, of which an event has all the words. Returns at most `limit`, newest hit first.
    ///
    /// # Errors
    ///
    /// [`Error::SearchOff`] if the index is switched off; [`Error::Unavailable`] if the database does not answer.
    pub async fn search(
        &self,
        words: &QueryWords,
        tenant: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Found>, Error> {
        self.check_search()?;
        let limit = limit.min(MOST_FOUND);
        let (mut found, mut seen, mut before) = (Vec::new(), BTreeSet::new(), i64::MAX);
        for _ in 0..PAGES {
            let hits = self.hits(words, tenant, before).await?;
            let is_last = hits.len() < PAGE;
            for hit in hits {
                before = hit.id;
                if !hit.is_visible || !seen.insert(hit.thread_id) {
                    continue;
                }
                found.extend(self.shown(words, &hit).await?);
                if found.len() == limit {
                    return Ok(found);
                }
            }
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    /// Returns the next page of entries.
    async fn hits(&self, words: &QueryWords, tenant: Option<&str>, before: i64) -> Result<Vec<Hit>, Error> {
        let backend = self.database.pool.get_database_backend();
        let query = matching(backend, words, tenant);
        if backend != DbBackend::Postgres {
            return self.page_of_hits(&query, tenant, [i64::MIN, before]).await;
        }
        // The planner does not know how many entries have the words. The index of words returns all of them before the first, which
        // is quick for rare words. Common ones are soon found among the newest entries.
        let mut window = SAMPLE;
        while let Some(first) = self.entry_before(before, window).await? {
            let hits = self.page_of_hits(&query, tenant, [first, before]).await?;
            if hits.len() == PAGE {
                return Ok(hits);
            }
            if hits.len() < COMMON || SAMPLE < window {
                break;
            }
            window = SAMPLE * 3 * PAGE / (2 * hits.len());
        }
        self.page_of_hits(&query, tenant, [i64::MIN, before]).await
    }

    /// Returns the id of the entry that stands `nth` before this one.
    async fn entry_before(&self, before: i64, nth: usize) -> Result<Option<i64>, Error> {
        let pool = &self.database.pool;
        let sql =
            format!("SELECT id FROM search_entries WHERE id < $1 ORDER BY id DESC OFFSET {nth} LIMIT 1");
        let entry = EntryId::find_by_statement(statement(pool, &sql, [before.into()])).one(pool).await?;
        Ok(entry.map(|entry| entry.id))
    }

    async fn page_of_hits(
        &self,
        query: &str,
        tenant: Option<&str>,
        [after, before]: [i64; 2],
    ) -> Result<Vec<Hit>, Error> {
        let pool = &self.database.pool;
        let ids = if pool.get_database_backend() == DbBackend::Postgres {
            // Of all entries, the order of ids must not lead PostgreSQL through the index of ids: rare words would be at its end.
            let id = if after == i64::MIN { "id + 0" } else { "id" };
            format!(
                "SELECT id, thread_id, seq FROM search_entries WHERE words @@ CAST($1 AS tsquery) AND {id} > $3 AND {id} < $4 \
                 ORDER BY {id} DESC LIMIT {PAGE}"
            )
        } else {
            format!(
                "SELECT search_entries.id, thread_id, seq FROM (SELECT rowid AS id FROM search_words WHERE search_words MATCH $1 \
                 AND rowid > $3 AND rowid < $4 ORDER BY rowid DESC LIMIT {PAGE}) AS word \
                 JOIN search_entries ON search_entries.id = word.id"
            )
        };
        let sql = format!(
            "SELECT entry.id, entry.thread_id, entry.seq, ($2 = '' OR threads.tenant = $2) AS is_visible \
             FROM ({ids}) AS entry JOIN threads ON threads.id = entry.thread_id ORDER BY entry.id DESC"
        );
        let values = [query.into(), tenant.unwrap_or_default().into(), after.into(), before.into()];
        Ok(Hit::find_by_statement(statement(pool, &sql, values)).all(&Replanned(pool)).await?)
    }

    /// Makes the snippet of a hit; none if the event was deleted meanwhile, or cannot be read.
    async fn shown(&self, words: &QueryWords, hit: &Hit) -> Result<Option<Found>, Error> {
        let seq = unsigned(hit.seq)?;
        let page = self.stored(hit.thread_id, seq, 1).await?;
        let Some(Stored { at, kind, payload, .. }) = page.into_iter().find(|event| event.seq == seq) else {
            return Ok(None);
        };
        let Ok(event) = Event::decode(&kind, &payload) else { return Ok(None) };
        let pieces = pieces(&event);
        let best = pieces.iter().max_by_key(|piece| words.different_in(&piece.text));
        let Some(Piece { by, text }) = best else { return Ok(None) };
        let (snippet, marks) = snippet(text, &words.places(text));
        let mut author = String::new();
        if *by == Speaker::User
            && let Event::TurnStarted(TurnStarted { actor, .. })
            | Event::InputProvided(InputProvided { actor, .. }) = &event
        {
            author.clone_from(actor);
        }
        Ok(Some(Found { thread: hit.thread_id, seq, at, by: *by, author, snippet, marks }))
    }
}

/// Cuts the part of a text around the first place with the most places near it. Returns it with the places as characters.
fn snippet(text: &str, places: &[(usize, usize)]) -> (String, Vec<(usize, usize)>) {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let nth = |byte: usize| chars.partition_point(|(at, _)| *at < byte);
    let places: Vec<(usize, usize)> = places.iter().map(|(start, end)| (nth(*start), nth(*end))).collect();
    let near = |nth: usize| {
        let (first, _) = places[nth];
        places[nth..].iter().take_while(|(_, end)| *end <= first + SNIPPET - BEFORE).count()
    };
    let first = (0..places.len().min(1_000)).max_by_key(|nth| (near(*nth), usize::MAX - nth));
    let start = first.map_or(0, |nth| places[nth].0.saturating_sub(BEFORE));
    let end = (start + SNIPPET).min(chars.len());
    let cut: String = chars[start..end].iter().map(|(_, char)| *char).collect();
    let inside = places.iter().filter(|(from, to)| start <= *from && *to <= end);
    (cut, inside.map(|(from, to)| (from - start, to - start)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_shows_the_words_together() {
        let text = format!("order {} the order A-10 of Zoë {}", "é".repeat(300), "x ".repeat(300));
        let words = QueryWords::parse("a-10 ORDER zoë").unwrap();
        let (cut, marks) = snippet(&text, &words.places(&text));
        let chars: Vec<char> = cut.chars().collect();
        let marked: Vec<String> =
            marks.iter().map(|(start, end)| chars[*start..*end].iter().collect()).collect();
        assert_eq!(marked, ["order", "A", "10", "Zoë"]);
        assert!(chars.len() <= SNIPPET);
        assert_eq!(snippet("", &[]), (String::new(), vec![]));
    }
}
