//! Requests to Milvus.

#![expect(clippy::result_large_err, reason = "the size of the client's errors is the client's")]

use std::{collections::BTreeMap, time::Duration};

use milvus::v2::{
    error::{Error as Refusal, Result as Answer},
    prelude::{
        ClientV2, CollectionSchema, ConnectConfig, ConsistencyLevel, CreateCollectionRequest,
        CreateIndexRequest, DeleteRequest, FieldData, HasCollectionRequest, Ids, IndexParam, IndexType,
        InsertRequest, LoadCollectionRequest, MetricType, QueryRequest, ResultRow, RetryConfig,
        SearchRequest, SearchVectors, TelemetryConfig, UpsertRequest,
    },
};

use super::rows::{self, Row};
use crate::{Embedded, Entry, Error};

/// Name of the entries' collection; the collections of vectors append their length.
const ENTRIES: &str = "turnfold_index";

/// Maximum number of rows that Milvus returns or ranks at once.
const ROWS_MAX: usize = 16_384;

/// Number of texts or vectors per request, so that the largest ones fit into the client's limit of 4 MiB.
const AT_ONCE: usize = 16;

/// Timeout for a connection.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

/// Timeout for one response.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Maximum attempts per request. A broken connection is only noticed when it is used.
const ATTEMPTS: u32 = 3;

/// Address of Milvus.
pub(super) struct Place {
    name: String,
    config: ConnectConfig,
}

/// Connection to Milvus.
pub(super) struct Wire {
    name: String,
    client: ClientV2,
}

impl Place {
    pub(super) fn new(url: &str, token: Option<&str>) -> Result<Self, Error> {
        let refused = |why: &str| {
            // The address may contain a password and is not shown.
            Err(Error::IndexRefused(format!("the address of Milvus {why}")))
        };
        let Some((scheme @ ("http" | "https"), rest)) = url.split_once("://") else {
            return refused("must be milvus:http://HOST:PORT or milvus:https://HOST:PORT");
        };
        if rest.contains(['@', '?', '#']) {
            return refused("must not contain a password; hint: set index.token = \"env:NAME\"");
        }
        let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
        if !host.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        {
            return refused("must name a host and a port, such as milvus:http://127.0.0.1:19530");
        }
        let retry = RetryConfig::new().max_attempts(ATTEMPTS);
        let mut config = ConnectConfig::new()
            .uri(format!("{scheme}://{host}"))
            .database(database.trim_end_matches('/'))
            .connect_timeout(CONNECTED_WITHIN)
            .rpc_timeout(ANSWERED_WITHIN)
            .retry(retry)
            // No telemetry is sent.
            .telemetry(TelemetryConfig::new().enabled(false));
        if let Some(token) = token {
            config = config.token(token);
        }
        Ok(Self { name: format!("Milvus at {host}"), config })
    }

    pub(super) async fn connect(&self) -> Result<Wire, Error> {
        let client = ClientV2::new(&self.config).await.map_err(|error| failed(&self.name, error))?;
        Ok(Wire { name: self.name.clone(), client })
    }
}

impl Wire {
    /// Returns the rows of all entries.
    pub(super) async fn rows(&self) -> Result<Vec<Row>, Error> {
        let found = self.said(self.query(ENTRIES, String::new(), &rows::OF_ROW, rows::row).await)?;
        if found.len() == ROWS_MAX {
            return Err(Error::IndexRefused(format!(
                "{} has {ROWS_MAX} servers or more, more than can be searched",
                self.name
            )));
        }
        Ok(found)
    }

    /// Returns the entries of these servers without their vectors, each with the length of its vector.
    pub(super) async fn entries(&self, servers: &[String]) -> Result<Vec<(usize, Entry)>, Error> {
        let mut entries = Vec::new();
        for some in servers.chunks(AT_ONCE) {
            entries.extend(self.said(self.query(ENTRIES, among(some), &rows::OF_ENTRY, rows::entry).await)?);
        }
        Ok(entries)
    }

