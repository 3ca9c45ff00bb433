//! One round of indexing: reads the next logs from where the index ends, and writes their entries.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use queue::clock;
use sea_orm::FromQueryResult;
use shared::Event;
use tracing::{debug, warn};

use super::{
    content::{add_terms, pieces},
    entries::{Entry, LogPart, Term, Used},
    marks::Taken,
    words::add_words,
    writers::BEAT,
};
use crate::{
    Error, Store, Stored, ThreadId,
    log::{signed, statement, unsigned},
    retention::{list, listed},
};

/// Limits of a round: threads, events of one log, and bytes of all of them.
const THREADS: usize = 32;
const EVENTS: usize = 200;
const BYTES: usize = 1 << 20;

/// Events that are read at a time. Those beyond [`BYTES`] are few then.
const PAGE: usize = 20;

/// Maximum number of different words of an event that are indexed.
const WORDS: usize = 2_000;

/// Time for which a log rests after an append, so that the steps of a turn are indexed together.
const QUIET: i64 = 1_000_000;

/// Result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexRound {
    /// Events that were read.
    pub events: u64,
    /// Time until the next round should begin.
    pub rest: Duration,
}

/// Position up to which a log is indexed.
#[derive(Clone, Copy, Debug, Default, FromQueryResult)]
struct Progress {
    thread_id: ThreadId,
    next_seq: i64,
    turn_seq: i64,
}

impl Store {
    /// Indexes the next part of what is not indexed. Only one task of a process may call it: see [`Store::index_alone`].
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer; the next call reads the same again.
    pub async fn index_round(&self) -> Result<IndexRound, Error> {
        let (began, now) = (Instant::now(), clock::now());
        let search = &self.search;
        search.load.measure(search.marks.appends(), now);
        if BEAT <= now - search.load.beat_at.load(Ordering::Relaxed) {
            let mut scans = search.scans.lock().await;
            let taken = self.beat(&scans, now).await?;
            scans.extend(taken);
            search.load.beat_at.store(now, Ordering::Relaxed);
            drop(scans);
            self.measure_workers(now).await?;
        }
        let marked = search.marks.take(now - QUIET, THREADS);
        let events = match marked.threads().is_empty() {
            true => self.continue_scan().await?,
            false => self.index_marked(marked).await?,
        };
        Ok(IndexRound { events, rest: search.load.rest(began.elapsed(), 0 < events) })
    }

    async fn index_marked(&self, mut marked: Taken<'_>) -> Result<u64, Error> {
        let (events, unfinished) = self.index(&marked.threads()).await?;
        marked.keep(&unfinished);
        Ok(events)
    }

    /// Indexes the next threads of the last scan. Without a page it reads one, which counts as an event so that the scan continues.
    async fn continue_scan(&self) -> Result<u64, Error> {
        let mut scans = self.search.scans.lock().await;
        let Some(scan) = scans.last_mut() else { return Ok(0) };
        if scan.page.is_empty() {
            scan.page = self.threads_changed_since(scan.since, scan.after).await?.into();
            if scan.page.is_empty() {
                self.end_scan(scan.id).await?;
                scans.pop();
            }
            return Ok(1);
        }
        let threads: Vec<ThreadId> = scan.page.iter().take(THREADS).copied().collect();
        let (events, unfinished) = self.index(&threads).await?;
        let done = threads.iter().take_while(|thread| !unfinished.contains(thread)).count();
        scan.after = scan.page.drain(..done).next_back().or(scan.after);
        Ok(events.max(1))
    }

    /// Indexes the next events of these logs. Returns their number, and the threads whose logs go on.
    ///
    /// A log that cannot be read or written to the index keeps no other from being indexed: it is left out.
    async fn index(&self, threads: &[ThreadId]) -> Result<(u64, BTreeSet<ThreadId>), Error> {
        let error = match self.try_index(threads).await {
            Err(error) if !matches!(error, Error::Unavailable(_)) => error,
            outcome => return outcome,
        };
        let [first, .., last] = threads else {
            warn!(thread = ?threads.first(), %error, "cannot index a thread; searches do not find it");
            return Ok((0, BTreeSet::new()));
        };
        debug!(%first, %last, %error, "cannot index threads together");
        let (left, right) = threads.split_at(threads.len() / 2);
        let (mut events, mut unfinished) = Box::pin(self.index(left)).await?;
        let (more, also) = Box::pin(self.index(right)).await?;
        events += more;
        unfinished.extend(also);
        Ok((events, unfinished))
    }

