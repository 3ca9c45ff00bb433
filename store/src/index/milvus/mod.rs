//! The index in Milvus, spoken to over gRPC.
//!
//! ```text
//! turnfold_index         a row an entry: everything but its vector, and how many numbers that has
//! turnfold_index_384     a row a vector of 384 numbers
//! turnfold_index_1536    …
//! ```
//!
//! All vectors of a collection have one length, and another embedding model makes vectors of another. So the length is part of the
//! collection's name: no vector ever meets a collection that it does not fit, and an index is built anew beside the old one.
//!
//! **Invariant:** an entry is what its row in `turnfold_index` says. Milvus has no transaction over collections: vectors are
//! written before the rows that tell of them, and deleted after. A vector that no row tells of, because its writer died in
//! between, counts for nothing.
//!
//! ## Why every read is a strong one
//!
//! Milvus answers from what its nodes have heard of so far, unless it is told to wait: a search after a build found nothing.
//!
//! ## What is known of servers
//!
//! The suite of the index passes on milvus-lite 3.2 and on Milvus 2.3. After a restart milvus-lite has its rows but answers no
//! query until the collection is loaded, and loading a loaded one costs little: so each use loads. It cannot tell how far an
//! index is built, which collections there are, or what their numbers are, in the form that the client wants; and Milvus 2.3
//! knows no templates in expressions and does not name the fields of what a search found. Hence `wire`, which does without
//! all of that.

mod rows;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use self::{
    rows::Row,
    wire::{Place, Wire},
};
use super::{Embedded, Entry, Near, VectorIndex, nearest};
use crate::{Error, log::plain};

/// An index in Milvus.
pub struct MilvusIndex {
    place: Place,
    // Connected when it is first needed: turns that search for nothing do without Milvus.
    wire: OnceCell<Wire>,
}

impl MilvusIndex {
    /// An index at `http://HOST:PORT` or `http://HOST:PORT/DATABASE` (or `https`), with the token that the server wants, if
    /// it wants one. It is connected to when it is first used.
    ///
    /// # Errors
    ///
    /// [`Error::IndexRefused`] if the address is none.
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
            entries.iter().map(|it| (plain(&it.server), rows::length(it))).collect();
        let before = wire.rows().await?;
        for length in lengths.values().copied().filter(|it| *it > 0).collect::<BTreeSet<_>>() {
            wire.put_vectors(length, &entries).await?;
        }
        wire.put(&entries).await?;
        let moved = |it: &Row| lengths.get(&it.server).is_some_and(|length| *length != it.length);
        wire.drop_vectors(before.into_iter().filter(moved)).await
    }

    async fn remove(&self, servers: &[String]) -> Result<Vec<String>, Error> {
        let named: BTreeSet<String> = servers.iter().map(|it| plain(it)).collect();
        let wire = self.wire().await?;
        let mut rows = wire.rows().await?;
        rows.retain(|it| named.contains(&it.server));
        let mut removed: Vec<String> = rows.iter().map(|it| it.server.clone()).collect();
        removed.sort();
        wire.remove(&removed).await?;
        wire.drop_vectors(rows).await?;
        Ok(removed)
    }

    async fn all(&self) -> Result<Vec<Entry>, Error> {
        let wire = self.wire().await?;
        let rows = wire.rows().await?;
        let servers: Vec<String> = rows.iter().map(|it| it.server.clone()).collect();
        let mut entries = wire.entries(&servers).await?;
        let mut vectors = wire.vectors(rows).await?;
        for (_, entry) in &mut entries {
            let found = vectors.remove(&entry.server);
            entry.embedded = entry.embedded.take().zip(found).map(|(it, vector)| Embedded { vector, ..it });
        }
        let mut entries: Vec<Entry> = entries.into_iter().map(|(_, it)| it).collect();
        entries.sort_by(|a, b| a.server.cmp(&b.server));
        Ok(entries)
    }

    async fn models(&self) -> Result<BTreeSet<Option<String>>, Error> {
        Ok(self.wire().await?.rows().await?.into_iter().map(|it| it.model).collect())
    }

    async fn nearest(&self, to: &Embedded, limit: usize) -> Result<Vec<Near>, Error> {
        let wire = self.wire().await?;
        let scores = wire.search(to, limit).await?;
        let servers: Vec<String> = scores.keys().cloned().collect();
        let near = |(length, it): (usize, Entry)| {
            // A vector that its row does not tell of is none.
            it.embedded.filter(|it| it.model == to.model && length == to.vector.len())?;
            let score = *scores.get(&it.server)?;
            Some(Near { server: it.server, text: it.text, score })
        };
        let mut all: Vec<Near> = wire.entries(&servers).await?.into_iter().filter_map(near).collect();
        nearest::sort(&mut all);
        Ok(all)
    }
}
