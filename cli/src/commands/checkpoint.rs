//! `turnfold audit key`, `checkpoint`, `verify` and `export`: signed checkpoints of the logs, and checks against them.

use std::path::{Path, PathBuf};

use audit::checkpoints::{self, Asked, Checked, Error, Gone, Key, Place, Report, Verdict};
use queue::clock;
use serde_json::json;
use store::{CheckpointRecord, Store};

use super::{Context, coverage, selection, source::Source};
use crate::{
    args::{AuditKey, Selection},
    exit::{CliError, Exit},
    output,
};

pub(super) fn key(ctx: &Context, command: AuditKey) -> anyhow::Result<Exit> {
    let key = match command {
        AuditKey::New { name, key } => {
            if key.exists() {
                let message = format!(
                    "{} already exists, and keys are never overwritten\nhint: print its public key with turnfold audit key show, or \
                     choose another file with --key",
                    key.display()
                );
                return Err(CliError::with_exit(Exit::Usage, message));
            }
            let name = name.unwrap_or_else(|| format!("turnfold/{}", worker::host()));
            let created = Key::make(&key, &name).map_err(with_exit_code)?;
            output::note(&format!(
                "the key is in {}; keep it where users of the database cannot read it",
                key.display()
            ));
            created
        }
        AuditKey::Rotate { to, key, new_key } => {
            let old = Key::read(&key).map_err(with_exit_code)?;
            let (new, note) = checkpoints::rotate(&Place::of(&to), &old, &new_key).map_err(with_exit_code)?;
            output::note(&format!(
                "{} says that the new key in {} replaces the old one in {}; sign with the new one, and destroy the old one",
                note.display(),
                new_key.display(),
                key.display()
            ));
            new
        }
        AuditKey::Show { key } => Key::read(&key).map_err(with_exit_code)?,
    };
    output::one(ctx.format, &json!({ "name": key.name(), "vkey": key.vkey() }), || key.vkey().to_owned())?;
    Ok(Exit::Ok)
}

pub(super) async fn checkpoint(
    ctx: &Context,
    store: &Store,
    to: &Place,
    key: &Path,
    gone: Gone,
    jobs: Option<u16>,
) -> anyhow::Result<Exit> {
    let key = Key::read(key).map_err(with_exit_code)?;
    let spinner = selection::spinner()?;
    let round = selection::select(ctx, store, Selection { jobs, ..Selection::default() }, &spinner).await?;
    let made = checkpoints::checkpoint(store, &round, to, &key, gone).await.map_err(with_exit_code)?;
    spinner.finish_and_clear();
    let record = CheckpointRecord {
        origin: key.name().to_owned(),
        file: to.note.display().to_string(),
        heads: made.size,
        threads: made.threads,
        findings: made.found,
        made_at: clock::now(),
    };
    // A user who may only read the database makes checkpoints too.
    if let Err(error) = store.record_checkpoint(&record).await {
        output::note(&format!("the console does not show this checkpoint: {error}"));
    }
    let thing = json!({
        "note": to.note, "heads": to.heads, "size": made.size, "added": made.added, "gone": made.gone,
        "threads": made.threads, "vkey": key.vkey(), "found": made.found, "findings": made.findings,
    });
    output::one(ctx.format, &thing, || {
        let gone = if made.gone == 0 {
            String::new()
        } else {
            format!(", {} of them of deleted threads", made.gone)
        };
        let done = format!(
            "{} attests {} heads, {} of them new{gone}; {} threads read",
            to.note.display(),
            made.size,
            made.added,
            made.threads
        );
        if made.found == 0 {
            return done;
        }
        let listed = made.findings.iter().map(|it| format!("\n  thread {}: {}", it.thread, it.what));
        format!(
            "{done}\nFOUND {}, not attested again:{}{}",
            made.found,
            listed.collect::<String>(),
            output::and_more(made.found, made.findings.len())
        )
    })?;
    Ok(if made.found == 0 { Exit::Ok } else { Exit::Finding })
}

pub(super) async fn verify(
    ctx: &Context,
    store: &Store,
    asked: &Asked,
    selection: Selection,
) -> anyhow::Result<Exit> {
    let spinner = selection::spinner()?;
    let round = selection::select_visible(ctx, store, selection, &spinner).await?;
    let report = checkpoints::verify(store, &ctx.strategies, &round, asked).await.map_err(with_exit_code)?;
    spinner.finish_and_clear();
    output::one(ctx.format, &report, || to_text(&report))?;
    Ok(match report.verdict {
        Verdict::Intact => Exit::Ok,
        Verdict::Tampered => Exit::Finding,
        Verdict::NotChecked => Exit::Unchecked,
    })
}