    async fn try_index(&self, threads: &[ThreadId]) -> Result<(u64, BTreeSet<ThreadId>), Error> {
        let progress = self.progress(threads).await?;
        let (mut parts, mut unfinished) = (Vec::new(), BTreeSet::new());
        let (mut events, mut bytes) = (0, 0);
        for thread in threads {
            if BYTES < bytes {
                unfinished.insert(*thread);
                continue;
            }
            let from = progress.get(thread).copied().unwrap_or_default();
            let (next, goes_on) = self.next_events(*thread, unsigned(from.next_seq)?, &mut bytes).await?;
            if goes_on {
                unfinished.insert(*thread);
            }
            if next.is_empty() {
                continue;
            }
            events += next.len() as u64;
            parts.push(part(*thread, from, &next));
        }
        if !parts.is_empty() {
            unfinished.extend(self.write_parts(parts).await?);
        }
        Ok((events, unfinished))
    }

    /// Reads events of a log until [`EVENTS`] or, with those of other logs, [`BYTES`] are reached. Returns true if the log may go on.
    async fn next_events(
        &self,
        thread: ThreadId,
        mut from: u64,
        bytes: &mut usize,
    ) -> Result<(Vec<Stored>, bool), Error> {
        let mut events = Vec::new();
        loop {
            let page = self.stored(thread, from, PAGE as u64).await?;
            let is_last = page.len() < PAGE;
            from = page.last().map_or(from, |event| event.seq + 1);
            *bytes += page.iter().map(|event| event.payload.len()).sum::<usize>();
            events.extend(page);
            if is_last || EVENTS <= events.len() || BYTES < *bytes {
                return Ok((events, !is_last));
            }
        }
    }

    async fn progress(&self, threads: &[ThreadId]) -> Result<BTreeMap<ThreadId, Progress>, Error> {
        let pool = &self.database.pool;
        let sql = format!(
            "SELECT thread_id, next_seq, turn_seq FROM search_threads WHERE thread_id IN ({})",
            list(pool, 1)
        );
        let rows = Progress::find_by_statement(statement(pool, &sql, [listed(pool, threads)])).all(pool);
        Ok(rows.await?.into_iter().map(|row| (row.thread_id, row)).collect())
    }
}

/// Builds the rows of the next events of a log. A text that was indexed before in the same turn is left out: a decision often repeats
/// the answer before it.
fn part(thread: ThreadId, from: Progress, page: &[Stored]) -> LogPart {
    let mut part = LogPart::new(thread, from.next_seq);
    let (mut turn_seq, mut texts) = (from.turn_seq, HashSet::new());
    for stored in page {
        let seq = signed(stored.seq);
        part.next_seq = seq + 1;
        let event = match Event::decode(&stored.kind, &stored.payload) {
            Ok(event) => event,
            Err(error) => {
                debug!(%thread, seq, %error, "an event that cannot be read is not indexed");
                continue;
            }
        };
        if event.turn_started().is_some() {
            turn_seq = seq;
            texts.clear();
        }
        let mut words = BTreeSet::new();
        for piece in pieces(&event) {
            let mut hasher = DefaultHasher::new();
            piece.text.hash(&mut hasher);
            if texts.insert(hasher.finish()) {
                add_words(&piece.text, &mut words, WORDS);
            }
        }
        if !words.is_empty() {
            part.entries.push(Entry { seq, turn_seq, at: stored.at, words });
        }
        let mut terms = BTreeSet::new();
        add_terms(&event, &mut terms);
        part.terms.extend(terms.into_iter().map(|(kind, value)| Term { kind, value, turn_seq }));
        if let Event::Rated(rated) = &event {
            part.ratings.insert(rated.turn, rated.rating);
        }
        if let Some((_, usage)) = event.spent() {
            let used: &mut Used = part.used.entry(turn_seq).or_default();
            used.tokens = used.tokens.saturating_add(usage.tokens());
            used.micro_usd = used.micro_usd.saturating_add(usage.micro_usd.unwrap_or_default());
        }
    }
    part.used.retain(|_, used| *used != Used::default());
    part.turn_seq = turn_seq;
    part
}