    /// Returns the vectors that these rows refer to, by server.
    pub(super) async fn vectors(
        &self,
        told: impl IntoIterator<Item = Row>,
    ) -> Result<BTreeMap<String, Vec<f32>>, Error> {
        let mut vectors = BTreeMap::new();
        for (length, servers) in by_length(told) {
            for some in servers.chunks(AT_ONCE) {
                let fields = [rows::SERVER, rows::VECTOR];
                let found = self.query(&vectors_of(length), among(some), &fields, rows::vector).await;
                vectors.extend(self.said(found)?);
            }
        }
        Ok(vectors)
    }

    /// Returns the servers with the most similar vectors of this model, each with its cosine similarity.
    pub(super) async fn search(&self, to: &Embedded, limit: usize) -> Result<BTreeMap<String, f64>, Error> {
        let collection = vectors_of(to.vector.len());
        if limit == 0 || to.vector.is_empty() || !self.said(self.has(&collection).await)? {
            return Ok(BTreeMap::new());
        }
        let asked = async {
            self.load(&collection).await?;
            let request = SearchRequest::builder()
                .collection_name(&collection)
                .vector_field(rows::VECTOR)
                .vectors(SearchVectors::Float(vec![to.vector.clone()]))
                .metric_type(MetricType::Cosine)
                .filter(format!("{} == {}", rows::MODEL, quoted(&to.model)))
                .limit(limit.min(ROWS_MAX) as i64)
                .consistency_level(ConsistencyLevel::Strong)
                .build()?;
            self.client.search(request).await
        };
        let found = self.said(asked.await)?;
        let Some(found) = found.results().iter().next() else { return Ok(BTreeMap::new()) };
        let Ids::VarChar(servers) = found.get_ids() else { return Ok(BTreeMap::new()) };
        Ok(servers.iter().cloned().zip(found.get_scores().iter().map(|score| f64::from(*score))).collect())
    }

    /// Writes entries without their vectors, in one request.
    pub(super) async fn put(&self, entries: &[Entry]) -> Result<(), Error> {
        self.said(self.upsert(ENTRIES, rows::entries_schema(), rows::entries(entries)).await)
    }

    /// Writes the entries' vectors of this length.
    pub(super) async fn put_vectors(&self, length: usize, entries: &[Entry]) -> Result<(), Error> {
        let columns = rows::vectors(length, entries);
        self.said(self.upsert(&vectors_of(length), rows::vectors_schema(length), columns).await)
    }

    /// Removes the entries of these servers, but not their vectors.
    pub(super) async fn remove(&self, servers: &[String]) -> Result<(), Error> {
        self.said(self.delete(ENTRIES, servers).await)
    }

    /// Removes the vectors that these rows refer to.
    pub(super) async fn drop_vectors(&self, told: impl IntoIterator<Item = Row>) -> Result<(), Error> {
        for (length, servers) in by_length(told) {
            self.said(self.delete(&vectors_of(length), &servers).await)?;
        }
        Ok(())
    }

    async fn has(&self, collection: &str) -> Answer<bool> {
        let request = HasCollectionRequest::builder().collection_name(collection).build()?;
        Ok(self.client.has_collection(request).await?.exists())
    }

    /// Loads a collection for queries. Creates its index first if a writer died before doing so.
    async fn load(&self, collection: &str) -> Answer<()> {
        let load = || LoadCollectionRequest::builder().collection_name(collection).build();
        let create =
            CreateIndexRequest::builder().collection_name(collection).index_param(index()).sync(false);
        match self.client.load_collection(load()?).await {
            Err(Refusal::Server(_)) => {
                self.client.create_index(create.build()?).await?;
                self.client.load_collection(load()?).await
            }
            outcome => outcome,
        }
    }

