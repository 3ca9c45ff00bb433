//! `turnfold audit key · checkpoint · verify · export`: whether the logs are those that were written.

use std::path::{Path, PathBuf};

use audit::witness::{self, Asked, Error, Gone, Key, Place, Report, Verdict};
use serde_json::json;
use store::Store;

use super::{Given, thread, upkeep};
use crate::{
    args::{AuditKey, Round},
    engine,
    exit::{Exit, Stop},
    output,
};

pub(super) fn key(given: &Given, command: AuditKey) -> anyhow::Result<Exit> {
    let key = match command {
        AuditKey::New { name, key } => {
            if key.exists() {
                let words = format!(
                    "there is a key in {} already, and none is written over: `turnfold audit key show` prints what checks its \
                     signatures; for another give --key FILE",
                    key.display()
                );
                return Err(Stop::because(Exit::Usage, words));
            }
            let name = name.unwrap_or_else(|| format!("turnfold/{}", engine::host()));
            let made = Key::make(&key, &name).map_err(told)?;
            output::remark(&format!(
                "the key is in {}: keep it where the store's users cannot read it",
                key.display()
            ));
            made
        }
        AuditKey::Show { key } => Key::read(&key).map_err(told)?,
    };
    output::one(given.format, &json!({ "name": key.name(), "vkey": key.vkey() }), || key.vkey().to_owned())?;
    Ok(Exit::Ok)
}

pub(super) async fn checkpoint(
    given: &Given,
    store: &Store,
    to: &Place,
    key: &Path,
    gone: Gone,
    jobs: Option<u16>,
) -> anyhow::Result<Exit> {
    let key = Key::read(key).map_err(told)?;
    let spinner = upkeep::spinner()?;
    let round = upkeep::over(store, Round { jobs, ..Round::default() }, &spinner).await?;
    let made = witness::checkpoint(store, &round, to, &key, gone).await.map_err(told)?;
    spinner.finish_and_clear();
    let thing = json!({
        "note": to.note, "heads": to.heads, "size": made.size, "added": made.added, "gone": made.gone,
        "threads": made.threads, "vkey": key.vkey(), "found": made.found, "findings": made.findings,
    });
    output::one(given.format, &thing, || {
        let gone = if made.gone == 0 {
            String::new()
        } else {
            format!(", {} of them of threads that are gone", made.gone)
        };
        let done = format!(
            "{} attests {} heads, {} of them new{gone}; {} threads looked at",
            to.note.display(),
            made.size,
            made.added,
            made.threads
        );
        if made.found == 0 {
            return done;
        }
        let told = made.findings.iter().map(|it| format!("\n  thread {}: {}", it.thread, it.what));
        format!(
            "{done}\nFOUND {}, and not attested anew:{}{}",
            made.found,
            told.collect::<String>(),
            upkeep::more(made.found, made.findings.len())
        )
    })?;
    Ok(if made.found == 0 { Exit::Ok } else { Exit::Finding })
}

pub(super) async fn verify(
    given: &Given,
    store: &Store,
    asked: &Asked,
    round: Round,
) -> anyhow::Result<Exit> {
    let spinner = upkeep::spinner()?;
    let round = upkeep::over_seen(given, store, round, &spinner).await?;
    let report = witness::verify(store, &given.strategies, &round, asked).await.map_err(told)?;
    spinner.finish_and_clear();
    output::one(given.format, &report, || words(&report))?;
    Ok(match report.verdict {
        Verdict::Intact => Exit::Ok,
        Verdict::Tampered => Exit::Finding,
        Verdict::NotChecked => Exit::Unchecked,
    })
}

fn words(report: &Report) -> String {
    let mut lines = vec![match report.verdict {
        Verdict::Intact => "INTACT".to_owned(),
        Verdict::Tampered => format!("TAMPERED: found {}", report.found),
        Verdict::NotChecked => "NOT CHECKED: nothing was found, and not all could be looked at".to_owned(),
    }];
    for it in &report.findings {
        let of = it.thread.map_or_else(String::new, |thread| format!("thread {thread}: "));
        lines.push(format!("  {}: {of}{}", it.wrong, it.what));
    }
    let more = upkeep::more(report.found, report.findings.len());
    lines.extend(more.lines().filter(|it| !it.is_empty()).map(str::to_owned));
    lines.push(format!(
        "checked: the chains of {} events of {} threads, and their rows",
        report.events, report.threads
    ));
    for it in &report.checkpoints {
        let signed = match it.signed {
            Some(true) => "signed as it should be",
            Some(false) => "NOT SIGNED by that key",
            None => "by whom was not checked",
        };
        lines.push(format!("against: {}, {} heads of {}, {signed}", it.file, it.size, it.origin));
    }
    if !report.checkpoints.is_empty() {
        lines.push(format!("as attested: {} events", report.attested));
        if 0 < report.beyond {
            lines.push(format!(
                "NOT CHECKED against a checkpoint: {} other events of {} threads: only their chains, which whoever writes \
                 to the store can hash anew",
                report.events - report.attested,
                report.beyond
            ));
        }
    }
    lines.extend(report.not_checked.iter().map(|it| format!("NOT CHECKED: {}: {}", it.what, it.why)));
    lines.join("\n")
}

pub(super) async fn export(
    given: &Given,
    store: &Store,
    id: &str,
    proof: Option<PathBuf>,
    to: Option<PathBuf>,
) -> anyhow::Result<Exit> {
    let id = thread::seen(given, store, id).await?;
    let to = to.unwrap_or_else(|| PathBuf::from(format!("proof-{id}")));
    let place = proof.as_deref().map(Place::of);
    let done = witness::export(store, id, place.as_ref(), &to).await.map_err(told)?;
    let thing = json!({ "thread": id, "folder": to, "events": done.events, "attested": done.attested });
    output::one(given.format, &thing, || {
        let attested = match done.attested {
            Some(events) => format!("{events} of them attested"),
            None => "nothing attests them: name a checkpoint with --proof".to_owned(),
        };
        format!(
            "{}: {} events, {attested}\ncheck it without turnfold: python3 {} NAME+ID+KEY",
            to.display(),
            done.events,
            to.join("verify.py").display()
        )
    })?;
    Ok(Exit::Ok)
}

fn told(error: Error) -> anyhow::Error {
    match error {
        Error::Store(error) => error.into(),
        Error::Given(words) => Stop::because(Exit::Usage, words),
        Error::Damaged(words) => Stop::because(Exit::Finding, words),
    }
}
