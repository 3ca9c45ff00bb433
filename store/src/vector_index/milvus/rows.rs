//! Conversion between index entries and the rows of Milvus collections.

#![expect(clippy::result_large_err, reason = "the size of the client's errors is the client's")]

use milvus::v2::{
    error::Result as Answer,
    prelude::{CollectionSchema, DataType, FieldData, FieldSchema, ResultRow},
};

use crate::{Embedded, Entry, Error, log::plain};

pub(super) const SERVER: &str = "server";
pub(super) const MODEL: &str = "model";
pub(super) const VECTOR: &str = "vector";
const HASH: &str = "hash";
const TEXT: &str = "text";
const LENGTH: &str = "length";
const UPDATED_AT: &str = "updated_at";

/// Fields of a [`Row`].
pub(super) const OF_ROW: [&str; 3] = [SERVER, MODEL, LENGTH];
/// Fields of an entry, without its vector.
pub(super) const OF_ENTRY: [&str; 6] = [SERVER, HASH, TEXT, MODEL, LENGTH, UPDATED_AT];

/// Maximum length of a text in Milvus, in bytes.
const BYTES_MAX: u32 = 65_535;

/// Placeholder vector, because every Milvus collection must have a vector field.
const NOTHING: [f32; 2] = [1.0, 1.0];

/// The part of an entry that locates its vector.
pub(super) struct Row {
    pub(super) server: String,
    pub(super) model: Option<String>,
    /// Length of the entry's vector; 0 without a vector.
    pub(super) length: usize,
}

/// Returns the length of the entry's vector; 0 without a vector.
pub(super) fn length(entry: &Entry) -> usize {
    entry.embedded.as_ref().map_or(0, |embedded| embedded.vector.len())
}

/// Rejects an entry that Milvus cannot store.
pub(super) fn check(entry: &Entry) -> Result<(), Error> {
    let Entry { server, hash, text, embedded, .. } = entry;
    let model = embedded.as_ref().map_or("", |embedded| &embedded.model);
    let longest =
        [server, hash, text, model].into_iter().map(|text| plain(text).len()).max().unwrap_or_default();
    if longest > BYTES_MAX as usize {
        return Err(Error::IndexRefused(format!(
            "what {server} offers takes {longest} bytes, and Milvus keeps {BYTES_MAX}: index less of it \
             (strategies.index_builder.characters)"
        )));
    }
    Ok(())
}

/// Builds the schema of the entries' collection.
pub(super) fn entries_schema() -> CollectionSchema {
    let text = |name: &str| FieldSchema::new().name(name).data_type(DataType::VarChar).max_length(BYTES_MAX);
    let number = |name: &str| FieldSchema::new().name(name).data_type(DataType::Int64);
    vectors_schema(NOTHING.len())
        .add_field(text(HASH))
        .add_field(text(TEXT))
        .add_field(number(LENGTH))
        .add_field(number(UPDATED_AT))
}

/// Builds the schema of the collection for vectors of this length.
pub(super) fn vectors_schema(length: usize) -> CollectionSchema {
    let text = |name: &str| FieldSchema::new().name(name).data_type(DataType::VarChar).max_length(BYTES_MAX);
    let vector = FieldSchema::new().name(VECTOR).data_type(DataType::FloatVector);
    CollectionSchema::new()
        .add_field(text(SERVER).primary_key(true))
        .add_field(text(MODEL))
        .add_field(vector.dimension(u32::try_from(length).unwrap_or(u32::MAX)))
}

/// Converts entries to columns.
pub(super) fn entries(entries: &[Entry]) -> Vec<FieldData> {
    let texts = |name: &str, of: fn(&Entry) -> &str| FieldData::VarChar {
        name: name.to_owned(),
        values: entries.iter().map(|entry| plain(of(entry))).collect(),
    };
    let numbers = |name: &str, of: fn(&Entry) -> i64| FieldData::Int64 {
        name: name.to_owned(),
        values: entries.iter().map(of).collect(),
    };
    vec![
        texts(SERVER, |entry| &entry.server),
        texts(HASH, |entry| &entry.hash),
        texts(TEXT, |entry| &entry.text),
        texts(MODEL, |entry| entry.embedded.as_ref().map_or("", |embedded| &embedded.model)),
        numbers(LENGTH, |entry| i64::try_from(length(entry)).unwrap_or(i64::MAX)),
        numbers(UPDATED_AT, |entry| entry.updated_at),
        FieldData::FloatVector { name: VECTOR.to_owned(), values: vec![NOTHING.to_vec(); entries.len()] },
    ]
}

/// Converts the entries' vectors of this length to columns.
pub(super) fn vectors(length_wanted: usize, entries: &[Entry]) -> Vec<FieldData> {
    let (mut servers, mut models, mut vectors) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries.iter().filter(|entry| length(entry) == length_wanted) {
        let Some(Embedded { model, vector }) = &entry.embedded else { continue };
        servers.push(plain(&entry.server));
        models.push(plain(model));
        vectors.push(vector.clone());
    }
    let texts = |name: &str, values| FieldData::VarChar { name: name.to_owned(), values };
    let vectors = FieldData::FloatVector { name: VECTOR.to_owned(), values: vectors };
    vec![texts(SERVER, servers), texts(MODEL, models), vectors]
}

pub(super) fn row(row: ResultRow<'_>) -> Answer<Row> {
    let length = usize::try_from(row.get_i64(LENGTH)?).unwrap_or_default();
    let model = row.get_str(MODEL)?.to_owned();
    Ok(Row { server: row.get_str(SERVER)?.to_owned(), model: (length > 0).then_some(model), length })
}

/// Converts a row to an entry without its vector, and the length of that vector.
pub(super) fn entry(result: ResultRow<'_>) -> Answer<(usize, Entry)> {
    let text = |name| result.get_str(name).map(str::to_owned);
    let Row { server, model, length } = row(result)?;
    let embedded = model.map(|model| Embedded { model, vector: Vec::new() });
    let (hash, text, updated_at) = (text(HASH)?, text(TEXT)?, result.get_i64(UPDATED_AT)?);
    Ok((length, Entry { server, hash, text, embedded, updated_at }))
}

pub(super) fn vector(row: ResultRow<'_>) -> Answer<(String, Vec<f32>)> {
    Ok((row.get_str(SERVER)?.to_owned(), row.get_float_vector(VECTOR)?.to_vec()))
}
