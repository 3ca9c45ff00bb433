//! `turnfold worker list`: the workers that run, through the API.

use api_types::{Page, Worker, WorkerStatus};
use queue::clock;

use super::Context;
use crate::{exit::Exit, output};

pub(crate) async fn list(ctx: &Context) -> anyhow::Result<Exit> {
    let workers = ctx.client_for_all()?.get::<Page<Worker>>("/v1/workers").await?.data;
    output::many(ctx.format, &workers, || to_text(&workers, clock::now()))?;
    Ok(Exit::Ok)
}

fn to_text(workers: &[Worker], now: i64) -> String {
    if workers.is_empty() {
        return "no worker runs; start one with: turnfold worker".to_owned();
    }
    let head = [
        "worker",
        "status",
        "host",
        "pid",
        "version",
        "slots",
        "in flight",
        "steps/s",
        "started",
        "last seen",
    ];
    let missing = workers.iter().filter(|worker| worker.status == WorkerStatus::Missing).count();
    let note = match missing {
        0 => String::new(),
        n => format!(
            "\n\n{} not reported for 30 s: killed, disconnected or overloaded. Their jobs go to other workers when their \
             leases expire.",
            if n == 1 { "1 worker has".to_owned() } else { format!("{n} workers have") }
        ),
    };
    format!("{}{}{note}", output::table(&head, workers.iter().map(|worker| row(worker, now))), skew(workers))
}

fn row(worker: &Worker, now: i64) -> Vec<String> {
    let status = match worker.status {
        WorkerStatus::Active => "active",
        WorkerStatus::Missing => "MISSING",
    };
    vec![
        worker.name.clone(),
        status.to_owned(),
        worker.host.clone(),
        worker.pid.to_string(),
        worker.version.clone(),
        worker.slots.to_string(),
        worker.in_flight.to_string(),
        worker.steps_per_second.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}")),
        worker.started_at.clone(),
        ago(&worker.last_seen_at, now),
    ]
}

/// Names the strategies that not all workers run in the same version; empty if there is none.
fn skew(workers: &[Worker]) -> String {
    let Some(first) = workers.first() else { return String::new() };
    if workers.iter().all(|worker| worker.strategies == first.strategies) {
        return String::new();
    }
    let lists = |worker: &Worker| {
        let versions: Vec<String> = worker.strategies.iter().map(|(name, n)| format!("{name} {n}")).collect();
        format!("\n  {}: {}", worker.name, versions.join(", "))
    };
    format!("\n\nThe workers run different strategies:{}", workers.iter().map(lists).collect::<String>())
}

/// The time since a report, in the largest whole unit.
fn ago(time: &str, now: i64) -> String {
    let seconds = now.saturating_sub(clock::parse_rfc3339(time).unwrap_or(now)).max(0) / 1_000_000;
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        _ => format!("{} h ago", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_missing_worker_and_different_strategies_are_marked() {
        let now = clock::parse_rfc3339("2026-11-27T10:01:40Z").unwrap();
        let worker = |name: &str, status, last_seen: &str, version| Worker {
            id: uuid::Uuid::nil(),
            name: name.to_owned(),
            status,
            host: "host".to_owned(),
            pid: 7,
            version: "0.1.0".to_owned(),
            strategies: BTreeMap::from([("probe".to_owned(), version)]),
            slots: 4,
            in_flight: 1,
            steps_per_second: (last_seen > "2026-11-27T10").then_some(12.34),
            started_at: "2026-11-27T10:00:00Z".to_owned(),
            last_seen_at: last_seen.to_owned(),
        };
        let active = worker("a", WorkerStatus::Active, "2026-11-27T10:01:37Z", 1);
        let text = to_text(&[active.clone(), active.clone()], now);
        assert!(
            text.contains("3 s ago")
                && text.contains(" 12.3 ")
                && !text.contains("MISSING")
                && !text.contains("different"),
            "{text}"
        );
        let text = to_text(&[active, worker("b", WorkerStatus::Missing, "2026-11-27T09:50:00Z", 2)], now);
        for part in ["MISSING", "11 min ago", "1 worker has not reported", "a: probe 1", "b: probe 2"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
