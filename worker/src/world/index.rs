//! The index at work: what each server offers is kept, and the servers that fit a text are found.
//!
//! ```text
//! with an embedding model   texts become vectors when they are kept; angles and words say together what fits: see `fused`
//! without one               words and pieces of words are compared when somebody searches: see `lexical`
//! ```

mod fused;
mod lexical;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shared::{Description, Fault, Hit, Response};
use store::{Embedded, Entry, Near, VectorIndex, time};

use super::{Models, Outcome, of_store};

/// How the ranking without a model is called in the log.
const LEXICAL: &str = "lexical";

/// What follows the model's name there: it ranks by words too.
const AND_WORDS: &str = " and words";

/// The index at work.
pub struct Index {
    entries: Arc<dyn VectorIndex>,
    embedder: Option<Embedder>,
}

/// A model that makes vectors.
struct Embedder {
    models: Arc<Models>,
    model: String,
}

/// The servers that fit a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Which, the best first.
    pub hits: Vec<Hit>,
    /// How they were ranked: `lexical`, or `MODEL and words`.
    pub by: String,
}

impl Index {
    /// One that compares words, and needs no model.
    pub fn lexical(entries: Arc<dyn VectorIndex>) -> Self {
        Self { entries, embedder: None }
    }

    /// One that compares the vectors of a model, `provider/model`, and words.
    pub fn embedded(entries: Arc<dyn VectorIndex>, models: Arc<Models>, model: String) -> Self {
        Self { entries, embedder: Some(Embedder { models, model }) }
    }

    /// The servers that fit a text, `limit` at most.
    ///
    /// ## Why it may be lexical in spite of a model
    ///
    /// Entries that were kept before the model was configured have no vector of it, and would never be found. Until
    /// the index is built once more, all are ranked by their words, and the answer says so.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the index cannot be read, or the model does not answer.
    pub async fn search(&self, query: &str, limit: usize) -> Result<Found, Fault> {
        if let Some(embedder) = &self.embedder {
            let models = self.entries.models().await.map_err(|error| of_store("the index", &error))?;
            let made = |it: &Option<String>| it.as_ref() == Some(&embedder.model);
            match models.is_empty() {
                false if models.iter().all(made) => return self.nearest(embedder, query, limit).await,
                false => tracing::warn!(
                    model = embedder.model,
                    "the index has entries without a vector of this model: build it once more"
                ),
                true => (),
            }
        }
        let entries = self.entries.all().await.map_err(|error| of_store("the index", &error))?;
        let scores = lexical::scores(query, entries.iter().map(|it| searched(&it.server, &it.text)));
        let hits = entries.into_iter().zip(scores);
        let hits = hits.map(|(it, score)| Hit { server: it.server, score, text: it.text }).collect();
        Ok(Found { hits: best(hits, limit), by: LEXICAL.to_owned() })
    }

    /// All are asked for, as one that is far by its vector may be near by its words.
    async fn nearest(&self, embedder: &Embedder, query: &str, limit: usize) -> Result<Found, Fault> {
        let asked = embedder.vector(query).await?;
        let near = self.entries.nearest(&asked, usize::MAX).await;
        let mut near = near.map_err(|error| of_store("the index", &error))?;
        let scores = lexical::scores(query, near.iter().map(|it| searched(&it.server, &it.text)));
        fused::fuse(&mut near, &scores);
        let hit = |Near { server, text, score }| Hit { server, score, text };
        let hits = near.into_iter().map(hit).collect();
        Ok(Found { hits: best(hits, limit), by: asked.model + AND_WORDS })
    }

    pub(super) async fn find(&self, query: &str, limit: usize) -> Outcome {
        let Found { hits, by } = self.search(query, limit).await?;
        Ok((Response::Found { hits, by }, None))
    }

    /// Brings the index up to date: what is offered is written where it differs, what is named with nothing stays,
    /// and what is not named is removed. Vectors of another model are made anew.
    pub(super) async fn update(&self, servers: &BTreeMap<String, Option<Description>>) -> Outcome {
        let held = self.entries.all().await.map_err(|error| of_store("the index", &error))?;
        let mut held: BTreeMap<String, Entry> = held.into_iter().map(|it| (it.server.clone(), it)).collect();
        let (mut written, mut unchanged, mut stale) = (Vec::new(), Vec::new(), Vec::new());
        for (server, offer) in servers {
            match (offer, held.remove(server)) {
                (Some(offer), held) if held.as_ref().is_none_or(|it| it.hash != offer.hash) => {
                    written.push(server.clone());
                    stale.push(entry(server, offer));
                }
                (_, Some(held)) => {
                    unchanged.push(server.clone());
                    stale.extend(self.embedder.as_ref().filter(|it| !it.made(&held)).map(|_| held));
                }
                (_, None) => (),
            }
        }
        if let Some(embedder) = &self.embedder {
            embedder.embed(&mut stale).await?;
        }
        self.entries.upsert(stale).await.map_err(|error| of_store("the index", &error))?;
        let gone: BTreeSet<String> = held.into_keys().collect();
        let removed = self.entries.remove(&gone.into_iter().collect::<Vec<_>>()).await;
        let removed = removed.map_err(|error| of_store("the index", &error))?;
        Ok((Response::Indexed { written, unchanged, removed }, None))
    }
}

impl Embedder {
    /// Whether the entry's vector is this model's.
    fn made(&self, entry: &Entry) -> bool {
        entry.embedded.as_ref().is_some_and(|it| it.model == self.model)
    }

    async fn embed(&self, entries: &mut [Entry]) -> Result<(), Fault> {
        let texts: Vec<String> = entries.iter().map(|it| searched(&it.server, &it.text)).collect();
        let vectors = self.models.embed(&self.model, &texts).await?;
        for (entry, vector) in entries.iter_mut().zip(vectors) {
            entry.embedded = Some(Embedded { model: self.model.clone(), vector });
            entry.updated_at = time::now();
        }
        Ok(())
    }

    async fn vector(&self, query: &str) -> Result<Embedded, Fault> {
        let vectors = self.models.embed(&self.model, &[query.to_owned()]).await?;
        Ok(Embedded { model: self.model.clone(), vector: vectors.into_iter().next().unwrap_or_default() })
    }
}

/// Those that fit, the best first: what scores nothing has nothing to do with the query, or points elsewhere.
fn best(mut hits: Vec<Hit>, limit: usize) -> Vec<Hit> {
    hits.retain(|it| it.score > 0.0);
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.server.cmp(&b.server)));
    hits.truncate(limit);
    hits
}

/// What is searched of an entry: the server's name says much.
fn searched(server: &str, text: &str) -> String {
    format!("{server}\n{text}")
}

fn entry(server: &str, offer: &Description) -> Entry {
    let Description { text, hash } = offer.clone();
    Entry { server: server.to_owned(), hash, text, embedded: None, updated_at: time::now() }
}