    async fn upsert(
        &self,
        collection: &str,
        schema: CollectionSchema,
        columns: Vec<FieldData>,
    ) -> Answer<()> {
        if !self.has(collection).await? {
            let request = CreateCollectionRequest::builder().collection_name(collection).num_shards(1);
            let request = request.schema(schema).index_param(index()).build()?;
            let made = self.client.create_collection(request).await;
            // Another process may have created it concurrently.
            if !self.has(collection).await? {
                made?;
            }
        }
        self.load(collection).await?;
        let rows = InsertRequest::builder().collection_name(collection).columns(columns).build()?;
        self.client.upsert(UpsertRequest::builder().insert(rows).build()?).await.map(drop)
    }

    async fn delete(&self, collection: &str, servers: &[String]) -> Answer<()> {
        if servers.is_empty() || !self.has(collection).await? {
            return Ok(());
        }
        self.load(collection).await?;
        let request = DeleteRequest::builder().collection_name(collection).filter(among(servers)).build()?;
        self.client.delete(request).await.map(drop)
    }

    /// Returns the rows of a collection that match the filter; none if the collection does not exist.
    async fn query<T>(
        &self,
        collection: &str,
        filter: String,
        fields: &[&str],
        read: fn(ResultRow<'_>) -> Answer<T>,
    ) -> Answer<Vec<T>> {
        if !self.has(collection).await? {
            return Ok(Vec::new());
        }
        self.load(collection).await?;
        let request = QueryRequest::builder()
            .collection_name(collection)
            .filter(filter)
            .output_fields(fields.iter().copied())
            .limit(ROWS_MAX as i64)
            .consistency_level(ConsistencyLevel::Strong)
            .build()?;
        self.client.query(request).await?.results().rows()?.map(read).collect()
    }

    fn said<T>(&self, answer: Answer<T>) -> Result<T, Error> {
        answer.map_err(|error| failed(&self.name, error))
    }
}

fn vectors_of(length: usize) -> String {
    format!("{ENTRIES}_{length}")
}

/// Groups the servers of these rows by the length of their vector.
fn by_length(told: impl IntoIterator<Item = Row>) -> BTreeMap<usize, Vec<String>> {
    let mut by_length: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for row in told.into_iter().filter(|row| row.length > 0) {
        by_length.entry(row.length).or_default().push(row.server);
    }
    by_length
}

/// Index that compares every vector: exact, and fast enough for thousands of servers.
fn index() -> IndexParam {
    IndexParam::new().field_name(rows::VECTOR).index_type(IndexType::Flat).metric_type(MetricType::Cosine)
}

/// Builds a filter that matches the rows of these servers.
fn among(servers: &[String]) -> String {
    let servers: Vec<String> = servers.iter().map(|server| quoted(server)).collect();
    format!("{} in [{}]", rows::SERVER, servers.join(", "))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Classifies an error by what can be done about it.
fn failed(name: &str, error: Refusal) -> Error {
    if let Refusal::RetryExhausted { source, .. } = error {
        return failed(name, *source);
    }
    if let Refusal::Timeout(_) = error {
        return Error::IndexUnavailable(format!(
            "{name} did not answer in time; hint: check that it is running"
        ));
    }
    if let Refusal::Grpc(status) = &error {
        let said = status.message();
        return match status.code() as i32 {
            // Permission denied, unauthenticated.
            7 | 16 => {
                Error::IndexRefused(format!("{name} rejected the token ({said}); hint: set index.token"))
            }
            // Deadline exceeded.
            4 => Error::IndexUnavailable(format!("{name} did not answer in time: {said}")),
            // Cancelled, unknown, resource exhausted, aborted, unavailable.
            1 | 2 | 8 | 10 | 14 => Error::IndexUnavailable(format!("{name}: {said}")),
            _ => Error::IndexRefused(format!("{name}: {said}")),
        };
    }
    Error::IndexRefused(format!("{name}: {error}"))
}
