//! The threads of a run on its worker, until all have ended, a signal arrives, the budget is spent, or the worker stops.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use audit::{judge::Judge, whatif::Start};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use shared::Strategy as _;
use store::{Error, ThreadFilter, ThreadId};
use tokio_util::task::AbortOnDropHandle;

use super::{engine::Engine, lanes::Lanes, world::RunWorld};
use crate::{
    commands::signals::Signals,
    exit::Exit,
    output::{note, stderr_is_terminal},
};

/// Number of runnable threads that are read at a time.
const PAGE: u64 = 1_000;

/// Interval of progress lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Result of running threads.
pub(super) enum Ended<T> {
    All(Vec<T>),
    Early { exit: Exit, why: String, done: u64 },
}

/// Starts the worker, and runs these threads on it.
pub(super) async fn drive<I, T, F>(
    engine: &mut Engine,
    threads: Vec<I>,
    run: impl Fn(I) -> F,
) -> anyhow::Result<Ended<T>>
where
    F: Future<Output = Result<T, Error>>,
{
    if engine.world.over_budget.is_cancelled() {
        return Ok(over_budget(0));
    }
    engine.start().await?;
    let bar = progress(threads.len())?;
    let _lines = AbortOnDropHandle::new(tokio::spawn(print_progress(bar.clone(), engine.world.clone())));
    let run = |thread: I| {
        let (ended, bar, world) = (run(thread), &bar, &engine.world);
        async move {
            let ended = ended.await;
            bar.inc(1);
            bar.set_message(format!("${:.4}", shared::usd(world.spent())));
            ended
        }
    };
    let all = stream::iter(threads).map(run).buffer_unordered(engine.slots.max(1)).try_collect::<Vec<_>>();
    let mut signals = Signals::new()?;
    let ended = tokio::select! {
        done = all => Ended::All(done?),
        () = signals.received() => {
            let why = "interrupted".to_owned();
            Ended::Early { exit: Exit::Interrupted, why, done: bar.position() }
        }
        () = engine.world.over_budget.cancelled() => over_budget(bar.position()),
        () = engine.stop.requested() => {
            let why = engine.stop.failure().unwrap_or("the worker stopped").to_owned();
            Ended::Early { exit: Exit::Database, why, done: bar.position() }
        }
    };
    bar.finish_and_clear();
    if let Ended::Early { .. } = ended {
        note("stopping: requests under way finish first; Ctrl-C gives them up");
        let stop = engine.stop.clone();
        tokio::spawn(async move {
            signals.received().await;
            stop.halt();
        });
    }
    Ok(ended)
}

/// Counts what earlier commands spent, and makes the threads known whose turns they left unfinished: the worker continues them at
/// once.
pub(super) async fn take_up(lanes: &Lanes, starts: &[Start]) -> anyhow::Result<()> {
    let starts: BTreeMap<ThreadId, Start> = starts.iter().map(|start| (start.thread, *start)).collect();
    let (store, mut after) = (&lanes.parts.store, None);
    loop {
        let page = store.threads(ThreadFilter::default(), after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for thread in &page {
            // A question to a judge is paid from its beginning on.
            let is_question = thread.strategy == Judge::NAME;
            let question = is_question.then_some(Start { thread: thread.id, seq: 0 });
            if let Some(start) = starts.get(&thread.id).copied().or(question) {
                lanes.count_spent(start).await?;
            }
        }
    }
    let mut after = None;
    loop {
        let page = store.runnable_after(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.thread);
        for start in page.iter().filter_map(|runnable| starts.get(&runnable.thread)) {
            lanes.register(*start).await?;
        }
    }
}

fn over_budget<T>(done: u64) -> Ended<T> {
    Ended::Early { exit: Exit::Partial, why: "--max-usd is spent".to_owned(), done }
}

fn progress(threads: usize) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new(threads as u64);
    bar.set_style(ProgressStyle::with_template("  {bar:30} {pos}/{len} threads  {msg}  {elapsed}")?);
    Ok(bar)
}

/// Prints the progress line by line where no bar can be shown.
async fn print_progress(bar: ProgressBar, world: Arc<RunWorld>) {
    if stderr_is_terminal() {
        return;
    }
    loop {
        tokio::time::sleep(LINE_INTERVAL).await;
        let (done, all) = (bar.position(), bar.length().unwrap_or_default());
        note(&format!("{done} of {all} threads ended, ${:.4} spent", shared::usd(world.spent())));
    }
}
