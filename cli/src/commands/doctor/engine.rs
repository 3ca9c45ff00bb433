//! Checks of the database, Redis and the workers.

use std::time::Duration;

use queue::{clock, redis::redis_info};
use secrecy::ExposeSecret as _;
use store::{ServerInfo, WorkerRecord};

use super::{Check, Finding};
use crate::{config::Settings, engine, output::counted};

/// Smallest difference between two clocks that is a warning.
const CLOCK_WARN: Duration = Duration::from_secs(5);

pub(super) fn checks(settings: &Settings) -> Vec<Check<'_>> {
    vec![Check::new("database", database(settings)), Check::new("queue", queue(settings))]
}

async fn database(settings: &Settings) -> Vec<Finding> {
    let store = match engine::store(settings).await {
        Ok(store) => store,
        Err(error) => return vec![Finding::fail("database", format!("{error:#}"))],
    };
    let ServerInfo { version, clock_ahead } = match store.server_info().await {
        Ok(info) => info,
        Err(error) => return vec![Finding::fail("database", error.to_string())],
    };
    let mut findings = vec![Finding::ok("database", version)];
    findings.extend(clock_ahead.map(|ahead| clock_of("database", ahead)));
    if let Err(error) = engine::check_migrated(&store).await {
        findings.push(Finding::fail("migrations", format!("{error:#}")));
        return findings;
    }
    findings.push(Finding::ok("migrations", "the schema is up to date"));
    findings.push(match store.check_writable().await {
        Ok(()) => Finding::ok("writes", "the database accepts writes"),
        Err(error) => Finding::fail(
            "writes",
            format!("the database accepts none: {error}; hint: look for a full disk or a read-only standby"),
        ),
    });
    findings.push(match store.workers().await {
        Ok(all) => workers(&all, clock::now()),
        Err(error) => Finding::fail("workers", error.to_string()),
    });
    findings
}

fn workers(all: &[WorkerRecord], now: i64) -> Finding {
    let (missing, active): (Vec<_>, Vec<_>) = all.iter().partition(|worker| worker.is_missing(now));
    let own = env!("CARGO_PKG_VERSION");
    if let [first, others @ ..] = &missing[..] {
        let others = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        let text = format!("{}{others} stopped reporting; hint: see `turnfold worker ls`", first.name);
        return Finding::warn("workers", text);
    }
    match (active.iter().find(|worker| worker.version != own), active.len()) {
        (Some(worker), _) => {
            let text = format!(
                "{} runs version {}, this is {own}; hint: see `turnfold worker ls`",
                worker.name, worker.version
            );
            Finding::warn("workers", text)
        }
        (None, 0) => Finding::ok("workers", "none runs now"),
        (None, n) => Finding::ok("workers", counted(n, "worker")),
    }
}

async fn queue(settings: &Settings) -> Vec<Finding> {
    let url = match settings.queue.url.resolve() {
        Ok(url) => url,
        Err(error) => return vec![Finding::fail("queue", error.to_string())],
    };
    if url.expose_secret() == "memory:" {
        return vec![Finding::ok("queue", "in memory, for `turnfold dev` alone")];
    }
    match redis_info(url.expose_secret()).await {
        Ok(info) => {
            vec![Finding::ok("queue", format!("Redis {}", info.version)), clock_of("Redis", info.clock_ahead)]
        }
        Err(error) => vec![Finding::fail("queue", error.to_string())],
    }
}

/// Compares this machine's clock with that of a server.
fn clock_of(server: &str, ahead: i64) -> Finding {
    let check = format!("clock of {server}");
    if ahead.unsigned_abs() <= clock::duration_micros(CLOCK_WARN).unsigned_abs() {
        return Finding::ok(&check, format!("within {} s of this machine's", CLOCK_WARN.as_secs()));
    }
    let seconds = ahead.unsigned_abs() / 1_000_000;
    let direction = if ahead < 0 { "behind" } else { "ahead" };
    Finding::warn(
        &check,
        format!("this machine is {seconds} s {direction}; hint: let both follow a time server (NTP)"),
    )
}

#[cfg(test)]
mod tests {
    use super::{super::Status, *};

    #[test]
    fn a_clock_that_is_off_is_a_warning_with_its_direction() {
        assert_eq!(clock_of("Redis", -4_000_000).status, Status::Ok);
        let off = clock_of("Redis", -61_000_000);
        assert_eq!((off.status, off.detail.as_str()), (Status::Warn, "this machine is 61 s behind"));
    }

    #[test]
    fn missing_workers_and_other_versions_are_warnings() {
        let worker = |name: &str, version: &str, seen_at| WorkerRecord {
            id: uuid::Uuid::nil(),
            name: name.to_owned(),
            host: String::new(),
            pid: 1,
            version: version.to_owned(),
            strategies: std::collections::BTreeMap::new(),
            slots: 1,
            in_flight: 0,
            steps_per_second: None,
            learned_models: Vec::new(),
            started_at: 0,
            seen_at,
        };
        let (own, now) = (env!("CARGO_PKG_VERSION"), 100_000_000);
        let status = |all: &[WorkerRecord]| workers(all, now).status;
        assert_eq!(status(&[]), Status::Ok);
        assert_eq!(status(&[worker("a", own, now)]), Status::Ok);
        assert_eq!(status(&[worker("a", own, now), worker("b", "9.9.9", now)]), Status::Warn);
        let dead = [worker("a", own, now), worker("b", own, 0), worker("c", own, 0)];
        assert_eq!(workers(&dead, now).detail, "b and 1 more stopped reporting");
    }
}
