//! Compares a store with checkpoints, and reports what could not be checked as clearly as the findings.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use queue::clock::rfc3339;
use store::{
    AdminVerified, AttestedHeads, Differs, Finding, Head, LowCounts, Mistyped, RowFinding, Scope, Store,
    ThreadId, ThreadScan, Verified, Wrong, is_admin_log,
};
use threads::{Audited, Rebuilt, StrategyRegistry};

use super::{
    checkpoint::{reappeared, removed},
    error::Error,
    index::Index,
    report::{AdminLogs, Found, Report},
    trusted::{Asked, attested},
};

/// Events read at a time; an event may have several megabytes.
const PAGE: u64 = 50;

/// Maximum number of listed findings; all are counted.
const KEPT: usize = 100;

/// Verifies that the logs of a store are those that were appended and attested, and that its read models match the
/// logs.
///
/// # Errors
///
/// [`Error::Given`] if a checkpoint cannot be read, [`Error::Store`] if the store does not answer or does not know
/// the requested thread.
pub async fn verify(
    store: &Store,
    strategies: &StrategyRegistry,
    round: &ThreadScan,
    asked: &Asked,
) -> Result<Report, Error> {
    let scope = if round.only().is_some() { Scope::Thread } else { Scope::All };
    let mut report = Report::of(store.coverage(scope));
    let index = Arc::new(attested(&mut report, asked, round.only(), store.store_id().await?)?);
    let attested: Arc<dyn AttestedHeads> = Arc::<Index>::clone(&index);
    let audited = match threads::verify(store, strategies, round, attested).await {
        // The thread never existed, or was removed.
        Err(store::Error::UnknownThread(id)) if !index.of(id).is_empty() => Default::default(),
        outcome => outcome?,
    };
    let Audited { verified, rebuilt, rows, low_counts } = audited;
    let admin = match scope {
        Scope::All => store.verify_admin_logs(&*index).await?,
        Scope::Thread | Scope::Logs => AdminVerified::default(),
    };
    logs(&mut report, store, verified, &admin, &index).await?;
    read_models(&mut report, rebuilt);
    other_rows(&mut report, rows, low_counts);
    admin_logs(&mut report, admin);
    report.judge();
    Ok(report)
}

/// Reports what the hash chains and the heads say about the logs.
async fn logs(
    report: &mut Report,
    store: &Store,
    verified: Verified,
    admin: &AdminVerified,
    index: &Index,
) -> Result<(), Error> {
    (report.threads, report.events) = (verified.threads, verified.events);
    (report.attested, report.beyond) = (verified.attested, verified.beyond);
    report.found += verified.found - verified.unreadable;
    if 0 < verified.unreadable {
        let first = verified.findings.iter().find(|it| it.wrong == Wrong::Unreadable);
        let why =
            first.map_or_else(|| "this version cannot read them".to_owned(), |finding| finding.what.clone());
        report.skip(format!("contents of {} events", verified.unreadable), why);
    }
    let mut findings = verified.findings;
    findings.retain(|finding| finding.wrong != Wrong::Unreadable);
    let listed = findings.len() as u64 + verified.unreadable + verified.mistyped_rows;
    let mut all = listed == verified.found;
    report.found += admin.findings.len() as u64;
    findings.extend(admin.findings.iter().cloned());
    for (last, asked) in index.threads() {
        let found = match (last.seq, asked) {
            (0, true) => reappeared(&last),
            (1.., false) => removed(&last),
            (0, false) | (1.., true) => continue,
        };
        report.found += 1;
        if findings.len() < KEPT {
            findings.push(found);
        } else {
            all = false;
        }
    }
    explain_deletions(store, &mut findings).await?;
    exchanged(store, index, &mut findings).await?;
    if let Some(what) = set_back(index, &findings).filter(|_| all) {
        report.find("rolled_back", what);
    }
    findings.into_iter().for_each(|finding| report.take(finding));
    let mistyped =
        |value: Mistyped| Found::at("mistyped", (&value.table, &[&value.column]), value.to_string());
    report.findings.extend(verified.mistyped.into_iter().map(mistyped));
    let checked = report.checkpoints.iter().any(|checkpoint| checkpoint.signed != Some(false));
    if checked && report.attested == 0 && 0 < report.events && report.found == 0 {
        report.skip("all events beyond their hash chains", "the checkpoint does not attest them");
    }
    Ok(())
}

/// Reports rows that differ from the administrative logs, and entries that could not be read.
fn admin_logs(
    report: &mut Report,
    AdminVerified { logs, entries, attested, beyond, unreadable, rows, .. }: AdminVerified,
) {
    report.admin = AdminLogs { logs, entries, attested, beyond };
    if 0 < unreadable {
        let why = "a newer version may have written them; hint: verify with that version";
        report.skip(
            format!("{unreadable} entries of administrative logs, and the rows that depend on them"),
            why,
        );
    }
    report.found += rows.len() as u64;
    let found = |row: RowFinding| Found::at("row", (row.table, row.columns), row.what);
    report.findings.extend(rows.into_iter().take(KEPT).map(found));
}

/// Adds to the findings of missing threads what the administrative logs say about their deletion.
async fn explain_deletions(store: &Store, findings: &mut [Finding]) -> Result<(), Error> {
    let missing = |it: &&mut Finding| it.wrong == Wrong::Removed && !is_admin_log(it.thread);
    let threads: BTreeSet<ThreadId> =
        findings.iter_mut().filter(missing).map(|finding| finding.thread).collect();
    if threads.is_empty() {
        return Ok(());
    }
    let deletions = store.deletions(&threads).await?;
    for finding in findings.iter_mut().filter(missing) {
        finding.what += &match deletions.get(&finding.thread) {
            None => "; no administrative log says who deleted it".to_owned(),
            Some(entry) => {
                let why = entry.by.reason.as_deref().map_or_else(String::new, |why| format!(": {why}"));
                format!("; {} deleted it at {}{why}", entry.by.name, rfc3339(entry.at))
            }
        };
    }
    Ok(())
}

