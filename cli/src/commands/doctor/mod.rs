//! `turnfold doctor`: checks everything that an engine needs, side by side, and says what to do.

mod configuration;
mod engine;
mod machine;
mod world;

use std::{collections::BTreeSet, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::Context;
use crate::{
    exit::Exit,
    output::{self, counted, stderr_is_terminal},
};

/// Maximum duration of a check without a limit of its own.
const LIMIT: Duration = Duration::from_secs(15);

/// Interval at which the progress moves.
const TICK: Duration = Duration::from_millis(100);

/// Status of what was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: String,
    status: Status,
    detail: String,
    /// Remedy, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Finding {
    fn new(check: &str, status: Status, text: &str) -> Self {
        let (detail, hint) = match text.split_once("hint: ") {
            Some((detail, hint)) => (detail.trim_end_matches([' ', ';', '\n']), Some(hint.to_owned())),
            None => (text, None),
        };
        Self { check: check.to_owned(), status, detail: detail.to_owned(), hint }
    }

    fn ok(check: &str, text: impl AsRef<str>) -> Self {
        Self::new(check, Status::Ok, text.as_ref())
    }

    fn warn(check: &str, text: impl AsRef<str>) -> Self {
        Self::new(check, Status::Warn, text.as_ref())
    }

    fn fail(check: &str, text: impl AsRef<str>) -> Self {
        Self::new(check, Status::Fail, text.as_ref())
    }
}

/// A check that may take time.
struct Check<'a> {
    name: String,
    limit: Duration,
    run: BoxFuture<'a, Vec<Finding>>,
}

impl<'a> Check<'a> {
    fn new(name: impl Into<String>, run: impl Future<Output = Vec<Finding>> + Send + 'a) -> Self {
        Self { name: name.into(), limit: LIMIT, run: run.boxed() }
    }

    fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }
}

pub(crate) async fn run(ctx: Context, asks_models: bool) -> anyhow::Result<Exit> {
    let mut findings = configuration::check(&ctx.settings, &ctx.origins);
    findings.extend(machine::check(&ctx.settings));
    let (servers, models) = (crate::engine::servers(&ctx.settings), crate::engine::models(&ctx.settings));
    let mut checks = engine::checks(&ctx.settings);
    match &models {
        Ok(models) => checks.extend(world::models(&ctx.settings, &ctx.origins, models, asks_models)),
        Err(error) => findings.push(Finding::fail("providers", format!("{error:#}"))),
    }
    match &servers {
        Ok(servers) => checks.extend(world::servers(&ctx.settings, servers)),
        Err(error) => findings.push(Finding::fail("MCP servers", format!("{error:#}"))),
    }
    findings.extend(all(checks).await);
    if let Ok(servers) = &servers {
        servers.close().await;
    }
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    let (failed, warned) = (count(Status::Fail), count(Status::Warn));
    output::many(ctx.format, &findings, || {
        let lines: Vec<String> = findings.iter().map(line).collect();
        format!("{}\n\n{}", lines.join("\n"), summary(failed, warned))
    })?;
    Ok(if failed == 0 { Exit::Ok } else { Exit::Finding })
}

/// Runs checks side by side. Returns their findings in the order of the checks.
async fn all(checks: Vec<Check<'_>>) -> Vec<Finding> {
    let mut running: BTreeSet<String> = checks.iter().map(|check| check.name.clone()).collect();
    let progress = progress();
    progress.set_message(waiting_for(&running));
    let mut pending: FuturesUnordered<_> = checks
        .into_iter()
        .enumerate()
        .map(|(nth, Check { name, limit, run })| async move {
            let findings = tokio::time::timeout(limit, run).await.unwrap_or_else(|_| {
                vec![Finding::fail(&name, format!("no result within {} s", limit.as_secs()))]
            });
            (nth, name, findings)
        })
        .collect();
    let mut done = Vec::new();
    while let Some((nth, name, findings)) = pending.next().await {
        running.remove(&name);
        progress.set_message(waiting_for(&running));
        done.push((nth, findings));
    }
    progress.finish_and_clear();
    done.sort_by_key(|(nth, _)| *nth);
    done.into_iter().flat_map(|(_, findings)| findings).collect()
}

/// Shows on a terminal which checks are running.
fn progress() -> ProgressBar {
    if !stderr_is_terminal() {
        return ProgressBar::hidden();
    }
    let progress = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} checking {wide_msg}") {
        progress.set_style(style);
    }
    progress.enable_steady_tick(TICK);
    progress
}

fn waiting_for(running: &BTreeSet<String>) -> String {
    running.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn line(finding: &Finding) -> String {
    let Finding { check, status, detail, hint } = finding;
    let status = match status {
        Status::Ok => "ok  ",
        Status::Warn => "WARN",
        Status::Fail => "FAIL",
    };
    let hint = hint.as_ref().map(|hint| format!("\n      hint: {hint}")).unwrap_or_default();
    format!("{status}  {check}: {detail}{hint}")
}

fn summary(failed: usize, warned: usize) -> String {
    match (failed, warned) {
        (0, 0) => "everything is in order".to_owned(),
        (0, warned) => format!("it works, with {}", counted(warned, "warning")),
        (failed, warned) => format!("{} and {}", counted(failed, "failure"), counted(warned, "warning")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_of_an_error_is_a_line_of_its_own() {
        let finding = Finding::fail("database", "there is none; hint: run `turnfold migrate`");
        assert_eq!(
            (finding.detail.as_str(), finding.hint.as_deref()),
            ("there is none", Some("run `turnfold migrate`"))
        );
        assert_eq!(line(&finding), "FAIL  database: there is none\n      hint: run `turnfold migrate`");
        assert_eq!(summary(1, 2), "1 failure and 2 warnings");
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_fails_at_its_limit_and_delays_no_other() {
        let hangs = Check::new("slow", std::future::pending());
        let quick = Check::new("quick", async { vec![Finding::ok("quick", "fine")] });
        let findings = all(vec![hangs.within(Duration::from_secs(5)), quick]).await;
        let texts: Vec<(&str, Status)> =
            findings.iter().map(|finding| (finding.detail.as_str(), finding.status)).collect();
        assert_eq!(texts, [("no result within 5 s", Status::Fail), ("fine", Status::Ok)]);
    }
}
