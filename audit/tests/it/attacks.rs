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

use crate::scene::Scene;

/// An expected finding: index of the thread, sequence number, and kind.
type Found = (Option<usize>, Option<u64>, &'static str);

/// Expected findings of an attack.
pub(crate) struct Expected {
    /// Findings with only the store's own folder and the key.
    alone: Vec<Found>,
    /// Further findings with an independent copy of the last note.
    with_outside: Vec<Found>,
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
    Expected { alone: all.to_vec(), with_outside: Vec::new(), unchecked: Unchecked::No }
}

/// Undetectable, with or without a copy of this checkpoint.
fn unseen() -> Expected {
    found(&[])
}

/// Detectable only with a copy of the last note.
fn only_outside(all: &[Found]) -> Expected {
    Expected { alone: Vec::new(), with_outside: all.to_vec(), unchecked: Unchecked::No }
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
async fn sqlite_attacks_are_found_or_known_not_to_be() {
    for nth in 0..ATTACKS {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("log.db").display());
        attacked(nth, &url).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_attacks_are_found_or_known_not_to_be() {
    for nth in 0..ATTACKS {
        let postgres = test_servers::Postgres::prepared("migrated", store::testing::migrate);
        attacked(nth, &postgres.url()).await;
    }
}

const ATTACKS: usize = logs::ALL + files::ALL + rows::ALL;

async fn attacked(nth: usize, url: &str) {
    let scene = Scene::new(url).await;
    let outside = scene.outside.clone();
    let before = scene.verify(&[&outside]).await;
    assert_eq!(before.verdict, Verdict::Intact, "{before:?}");
    assert!(0 < before.attested && before.beyond == 1, "the first thread has gone on: {before:?}");
    let (name, expected) = match nth.checked_sub(logs::ALL) {
        None => logs::attack(nth, &scene).await,
        Some(nth) if nth < files::ALL => files::attack(nth, &scene).await,
        Some(nth) => rows::attack(nth - files::ALL, &scene).await,
    };
    let alone = scene.verify(&[]).await;
    holds(name, &scene, &alone, &expected.alone, expected.unchecked != Unchecked::No);
    let both: Vec<Found> = [expected.alone, expected.with_outside].concat();
    let with: [&Path; 1] = [&outside];
    holds(name, &scene, &scene.verify(&with).await, &both, expected.unchecked == Unchecked::Always);
}

fn holds(name: &str, scene: &Scene, report: &Report, expected: &[Found], unchecked: bool) {
    let thread = |id| scene.threads.iter().position(|it| Some(*it) == id);
    let all: Vec<Found> = report.findings.iter().map(|it| (thread(it.thread), it.seq, it.wrong)).collect();
    for it in expected {
        assert!(all.contains(it), "{name}: {it:?} is not among {:#?}", report.findings);
    }
    let accused = |it: &Found| it.0.is_none() || expected.iter().any(|one| one.0 == it.0);
    assert!(all.iter().all(accused), "{name}: others are accused: {:#?}", report.findings);
    let verdict = match (expected.is_empty(), unchecked) {
        (false, _) => Verdict::Tampered,
        (true, true) => Verdict::NotChecked,
        (true, false) => Verdict::Intact,
    };
    assert_eq!(report.verdict, verdict, "{name}: {report:#?}");
    assert_eq!(report.found > 0, !report.findings.is_empty(), "{name}: {report:#?}");
}