/// Checks whether a log that was rewritten from its first event is another thread's.
async fn exchanged(store: &Store, index: &Index, findings: &mut [Finding]) -> Result<(), Error> {
    let mut suspects =
        findings.iter_mut().filter(|it| it.wrong == Wrong::Rewritten && it.seq == 0).peekable();
    if suspects.peek().is_none() {
        return Ok(());
    }
    let heads = index.all().iter().map(|entry| entry.0).filter(|head| 0 < head.seq);
    let others: BTreeMap<[u8; 32], ThreadId> = heads.map(|head| (head.hash, head.thread)).collect();
    for finding in suspects {
        if let Some(other) = of_another(store, &others, finding.thread).await? {
            finding.wrong = Wrong::Exchanged;
            finding.what = format!("contains the log of thread {other} instead of the attested one");
        }
    }
    Ok(())
}

/// The other thread whose head is in this thread's log.
async fn of_another(
    store: &Store,
    others: &BTreeMap<[u8; 32], ThreadId>,
    thread: ThreadId,
) -> Result<Option<ThreadId>, Error> {
    let mut from = 0;
    loop {
        let page = match store.stored(thread, from, PAGE).await {
            // The walk through the log reports it.
            Err(store::Error::Corrupt { .. }) => return Ok(None),
            page => page?,
        };
        let Some(last) = page.last() else { return Ok(None) };
        from = last.seq + 1;
        let other = page.iter().filter_map(|stored| others.get(&stored.hash)).find(|other| **other != thread);
        if other.is_some() {
            return Ok(other.copied());
        }
    }
}

/// Detects a store that was replaced by an earlier copy: everything attested from some head on is missing, for
/// several threads at once.
fn set_back(index: &Index, findings: &[Finding]) -> Option<String> {
    let mut ends: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for finding in findings {
        match finding.wrong {
            Wrong::Truncated | Wrong::Removed => {
                ends.insert(finding.thread, finding.seq);
            }
            Wrong::Broken
            | Wrong::Missing
            | Wrong::Rewritten
            | Wrong::Exchanged
            | Wrong::Reappeared
            | Wrong::Attachment
            | Wrong::Mistyped
            | Wrong::Unreadable => return None,
        }
    }
    let lost = |head: &Head| ends.get(&head.thread).is_some_and(|end| *end < head.seq);
    let from = index.all().iter().filter(|(head, _)| lost(head)).map(|entry| entry.1).min()?;
    let later = index.all().iter().filter(|entry| from <= entry.1);
    let all = later.clone().all(|(head, _)| lost(head));
    (all && 1 < ends.len()).then(|| {
        format!(
            "everything attested from head {from} on is missing, {} heads: the store was set back to an earlier state",
            later.count()
        )
    })
}

/// Reports how the rows of threads and turns differ from the logs.
fn read_models(report: &mut Report, Rebuilt { found, differences, .. }: Rebuilt) {
    for (differs, count) in &found {
        match differs {
            Differs::Parked | Differs::Moving | Differs::Unfolded => {
                let first = differences.iter().find(|it| it.differs == *differs);
                let why = first.map_or_else(String::new, |difference| {
                    format!("thread {}: {}", difference.thread, difference.what)
                });
                report.skip(format!("the rows of {count} threads or turns"), why);
            }
            // Already reported with the logs, or with the types of values.
            Differs::NoLog | Differs::Mistyped => {}
            Differs::ThreadMissing
            | Differs::ThreadStrategy
            | Differs::ThreadTenant
            | Differs::ThreadStatus
            | Differs::ThreadCreated
            | Differs::TurnMissing
            | Differs::TurnStatus
            | Differs::TurnStarted
            | Differs::TurnEnded
            | Differs::TurnError
            | Differs::TurnOutcome
            | Differs::TurnTenant
            | Differs::TurnInput
            | Differs::TurnAuthor
            | Differs::TurnCaller
            | Differs::TurnReplyOptions
            | Differs::TurnCreated
            | Differs::TurnUpdated
            | Differs::TurnHistory
            | Differs::TurnPriority
            | Differs::TurnMetadata
            | Differs::TurnOpen
            | Differs::NeverStarted => {
                report.found += count;
                for difference in differences.iter().filter(|difference| difference.differs == *differs) {
                    let of = difference.turn.map_or_else(String::new, |turn| format!("turn {turn}: "));
                    let what = format!("{of}{}", difference.what);
                    let found = Found::at("read_model", differs.place(), what);
                    report.findings.push(Found { thread: Some(difference.thread), ..found });
                }
            }
        }
    }
}

/// Reports findings in rows of other tables, and statistics that may have been changed.
fn other_rows(report: &mut Report, rows: Vec<RowFinding>, low: LowCounts) {
    report.found += rows.len() as u64;
    let found = |row: RowFinding| Found::at("row", (row.table, row.columns), row.what);
    report.findings.extend(rows.into_iter().take(KEPT).map(found));
    for (table, counts) in
        [("ended_turn_counts", low.ended_turns), ("model_response_counts", low.model_responses)]
    {
        if 0 < counts {
            let why = "a process may have lost them, or they were changed; hint: turnfold store rebuild counts again";
            report.skip(format!("{counts} counts in {table} that are below those of the logs"), why);
        }
    }
}