/// Returns the number of witnesses that must have cosigned, by default all. A key that is given twice counts once.
pub(super) fn min_witnesses(witnesses: &[String], asked: Option<usize>) -> anyhow::Result<usize> {
    let given = checkpoints::count_witnesses(witnesses).map_err(with_exit_code)?;
    let least = asked.unwrap_or(given);
    if given < least {
        let message = format!(
            "--min-witnesses {least} is more than the {given} different keys of --witness\nhint: give the key of each witness"
        );
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    Ok(least)
}

fn to_text(report: &Report) -> String {
    let mut lines = vec![match report.verdict {
        Verdict::Intact => "INTACT".to_owned(),
        Verdict::Tampered => format!("TAMPERED: {} found", report.found),
        Verdict::NotChecked => {
            "NOT CHECKED: nothing was found, but not everything could be checked".to_owned()
        }
    }];
    for finding in &report.findings {
        let of = finding.thread.map_or_else(String::new, |thread| format!("thread {thread}: "));
        lines.push(format!("  {}: {of}{}", finding.wrong, finding.what));
    }
    let more = output::and_more(report.found, report.findings.len());
    lines.extend(more.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    lines.push(format!(
        "checked: hash chains of {} events in {} threads, and their rows",
        report.events, report.threads
    ));
    lines.push(format!(
        "checked: hash chains of {} entries in {} administrative logs, and the rows of keys, holds, pins, pauses, \
         schedules and webhooks",
        report.admin.entries, report.admin.logs
    ));
    lines.extend(coverage::to_lines(&report.coverage));
    for checkpoint in &report.checkpoints {
        let signed = match checkpoint.signed {
            Some(true) => "signature valid",
            Some(false) => "NOT SIGNED by this key",
            None => "signature not checked",
        };
        lines.push(format!(
            "compared with: {}, {} heads from {}, {signed}",
            checkpoint.file, checkpoint.size, checkpoint.origin
        ));
        lines.extend(checkpoint.cosigned.iter().map(|it| {
            let at = i64::try_from(it.at).unwrap_or(i64::MAX).saturating_mul(1_000_000);
            format!("  cosigned by {} at {}", it.witness, clock::rfc3339(at))
        }));
    }
    if !report.checkpoints.is_empty() {
        lines.push(format!("attested: {} events", report.attested));
        lines.push(format!(
            "attested: {} of {} entries of administrative logs",
            report.admin.attested, report.admin.entries
        ));
        if 0 < report.beyond {
            lines.push(format!(
                "NOT ATTESTED: {} other events in {} threads; a user who can write to the database could have changed \
                 them and recomputed their hashes",
                report.events - report.attested,
                report.beyond
            ));
        }
    }
    lines.extend(report.not_checked.iter().map(|part| format!("NOT CHECKED: {}: {}", part.what, part.why)));
    lines.join("\n")
}

/// Checks an exported thread.
pub(super) fn check(ctx: &Context, folder: &Path, vkeys: &[String]) -> anyhow::Result<Exit> {
    if !folder.is_dir() {
        let message = format!("{} is no folder\nhint: turnfold audit export makes one", folder.display());
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    let Checked { verdict, what } = checkpoints::check_folder(folder, vkeys);
    let (word, exit) = match verdict {
        Verdict::Intact => ("intact", Exit::Ok),
        Verdict::Tampered => ("tampered", Exit::Finding),
        Verdict::NotChecked => ("not checked", Exit::Unchecked),
    };
    output::one(ctx.format, &json!({ "verdict": verdict, "what": what }), || format!("{word}: {what}"))?;
    Ok(exit)
}

pub(super) async fn export(
    ctx: &Context,
    store: &Store,
    thread: Option<&str>,
    proof: Option<PathBuf>,
    to: Option<PathBuf>,
) -> anyhow::Result<Exit> {
    let id = match thread {
        Some(thread) => Source::on(ctx, store)?.find(thread).await?,
        None => store::admin_log(ctx.tenant.as_deref()),
    };
    let to = to.unwrap_or_else(|| PathBuf::from(format!("proof-{id}")));
    let place = proof.as_deref().map(Place::of);
    let done = checkpoints::export(store, id, place.as_ref(), &to).await.map_err(with_exit_code)?;
    let thing = json!({ "thread": id, "folder": to, "events": done.events, "attested": done.attested });
    output::one(ctx.format, &thing, || {
        let attested = match done.attested {
            Some(events) => format!("{events} of them attested"),
            None => "none attested; add a checkpoint with --proof".to_owned(),
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

/// Adds the exit code to an error.
fn with_exit_code(error: Error) -> anyhow::Error {
    match error {
        Error::Store(error) => error.into(),
        Error::Given(words) => CliError::with_exit(Exit::Usage, words),
        Error::Damaged(words) => CliError::with_exit(Exit::Finding, words),
    }
}
