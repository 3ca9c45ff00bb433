//! The vector index in Milvus, over gRPC.
//!
//! ```text
//! turnfold_index         one row per entry: all fields except the vector, and the vector's length
//! turnfold_index_384     one row per vector of length 384
//! turnfold_index_1536    …
//! ```
//!
//! All vectors of a Milvus collection have the same length, and embedding models differ in length. The length is
//! therefore part of the collection's name: a vector is never written to a collection of another length, and a new
//! index is built next to the old one.
//!
//! **Invariant:** the row in `turnfold_index` defines an entry. Milvus has no transactions across collections, so
//! vectors are written before the rows that refer to them and deleted after them. A vector without a row, left by a
//! writer that died in between, is ignored.
//!
//! ## Why every read uses strong consistency
//!
//! By default Milvus answers from the data that its nodes have received so far; a search directly after a build found
//! nothing.
//!
//! ## Compatibility
//!
//! The index test suite passes on milvus-lite 3.2 and Milvus 2.3. After a restart, milvus-lite has its rows but answers
//! no query until the collection is loaded; loading a loaded collection is cheap, so every use loads it. The client
//! cannot parse milvus-lite's responses about index progress, collection lists and statistics. Milvus 2.3 does not
//! support expression templates and does not name the fields of search results. The module `wire` uses none of these
//! features.
//! all of that.

mod rows;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use shared::Metric;
use tokio::sync::OnceCell;

use self::{
    rows::Row,
    wire::{Place, Wire},
};
use super::{Embedded, Entry, Near, VectorIndex, nearest};
use crate::{Error, log::plain};

/// Vector index in Milvus.
pub struct MilvusIndex {
    place: Place,
    // Connected on first use, so turns that do not search work without Milvus.
    wire: OnceCell<Wire>,
}

impl MilvusIndex {
    /// Creates an index at `http://HOST:PORT` or `http://HOST:PORT/DATABASE` (or `https`), with an access token if the
    /// server requires one. Connects on first use.
    ///
    /// # Errors
    ///
    /// [`Error::IndexRefused`] if the address is invalid.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, Error> {
        Ok(Self { place: Place::new(url, token)?, wire: OnceCell::new() })
    }

    async fn wire(&self) -> Result<&Wire, Error> {
        self.wire.get_or_try_init(|| self.place.connect()).await
    }
}

#[async_trait]
impl VectorIndex for MilvusIndex {
    async fn upsert(&self, entries: Vec<Entry>) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        entries.iter().try_for_each(rows::check)?;
        let wire = self.wire().await?;
        let lengths: BTreeMap<String, usize> =
            entries.iter().map(|entry| (plain(&entry.server), rows::length(entry))).collect();
        let before = wire.rows().await?;
        for length in lengths.values().copied().filter(|length| *length > 0).collect::<BTreeSet<_>>() {
            wire.put_vectors(length, &entries).await?;
        }
        wire.put(&entries).await?;
        let moved = |row: &Row| lengths.get(&row.server).is_some_and(|length| *length != row.length);
        wire.drop_vectors(before.into_iter().filter(moved)).await
    }

    async fn remove(&self, servers: &[String]) -> Result<Vec<String>, Error> {
        let named: BTreeSet<String> = servers.iter().map(|server| plain(server)).collect();
        let wire = self.wire().await?;
        let mut rows = wire.rows().await?;
        rows.retain(|row| named.contains(&row.server));
        let mut removed: Vec<String> = rows.iter().map(|row| row.server.clone()).collect();
        removed.sort();
        wire.remove(&removed).await?;
        wire.drop_vectors(rows).await?;
        Ok(removed)
    }

    async fn all(&self) -> Result<Vec<Entry>, Error> {
        let wire = self.wire().await?;
        let rows = wire.rows().await?;
        let servers: Vec<String> = rows.iter().map(|row| row.server.clone()).collect();
        let mut entries = wire.entries(&servers).await?;
        let mut vectors = wire.vectors(rows).await?;
        for (_, entry) in &mut entries {
            let found = vectors.remove(&entry.server);
            entry.embedded =
                entry.embedded.take().zip(found).map(|(embedded, vector)| Embedded { vector, ..embedded });
        }
        let mut entries: Vec<Entry> = entries.into_iter().map(|(_, entry)| entry).collect();
        entries.sort_by(|a, b| a.server.cmp(&b.server));
        Ok(entries)
    }

    async fn models(&self) -> Result<BTreeSet<Option<String>>, Error> {
        Ok(self.wire().await?.rows().await?.into_iter().map(|row| row.model).collect())
    }

    /// Milvus ranks by the metric of its index, cosine. For the others, all vectors are read and ranked here: exactly,
    /// as its own flat index does.
    async fn nearest(&self, to: &Embedded, metric: Metric, limit: usize) -> Result<Vec<Near>, Error> {
        if metric != Metric::Cosine {
            return Ok(nearest::nearest(self.all().await?, to, metric, limit));
        }
        let wire = self.wire().await?;
        let scores = wire.search(to, limit).await?;
        let servers: Vec<String> = scores.keys().cloned().collect();
        let near = |(length, entry): (usize, Entry)| {
            // A vector that does not match its row is ignored.
            entry.embedded.filter(|embedded| embedded.model == to.model && length == to.vector.len())?;
            let score = *scores.get(&entry.server)?;
            Some(Near { server: entry.server, text: entry.text, score })
        };
        let mut all: Vec<Near> = wire.entries(&servers).await?.into_iter().filter_map(near).collect();
        nearest::sort(&mut all);
        Ok(all)
    }
}
