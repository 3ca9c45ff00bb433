//! The index: finds the servers that fit a text by their descriptions.
//!
//! ```text
//! with an embedding model   texts become vectors when indexed; cosine similarity and words rank together: see `hybrid`
//! without one               stems of words are compared at search time: see `bm25`
//! ```

mod bm25;
mod hybrid;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use queue::clock;
use shared::{Description, DynThread, Fault, Hit, Response, SearchOptions};
use store::{Embedded, Entry, Near, VectorIndex};

use super::Models;
use crate::{fault::store_fault, world::Outcome};

/// Ranking without a model, as recorded in the log.
const LEXICAL: &str = "lexical";

/// Suffix of the model's name in the log: words count too.
const AND_WORDS: &str = " and words";

/// Searchable descriptions of all servers.
pub struct Index {
    entries: Arc<dyn VectorIndex>,
    embedder: Option<Embedder>,
}

/// An embedding model.
struct Embedder {
    models: Arc<Models>,
    model: String,
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchResult {
    /// Matching servers, best first.
    pub hits: Vec<Hit>,
    /// Ranking: `lexical`, or `MODEL and words`.
    pub by: String,
}

impl Index {
    /// Creates an index that compares words and needs no model.
    pub fn lexical(entries: Arc<dyn VectorIndex>) -> Self {
        Self { entries, embedder: None }
    }

    /// Creates an index that compares words and the vectors of an embedding model, `provider/model`.
    pub fn embedded(entries: Arc<dyn VectorIndex>, models: Arc<Models>, model: String) -> Self {
        Self { entries, embedder: Some(Embedder { models, model }) }
    }

    /// Finds the servers that fit a text, at most `limit`, among `servers` if there are any.
    ///
    /// ## Why the ranking may be lexical despite a model
    ///
    /// Entries indexed before the model was configured have no vector of it and would never be found. Until the index
    /// is rebuilt, all entries are ranked by their words, and the result says so.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the index is empty or cannot be read, or the model does not respond.
    pub async fn search(
        &self,
        query: &str,
        limit: usize,
        options: &SearchOptions,
        servers: &[&str],
    ) -> Result<SearchResult, Fault> {
        let wanted = Wanted { limit, options, servers };
        if let Some(embedder) = &self.embedder {
            let models = self.entries.models().await.map_err(|error| store_fault("the index", &error))?;
            let is_from_model = |model: &Option<String>| model.as_ref() == Some(&embedder.model);
            match models.is_empty() {
                false if models.iter().all(is_from_model) => {
                    return self.nearest(embedder, query, &wanted).await;
                }
                false => tracing::warn!(
                    model = embedder.model,
                    "the index has entries without a vector of this model; hint: run: turnfold index build"
                ),
                true => (),
            }
        }
        let entries = self.entries.all().await.map_err(|error| store_fault("the index", &error))?;
        if entries.is_empty() {
            return Err(Fault::permanent("the index is empty; hint: run: turnfold index build"));
        }
        let scores = bm25::scores(query, entries.iter().map(|entry| searched(&entry.server, &entry.text)));
        let hits = entries.into_iter().zip(scores);
        let hits = hits.map(|(entry, score)| Hit { server: entry.server, score, text: entry.text }).collect();
        Ok(SearchResult { hits: wanted.best(hits), by: LEXICAL.to_owned() })
    }

    /// All entries are read: an entry with a distant vector may match by its words.
    async fn nearest(
        &self,
        embedder: &Embedder,
        query: &str,
        wanted: &Wanted<'_>,
    ) -> Result<SearchResult, Fault> {
        let query_vector = embedder.vector(query).await?;
        let near = self.entries.nearest(&query_vector, wanted.options.metric, usize::MAX).await;
        let mut near = near.map_err(|error| store_fault("the index", &error))?;
        let scores = bm25::scores(query, near.iter().map(|entry| searched(&entry.server, &entry.text)));
        hybrid::fuse(&mut near, &scores);
        let hit = |Near { server, text, score }| Hit { server, score, text };
        let hits = near.into_iter().map(hit).collect();
        Ok(SearchResult { hits: wanted.best(hits), by: query_vector.model + AND_WORDS })
    }

