//! Ways to tamper with a stored log, and which of them are detected, with and without an independent copy of a
//! checkpoint.
//!
//! **Invariant:** a finding names its thread and, if there is one, its event; no other thread is reported; and what
//! cannot be detected is asserted as such.

mod files;
mod logs;
mod rows;

use std::path::Path;

use audit::checkpoints::{Report, Verdict};

use crate::audit_test::AuditTest;

/// An expected finding: index of the thread, sequence number, and kind.
type Found = (Option<usize>, Option<u64>, &'static str);

/// Expected findings of an attack.
pub(crate) struct Expected {
    /// Findings with only the store's own folder and the key.
    alone: Vec<Found>,
    /// Further findings with an independent copy of the last note.
    with_copy: Vec<Found>,
    /// Conditions under which nothing is found and something is reported as not checked.
    unchecked: Unchecked,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unchecked {
    No,
    /// Not if an independent copy is given.
    Alone,
    Always,
}

fn found(all: &[Found]) -> Expected {
    Expected { alone: all.to_vec(), with_copy: Vec::new(), unchecked: Unchecked::No }
}

/// Undetectable, with or without a copy of this checkpoint.
fn undetectable() -> Expected {
    found(&[])
}

/// Detectable only with a copy of the last note.
fn found_with_copy(all: &[Found]) -> Expected {
    Expected { alone: Vec::new(), with_copy: all.to_vec(), unchecked: Unchecked::No }
}

/// A finding in this thread at this event.
fn at(thread: usize, seq: impl TryInto<u64>, wrong: &'static str) -> Found {
    (Some(thread), seq.try_into().ok(), wrong)
}

/// A finding in a checkpoint or in rows.
fn of(thread: Option<usize>, wrong: &'static str) -> Found {
    (thread, None, wrong)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_attacks_are_found_or_known_to_be_undetectable() {
    for nth in 0..ATTACKS {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("log.db").display());
        assert_attack_is_detected(nth, &url).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_attacks_are_found_or_known_to_be_undetectable() {
    for nth in 0..ATTACKS {
        let postgres = test_servers::Postgres::prepared("migrated", store::testing::migrate);
        assert_attack_is_detected(nth, &postgres.url()).await;
    }
}

const ATTACKS: usize = logs::ALL + files::ALL + rows::ALL;

async fn assert_attack_is_detected(nth: usize, url: &str) {
    let test = AuditTest::new(url).await;
    let independent_note = test.independent_note.clone();
    let before = test.verify(&[&independent_note]).await;
    assert_eq!(before.verdict, Verdict::Intact, "{before:?}");
    assert!(0 < before.attested && before.beyond == 1, "the first thread has grown: {before:?}");
    let (name, expected) = match nth.checked_sub(logs::ALL) {
        None => logs::attack(nth, &test).await,
        Some(nth) if nth < files::ALL => files::attack(nth, &test).await,
        Some(nth) => rows::attack(nth - files::ALL, &test).await,
    };
    let alone = test.verify(&[]).await;
    assert_findings(name, &test, &alone, &expected.alone, expected.unchecked != Unchecked::No);
    let both: Vec<Found> = [expected.alone, expected.with_copy].concat();
    let with: [&Path; 1] = [&independent_note];
    assert_findings(name, &test, &test.verify(&with).await, &both, expected.unchecked == Unchecked::Always);
}

fn assert_findings(name: &str, test: &AuditTest, report: &Report, expected: &[Found], unchecked: bool) {
    let thread = |id| test.threads.iter().position(|thread| Some(*thread) == id);
    let all: Vec<Found> =
        report.findings.iter().map(|finding| (thread(finding.thread), finding.seq, finding.wrong)).collect();
    for finding in expected {
        assert!(all.contains(finding), "{name}: {finding:?} is not among {:#?}", report.findings);
    }
    let is_expected = |finding: &Found| finding.0.is_none() || expected.iter().any(|one| one.0 == finding.0);
    assert!(all.iter().all(is_expected), "{name}: other threads are reported: {:#?}", report.findings);
    let verdict = match (expected.is_empty(), unchecked) {
        (false, _) => Verdict::Tampered,
        (true, true) => Verdict::NotChecked,
        (true, false) => Verdict::Intact,
    };
    assert_eq!(report.verdict, verdict, "{name}: {report:#?}");
    assert_eq!(report.found > 0, !report.findings.is_empty(), "{name}: {report:#?}");
}
