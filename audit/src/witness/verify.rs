//! Holds a store against checkpoints, and says as loudly what it could not check as what it found.

use std::{collections::BTreeMap, sync::Arc};

use store::{Attested, Differs, DryRun, Finding, Head, Rebuilt, Round, Store, Strategies, ThreadId, Wrong};

use super::{
    Asked, Error, Report,
    checkpoint::{reappeared, removed},
    index::Index,
    trusted::attested,
};

/// How many events are read at a time: each may have megabytes.
const PAGE: u64 = 50;

/// How many findings are kept; all are counted.
const KEPT: usize = 100;

/// Whether the logs of a store are those that were appended and attested, and its read models what the logs say.
///
/// # Errors
///
/// [`Error::Given`] if a checkpoint cannot be read, [`Error::Store`] if the store does not answer or has never heard of the
/// thread that alone was meant.
pub async fn verify(
    store: &Store,
    strategies: &Strategies,
    round: &Round,
    asked: &Asked,
) -> Result<Report, Error> {
    let mut report = Report::empty();
    let index = Arc::new(attested(&mut report, asked, round.thread)?);
    logs(&mut report, store, round, &index).await?;
    read_models(&mut report, store, strategies, round).await?;
    report.judge();
    Ok(report)
}

/// Holds the logs against their chains and the heads.
async fn logs(report: &mut Report, store: &Store, round: &Round, index: &Arc<Index>) -> Result<(), Error> {
    let attested: Arc<dyn Attested> = Arc::<Index>::clone(index);
    let verified = match store.verify_against(round, attested).await {
        // Nobody has heard of it, or it was removed.
        Err(store::Error::UnknownThread(id)) if !index.of(id).is_empty() => store::Verified::default(),
        outcome => outcome?,
    };
    (report.threads, report.events) = (verified.threads, verified.events);
    (report.attested, report.beyond) = (verified.attested, verified.beyond);
    report.found += verified.found - verified.unreadable;
    if 0 < verified.unreadable {
        let first = verified.findings.iter().find(|it| it.wrong == Wrong::Unreadable);
        let why = first.map_or_else(|| "this version cannot read them".to_owned(), |it| it.what.clone());
        report.skip(format!("what {} events say", verified.unreadable), why);
    }
    let mut findings = verified.findings;
    findings.retain(|it| it.wrong != Wrong::Unreadable);
    let mut all = findings.len() as u64 + verified.unreadable == verified.found;
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
    exchanged(store, index, &mut findings).await?;
    if let Some(what) = set_back(index, &findings).filter(|_| all) {
        report.find("rolled_back", what);
    }
    findings.into_iter().for_each(|it| report.take(it));
    let checked = report.checkpoints.iter().any(|it| it.signed != Some(false));
    if checked && report.attested == 0 && 0 < report.events && report.found == 0 {
        report.skip("all events, but for their chains", "the checkpoint attests nothing of them");
    }
    Ok(())
}

/// A log that was rewritten from its first event on may be another thread's.
async fn exchanged(store: &Store, index: &Index, findings: &mut [Finding]) -> Result<(), Error> {
    let mut suspects =
        findings.iter_mut().filter(|it| it.wrong == Wrong::Rewritten && it.seq == 0).peekable();
    if suspects.peek().is_none() {
        return Ok(());
    }
    let heads = index.all().iter().map(|it| it.0).filter(|it| 0 < it.seq);
    let others: BTreeMap<[u8; 32], ThreadId> = heads.map(|it| (it.hash, it.thread)).collect();
    for finding in suspects {
        if let Some(other) = of_another(store, &others, finding.thread).await? {
            finding.wrong = Wrong::Exchanged;
            finding.what = format!("the log of thread {other} stands here, and not what was attested");
        }
    }
    Ok(())
}

/// The other thread whose head stands in this one's log.
async fn of_another(
    store: &Store,
    others: &BTreeMap<[u8; 32], ThreadId>,
    thread: ThreadId,
) -> Result<Option<ThreadId>, Error> {
    let mut from = 0;
    loop {
        let page = store.stored(thread, from, PAGE).await?;
        let Some(last) = page.last() else { return Ok(None) };
        from = last.seq + 1;
        let other = page.iter().filter_map(|it| others.get(&it.hash)).find(|it| **it != thread);
        if other.is_some() {
            return Ok(other.copied());
        }
    }
}

/// Whether all that was attested from some head on is gone, of several threads at once: so looks a store that was
/// replaced by an earlier copy of itself.
fn set_back(index: &Index, findings: &[Finding]) -> Option<String> {
    let mut ends: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for it in findings {
        match it.wrong {
            Wrong::Truncated | Wrong::Removed => {
                ends.insert(it.thread, it.seq);
            }
            Wrong::Edited
            | Wrong::Missing
            | Wrong::Reordered
            | Wrong::Inserted
            | Wrong::Rewritten
            | Wrong::Exchanged
            | Wrong::Reappeared
            | Wrong::Unreadable => return None,
        }
    }
    let lost = |head: &Head| ends.get(&head.thread).is_some_and(|end| *end < head.seq);
    let from = index.all().iter().filter(|(head, _)| lost(head)).map(|it| it.1).min()?;
    let later = index.all().iter().filter(|it| from <= it.1);
    let all = later.clone().all(|(head, _)| lost(head));
    (all && 1 < ends.len()).then(|| {
        format!(
            "nothing is there of what was attested from head {from} on, the last {}: the store was set back to an earlier state",
            later.count()
        )
    })
}

/// Holds the rows of threads and turns against the logs.
async fn read_models(
    report: &mut Report,
    store: &Store,
    strategies: &Strategies,
    round: &Round,
) -> Result<(), Error> {
    let Rebuilt { found, differences, .. } = match store.rebuild(strategies, round, DryRun::Yes).await {
        Err(store::Error::UnknownThread(_)) => return Ok(()),
        outcome => outcome?,
    };
    for (differs, count) in &found {
        match differs {
            Differs::Parked | Differs::Moving | Differs::Unfolded => {
                let first = differences.iter().find(|it| it.differs == *differs);
                let why = first.map_or_else(String::new, |it| format!("thread {}: {}", it.thread, it.what));
                report.skip(format!("the rows of {count} threads or turns"), why);
            }
            // It was told with the logs.
            Differs::NoLog => {}
            Differs::ThreadMissing
            | Differs::ThreadStrategy
            | Differs::ThreadTenant
            | Differs::ThreadStatus
            | Differs::ThreadCreated
            | Differs::TurnMissing
            | Differs::TurnStatus
            | Differs::TurnHeard
            | Differs::TurnEnded
            | Differs::TurnError
            | Differs::TurnOpen
            | Differs::Unheard => {
                report.found += count;
                for it in differences.iter().filter(|it| it.differs == *differs) {
                    let of = it.turn.map_or_else(String::new, |it| format!("turn {it}: "));
                    let what = format!("{of}{}", it.what);
                    report.findings.push(super::Found {
                        thread: Some(it.thread),
                        seq: None,
                        wrong: "read_model",
                        what,
                    });
                }
            }
        }
    }
    Ok(())
}