    /// Searches among the servers of the thread, so that others do not count against the limit.
    pub(super) async fn find(
        &self,
        thread: &dyn DynThread,
        query: &str,
        limit: usize,
        options: &SearchOptions,
    ) -> Outcome {
        let SearchResult { hits, by } = self.search(query, limit, options, &thread.servers()).await?;
        Ok((Response::SearchResults { hits, ranking: by }, None))
    }

    /// Updates the index. A changed description is written, `None` keeps an entry, and servers that are not named are
    /// removed. Vectors of another model are recomputed. An entry that should have another hash, by `held`, is not reported as
    /// unchanged.
    pub(super) async fn update(
        &self,
        servers: &BTreeMap<String, Option<Description>>,
        held: &BTreeMap<String, String>,
    ) -> Outcome {
        let existing = self.entries.all().await.map_err(|error| store_fault("the index", &error))?;
        let mut existing: BTreeMap<String, Entry> =
            existing.into_iter().map(|entry| (entry.server.clone(), entry)).collect();
        let (mut written, mut unchanged, mut stale) = (Vec::new(), Vec::new(), Vec::new());
        for (server, description) in servers {
            match (description, existing.remove(server)) {
                (Some(description), existing)
                    if existing.as_ref().is_none_or(|entry| entry.hash != description.hash) =>
                {
                    written.push(server.clone());
                    stale.push(entry(server, description));
                }
                (_, Some(existing)) => {
                    if held.get(server).is_none_or(|hash| *hash == existing.hash) {
                        unchanged.push(server.clone());
                    }
                    stale.extend(
                        self.embedder.as_ref().filter(|it| !it.is_from_model(&existing)).map(|_| existing),
                    );
                }
                (_, None) => (),
            }
        }
        if let Some(embedder) = &self.embedder {
            embedder.embed(&mut stale).await?;
        }
        self.entries.upsert(stale).await.map_err(|error| store_fault("the index", &error))?;
        let obsolete: BTreeSet<String> = existing.into_keys().collect();
        let removed = self.entries.remove(&obsolete.into_iter().collect::<Vec<_>>()).await;
        let removed = removed.map_err(|error| store_fault("the index", &error))?;
        Ok((Response::Indexed { written, unchanged, removed }, None))
    }
}

impl Embedder {
    /// Returns true if the entry's vector is this model's.
    fn is_from_model(&self, entry: &Entry) -> bool {
        entry.embedded.as_ref().is_some_and(|embedded| embedded.model == self.model)
    }

    async fn embed(&self, entries: &mut [Entry]) -> Result<(), Fault> {
        let texts: Vec<String> = entries.iter().map(|entry| searched(&entry.server, &entry.text)).collect();
        let vectors = self.models.embed(&self.model, &texts).await?;
        for (entry, vector) in entries.iter_mut().zip(vectors) {
            entry.embedded = Some(Embedded { model: self.model.clone(), vector });
            entry.updated_at = clock::now();
        }
        Ok(())
    }

    async fn vector(&self, query: &str) -> Result<Embedded, Fault> {
        let vectors = self.models.embed(&self.model, &[query.to_owned()]).await?;
        Ok(Embedded { model: self.model.clone(), vector: vectors.into_iter().next().unwrap_or_default() })
    }
}

/// Results that a search may have.
struct Wanted<'a> {
    limit: usize,
    options: &'a SearchOptions,
    /// Servers that may be found. Empty: all.
    servers: &'a [&'a str],
}

impl Wanted<'_> {
    /// Matches, best first. A score of zero or less means no relation to the query.
    fn best(&self, mut hits: Vec<Hit>) -> Vec<Hit> {
        let is_available = |server: &str| self.servers.is_empty() || self.servers.contains(&server);
        hits.retain(|hit| hit.score > 0.0 && self.options.min_score <= hit.score);
        hits.retain(|hit| is_available(&hit.server) && self.options.allows(&hit.server));
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.server.cmp(&b.server)));
        hits.truncate(self.limit);
        hits
    }
}

/// Searched text of an entry. It includes the server's name, which is often descriptive.
fn searched(server: &str, text: &str) -> String {
    format!("{server}\n{text}")
}

fn entry(server: &str, description: &Description) -> Entry {
    let Description { text, hash } = description.clone();
    Entry { server: server.to_owned(), hash, text, embedded: None, updated_at: clock::now() }
}
