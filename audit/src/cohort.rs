//! Cohorts: frozen lists of threads, for replays that give the same answer later.
//!
//! A thread is frozen at its head: the number of its events, and the hash of the last one, which covers all before it. A replay reads
//! each log up to there, so later turns change nothing. A thread that is gone, or whose log differs, is a finding.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use store::{Error, Head, Heads, Store, ThreadId, ThreadScan};

/// Maximum number of threads of a cohort.
pub const MOST_THREADS: usize = 100_000;

/// Version of the form of the text.
const FORM: u32 = 1;

/// Number of heads that are read at a time.
const PAGE: usize = 500;

/// A frozen list of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cohort(BTreeMap<ThreadId, Frozen>);

/// Head of a thread when it was frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frozen {
    events: u64,
    hash: Vec<u8>,
}

/// A thread of a cohort that cannot be replayed as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Number of its frozen events.
    pub events: u64,
    /// Description of the difference.
    pub what: String,
}

/// The text of a cohort.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    cohort: u32,
    threads: Vec<Line>,
}

/// A thread in the text.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    thread: ThreadId,
    events: u64,
    hash: String,
}

impl Cohort {
    /// Freezes the threads of a scan at their heads. Returns `None` if there are more than [`MOST_THREADS`].
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn freeze(store: &Store, round: &ThreadScan) -> Result<Option<Self>, Error> {
        let found = Arc::new(AtomicUsize::new(0));
        let (reader, counter) = (store.clone(), Arc::clone(&found));
        let heads = round.for_each(store, move |range| {
            let (store, counter) = (reader.clone(), Arc::clone(&counter));
            async move {
                let mut heads = Vec::new();
                for thread in range.threads {
                    match store.head(thread).await {
                        // An error ends the scan.
                        Ok(_) if MOST_THREADS <= counter.fetch_add(1, Ordering::Relaxed) => {
                            return Err(Error::Database("the cohort is full".to_owned()));
                        }
                        Ok(head) => heads.push(head),
                        // A row without a log, or a thread that was deleted meanwhile.
                        Err(Error::UnknownThread(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(heads)
            }
        });
        let frozen = |Head { thread, seq, hash }| (thread, Frozen { events: seq, hash: hash.to_vec() });
        let heads = heads.await;
        if MOST_THREADS < found.load(Ordering::Relaxed) {
            return Ok(None);
        }
        Ok(Some(Self(heads?.into_iter().flatten().map(frozen).collect())))
    }

    /// Returns the number of threads.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is no thread.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the SHA-256 of the text, in hexadecimal.
    pub fn sha256(&self) -> String {
        hex::encode(Sha256::digest(self.to_text()))
    }

    /// Returns the text: JSON with one line for each thread, in the order of their ids, so that two versions compare well.
    pub fn to_text(&self) -> String {
        let line = |(thread, Frozen { events, hash }): (&ThreadId, &Frozen)| {
            let hash = hex::encode(hash);
            format!("  {{\"thread\": \"{thread}\", \"events\": {events}, \"hash\": \"{hash}\"}}")
        };
        let lines: Vec<String> = self.0.iter().map(line).collect();
        format!("{{\"cohort\": {FORM}, \"threads\": [\n{}\n]}}\n", lines.join(",\n"))
    }

    /// Reads the text of a cohort.
    ///
    /// # Errors
    ///
    /// A description of the first mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Text { cohort, threads } =
            serde_json::from_str(text).map_err(|error| format!("it is no cohort: {error}"))?;
        if cohort != FORM {
            return Err(format!("its form is {cohort}, and this build reads {FORM}"));
        }
        if threads.is_empty() || MOST_THREADS < threads.len() {
            return Err(format!("it must have 1 to {MOST_THREADS} threads, but has {}", threads.len()));
        }
        let mut all = BTreeMap::new();
        for Line { thread, events, hash } in threads {
            let hash = hex::decode(hash).ok().filter(|hash| hash.len() == 32 && 0 < events);
            let Some(hash) = hash else {
                return Err(format!("thread {thread}: its events or its hash cannot be right"));
            };
            if all.insert(thread, Frozen { events, hash }).is_some() {
                return Err(format!("thread {thread} stands in it twice"));
            }
        }
        Ok(Self(all))
    }

    /// Compares the cohort with a store. Returns the heads of the threads that are as they were, and the other threads. For a
    /// tenant, those of others do not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn check(&self, store: &Store, tenant: Option<&str>) -> Result<(Heads, Vec<Stray>), Error> {
        let (mut heads, mut strays) = (BTreeMap::new(), Vec::new());
        let last: Vec<(ThreadId, u64)> =
            self.0.iter().map(|(thread, frozen)| (*thread, frozen.events - 1)).collect();
        for page in last.chunks(PAGE) {
            let found = store.event_hashes(page).await?.into_iter();
            let found: BTreeMap<ThreadId, Vec<u8>> = found.map(|(thread, _, hash)| (thread, hash)).collect();
            for (thread, _) in page {
                let frozen = &self.0[thread];
                match stray(store, *thread, frozen, found.get(thread), tenant).await? {
                    None => drop(heads.insert(*thread, frozen.events)),
                    Some(what) => strays.push(Stray { thread: *thread, events: frozen.events, what }),
                }
            }
        }
        Ok((Arc::new(heads), strays))
    }
}

/// Returns the reason if a thread is not as it was.
async fn stray(
    store: &Store,
    thread: ThreadId,
    Frozen { events, hash }: &Frozen,
    found: Option<&Vec<u8>>,
    tenant: Option<&str>,
) -> Result<Option<String>, Error> {
    let gone = || Some(format!("it is gone; the cohort has {events} events of it"));
    if let Some(tenant) = tenant
        && store.thread(thread).await?.is_none_or(|thread| thread.tenant != tenant)
    {
        return Ok(gone());
    }
    match found {
        Some(found) if found == hash => Ok(None),
        Some(_) => Ok(Some(format!("its first {events} events are not those of the cohort"))),
        None => match store.head(thread).await {
            Ok(head) => Ok(Some(format!("it has {} events, and the cohort {events}", head.seq))),
            Err(Error::UnknownThread(_)) => Ok(gone()),
            Err(error) => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_reads_as_it_was_written() {
        let frozen = |events| Frozen { events, hash: vec![7; 32] };
        let cohort =
            Cohort([(ThreadId::from_u128(1), frozen(3)), (ThreadId::from_u128(2), frozen(9))].into());
        assert_eq!(Cohort::parse(&cohort.to_text()).unwrap(), cohort);
        let line = cohort.to_text().lines().nth(1).unwrap().trim_end_matches(',').to_owned();
        for (text, why) in [
            ("[]".to_owned(), "no cohort"),
            (cohort.to_text().replace("\"cohort\": 1", "\"cohort\": 2"), "its form is 2"),
            (cohort.to_text().replace("\"events\": 3", "\"events\": 0"), "cannot be right"),
            (cohort.to_text().replace("0707", "07"), "cannot be right"),
            (format!("{{\"cohort\": 1, \"threads\": [{line},{line}]}}"), "twice"),
            ("{\"cohort\": 1, \"threads\": []}".to_owned(), "1 to"),
        ] {
            let error = Cohort::parse(&text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
