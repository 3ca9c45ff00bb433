//! Selected logs, and no others, are read completely and in order.

use std::collections::{BTreeMap, BTreeSet};

use super::{decided, of_tenant};
use store::{Conditions, Error, Reader, Recorded, Store, ThreadId, ThreadScan};

#[derive(Default)]
struct Seen {
    logs: BTreeMap<ThreadId, Vec<u64>>,
    last: Option<ThreadId>,
}

impl Reader for Seen {
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>) {
        let begun = self.last.replace(thread) != Some(thread);
        assert!(!begun || !self.logs.contains_key(&thread), "{thread} is read in two pieces");
        self.logs.entry(thread).or_default().extend(event.map(|recorded| recorded.seq));
    }
}

async fn seen(store: &Store, round: &ThreadScan) -> Result<BTreeMap<ThreadId, Vec<u64>>, Error> {
    let mut all = BTreeMap::new();
    for seen in store.read_logs(round, Seen::default).await? {
        for (thread, log) in seen.logs {
            assert_eq!(all.insert(thread, log), None, "{thread} is read twice");
        }
    }
    Ok(all)
}

pub(super) async fn reads_what_is_meant(store: &Store) -> Result<(), Error> {
    // More than one range of threads, and one log of more than one page.
    let mut threads = Vec::new();
    for nth in 0..150 {
        let tenant = if nth % 10 == 3 { "chosen" } else { "other" };
        threads.push(store.submit(of_tenant(tenant, "hello")).await?.into_turn().thread);
    }
    let long = store.head(threads[3]).await?;
    let events: Vec<_> = (0..1_200).map(decided).collect();
    store.append(&long, &events, None).await?;
    let round = |turns| ThreadScan::of(turns, 3);
    let all = seen(store, &round(Conditions::default())).await?;
    assert!(threads.iter().all(|thread| all.contains_key(thread)), "not all were read");
    assert_eq!(all[&threads[3]], (0..=1_200).collect::<Vec<_>>());

    let chosen =
        Conditions::parse("tenant = chosen", 0).map_err(|error| Error::Database(error.to_string()))?;
    let expected: BTreeSet<_> = threads.iter().skip(3).step_by(10).copied().collect();
    let found = seen(store, &round(chosen.clone())).await?;
    assert_eq!(found.keys().copied().collect::<BTreeSet<_>>(), expected);
    assert_eq!(found[&threads[3]], all[&threads[3]]);
    let future = queue::clock::now() + 1_000_000;
    assert!(seen(store, &round(chosen.clone().and_since(future))).await?.is_empty());
    assert_eq!(seen(store, &round(chosen.and_since(0))).await?.len(), expected.len());
    Ok(())
}

on_databases! {
    distributed:
    reads_what_is_meant,
}
