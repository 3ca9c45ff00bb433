//! A server's file: its data, the results already returned, and a count of the writes that were applied.
//!
//! ## Why one file
//!
//! A result stored in the same atomic write as the change cannot disagree with it, whenever the process dies.
//!
//! **Invariant:** a change under a key and `done[key]` reach the disk together or not at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs::{self, File},
    io::{ErrorKind, Write as _},
    marker::PhantomData,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use rmcp::{
    handler::server::{common::FromContextPart, tool::ToolCallContext},
    model::ErrorData,
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _},
};

use crate::words::{Refusal, Said};

/// The entry of a call's `_meta` with the idempotency key: a key changes something at most once.
pub const IDEMPOTENCY_KEY: &str = "turnfold/idempotency-key";

/// Maximum size of the file in bytes; larger writes are refused. Nothing is deleted to make room, because a forgotten
/// key would be a write that may happen twice.
const MAX_BYTES: u64 = 16 << 20;

/// Number of times each write was applied, by idempotency key. Writes without a key count under `""`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Writes that changed something. A count above 1 is a write that happened twice.
    pub applied: BTreeMap<String, u64>,
    /// Keys of the writes that were carried out and found everything as they would have made it.
    pub unchanged: BTreeSet<String>,
}

impl Ledger {
    /// Reads a server's file from outside, without its lock. A missing file is an empty ledger.
    pub fn read(data: &Path) -> anyhow::Result<Self> {
        let Kept { done, applied, .. } = load::<serde_json::Value>(data)?;
        let unchanged = done.into_keys().filter(|key| !applied.contains_key(key)).collect();
        Ok(Self { applied, unchanged })
    }
}

/// The key of a call, empty if it has none; an argument of every writing tool.
pub(crate) struct Key(String);

impl<S> FromContextPart<ToolCallContext<'_, S>> for Key {
    fn from_context_part(context: &mut ToolCallContext<'_, S>) -> Result<Self, ErrorData> {
        match context.request_context.meta.get(IDEMPOTENCY_KEY) {
            None => Ok(Self(String::new())),
            Some(serde_json::Value::String(key)) => Ok(Self(key.clone())),
            // Ignoring a malformed key would one day repeat a write. It is the client's mistake, and no model can
            // correct it.
            Some(other) => {
                Err(ErrorData::invalid_params(format!("{IDEMPOTENCY_KEY} has to be a string: {other}"), None))
            }
        }
    }
}

/// Data of a server, as stored on disk.
pub(crate) trait Data:
    Serialize + DeserializeOwned + Clone + Default + PartialEq + Send + 'static
{
}

impl<T: Serialize + DeserializeOwned + Clone + Default + PartialEq + Send + 'static> Data for T {}

/// The file of a server, shared with every other process that serves it.
#[derive(Debug, Clone)]
pub(crate) struct Store<T> {
    path: PathBuf,
    data: PhantomData<fn() -> T>,
}

impl<T: Data> Store<T> {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, data: PhantomData }
    }

    /// Reads the current data. No lock is needed: a rename never exposes half a file.
    pub(crate) async fn read(&self) -> Result<T, Refusal> {
        let path = self.path.clone();
        aside(move || Ok(load::<T>(&path)?.data)).await
    }

    /// Changes the data, at most once per key. A refusal changes nothing and is not remembered: if asked again, the
    /// call is judged by the data at that time.
    pub(crate) async fn write<F>(&self, key: Key, change: F) -> Said
    where
        F: FnOnce(&mut T) -> Said + Send + 'static,
    {
        let path = self.path.clone();
        aside(move || write(&path, key, change)).await
    }
}

/// Contents of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "T: DeserializeOwned + Default"))]
struct Kept<T> {
    #[serde(default, deserialize_with = "object")]
    data: T,
    /// The result returned for each key.
    #[serde(default)]
    done: BTreeMap<String, String>,
    #[serde(default)]
    applied: BTreeMap<String, u64>,
}

fn write<T: Data>(path: &Path, Key(key): Key, change: impl FnOnce(&mut T) -> Said) -> Said {
    let _lock = lock(path)?;
    let mut kept = load::<T>(path)?;
    if let Some(said) = kept.done.get(&key) {
        return Ok(said.clone());
    }
    let before = kept.data.clone();
    let said = change(&mut kept.data)?;
    let changed = kept.data != before;
    if changed {
        *kept.applied.entry(key.clone()).or_default() += 1;
    }
    if !key.is_empty() {
        kept.done.insert(key, said.clone());
    } else if !changed {
        return Ok(said);
    }
    save(path, &kept)?;
    Ok(said)
}

/// Locks out every other writer, in this and other processes, until the file is dropped.
fn lock(path: &Path) -> anyhow::Result<File> {
    if let Some(folder) = folder_of(path) {
        fs::create_dir_all(folder)
            .with_context(|| format!("failed to create the folder {}", folder.display()))?;
    }
    let beside = beside(path, ".lock");
    let open = || {
        let file = File::options().create(true).truncate(false).write(true).open(&beside)?;
        file.lock()?;
        std::io::Result::Ok(file)
    };
    open().with_context(|| format!("failed to lock {}", beside.display()))
}

fn load<T: Data>(path: &Path) -> anyhow::Result<Kept<T>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Kept { data: T::default(), done: BTreeMap::new(), applied: BTreeMap::new() });
        }
        Err(error) => return Err(error).with_context(|| format!("failed to read {}", path.display())),
    };
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    let kept = object(&mut json).and_then(|kept| json.end().map(|()| kept));
    kept.with_context(|| format!("the data file {} is broken and was left as it is", path.display()))
}

/// Reads a struct from a JSON object only; serde would also accept `[]` as an empty one.
fn object<'de, T: DeserializeOwned, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let fields = serde_json::Map::deserialize(from)?;
    T::deserialize(serde_json::Value::Object(fields)).map_err(D::Error::custom)
}

/// Replaces the file atomically. The caller holds the lock, so the temporary name is free.
fn save<T: Data>(path: &Path, kept: &Kept<T>) -> anyhow::Result<()> {
    let bytes = serde_json::to_vec_pretty(kept).context("failed to write the data as JSON")?;
    anyhow::ensure!(
        bytes.len() as u64 <= MAX_BYTES,
        "the data file {} is full: {MAX_BYTES} bytes are kept at most",
        path.display()
    );
    let beside = beside(path, ".new");
    let replace = || {
        let mut file = File::create(&beside)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        // The rename is durable once the folder is synced.
        File::open(folder_of(path).unwrap_or(Path::new(".")))?.sync_all()
    };
    replace().with_context(|| format!("failed to save {}", path.display()))
}

fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// Runs blocking file operations on a thread for them. They finish even if the caller is cancelled.
async fn aside<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, Refusal> + Send + 'static,
) -> Result<R, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Refusal::new(format!("the data file's thread failed: {error}"))))
}
