//! Runs of recorded threads by another build of turnfold.

use std::fs;

use serde_json::json;
use store::testing::migrate;
use test_servers::Postgres;
use tokio::sync::Semaphore;

use crate::{
    cohorts::other_build,
    engine::TURNFOLD,
    ledgers::applied,
    whatif::{Model, asked, folder, record, run, satisfied},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_threads_go_on_in_the_other_build() {
    assert_runs(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_threads_go_on_in_the_other_build() {
    let postgres = Postgres::prepared("migrated", migrate);
    assert_runs(Some(&postgres.url())).await;
}

async fn assert_runs(store: Option<&str>) {
    let model = Model::serve(satisfied, Semaphore::MAX_PERMITS).await;
    let folder = folder(store, &model);
    let folder = folder.path();
    let ids = record(folder, 2);
    let build = other_build(folder, &ids[1]);
    let command = ["whatif", "run", "--yes", "--fail-if", "answer > 0", "--build", &build];

    // The judgement is recorded and decided anew; the answer is asked for.
    let (exit, report) = asked(folder, &command).await;
    assert_eq!((exit, &report["total"]["decided"]), (1, &json!(1)), "{report}");
    assert_eq!(report["threads"][0]["thread"], json!(ids[1]), "{report}");
    assert_eq!(report["replay"]["same"], json!(1), "{report}");
    let requests = model.asked().len();
    assert!(0 < requests && report["total"]["model_requests"] == json!(requests), "{report}");
    assert!(applied(folder).is_empty(), "no call was sent");

    // The same command, and the name of the run, continue it.
    let (exit, again) = asked(folder, &command).await;
    assert_eq!((exit, &again["total"]), (1, &report["total"]), "{again}");
    let name = report["folder"].as_str().unwrap().rsplit('/').next().unwrap();
    let (exit, again) = asked(folder, &["whatif", "run", "--resume", name]).await;
    assert_eq!((exit, &again["total"]), (0, &report["total"]), "{again}");
    assert_eq!(model.asked().len(), requests, "nothing was asked again");

    // Another build in the same place is another run.
    let script = fs::read_to_string(folder.join("other")).unwrap();
    fs::write(folder.join("other"), format!("{script}\n# built again\n")).unwrap();
    let (exit, refused) = asked(folder, &["whatif", "run", "--resume", name]).await;
    assert!(exit == 2 && refused.as_str().unwrap().contains("is not the build"), "{refused}");
    let (exit, report) = asked(folder, &command).await;
    assert_eq!((exit, &report["total"]["decided"]), (1, &json!(1)), "{report}");
    assert_eq!(model.asked().len(), 2 * requests, "{report}");

    for wrong in [&["--build", "./nowhere"][..], &["--build", &build, "--set", "planner.confidence=0.9"]] {
        let (exit, refused) = asked(folder, &[&["whatif", "run", "--yes"], wrong].concat()).await;
        assert_eq!(exit, 2, "{refused}");
    }
    let (exit, none) = run(folder, &["whatif", "run", "--yes", "--build", TURNFOLD]);
    assert_eq!((exit, &none["same"]), (0, &json!(2)), "{none}");
}
