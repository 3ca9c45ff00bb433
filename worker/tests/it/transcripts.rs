//! Runs every fixture with a worker over a store in memory: the transcript equals the replayed one, line by line.

use std::{fs, path::Path, sync::Arc, time::Duration};

use futures::future::join_all;
use shared::{Graph, transcript};
use store::Store;
use tokio::time::timeout;
use worker::testing::{backends, fixtures, read, run_fixture, with_new_queue};
use world::RecordedWorld;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fixture_gives_the_same_transcript() {
    let of_strategy = |graph: &'static dyn Graph| async move {
        // One store for all, because its migration takes longer than most fixtures.
        let store = backends().await.store;
        let paths = fixtures(graph);
        for path in &paths {
            gives_the_same_transcript(&store, graph, path).await;
        }
        paths.len()
    };
    let all = strategies::all().into_iter().map(|graph| tokio::spawn(of_strategy(graph)));
    let fixtures: usize = join_all(all).await.into_iter().map(Result::unwrap).sum();
    assert!(fixtures > 30, "{fixtures} fixtures");
}

async fn gives_the_same_transcript(store: &Store, graph: &'static dyn Graph, path: &Path) {
    let script = read(path);
    let world = Arc::new(RecordedWorld::new(graph, &script).unwrap());
    let backends = with_new_queue(store);
    let run = timeout(Duration::from_secs(60), run_fixture(&backends, graph, &script, world)).await;
    let run = run.unwrap_or_else(|_| panic!("{} does not come to its end", path.display()));
    let expected = fs::read_to_string(path.with_extension("snap")).unwrap();
    let expected = expected.splitn(3, "---\n").nth(2).unwrap().trim_end();
    assert_eq!(format!("{}\nstate {:#}", transcript(&run.log), run.state), expected, "{}", path.display());
}
