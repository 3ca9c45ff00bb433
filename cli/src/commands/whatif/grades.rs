//! `turnfold audit judge`: grades the last replies of recorded threads. Each question is a thread in a database of its own.

use std::path::Path;

use audit::{
    judge::{Grade, Opinion, Task},
    whatif::{Changes, LastReplies, LastReply, Verdict, interval, last_replies},
};
use serde::Serialize;
use serde_json::json;
use shared::estimated_tokens;
use store::{Error, Store, ThreadId};

use super::{
    drive::{Ended, drive, take_up},
    engine::Engine,
    judged::Asked,
    lanes::Lanes,
    offline::configured_prices,
    plan::Folder,
    planned::confirmed,
};
use crate::{
    args::{AuditJudge, ToolPolicy},
    commands::{
        Context,
        judge::Judge,
        selection::{select_visible, spinner},
    },
    exit::{CliError, Exit},
    output::{self, counted, note},
};

/// Maximum number of threads that the text lists.
const LISTED: usize = 20;

/// One question: a thread, its tenant, and the JSON that the judge gets.
type Question = (ThreadId, String, String);

/// Grade of the last reply of a thread.
#[derive(Serialize)]
struct Graded {
    thread: ThreadId,
    #[serde(flatten)]
    opinion: Option<Opinion<Grade>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_judged: Option<String>,
    #[serde(skip)]
    spent: (u64, f64),
}

pub(in crate::commands) async fn grade(ctx: &Context, args: AuditJudge) -> anyhow::Result<Exit> {
    let AuditJudge { selection, judge, limit, max_usd, yes, to } = args;
    let Some(judge) = Judge::of(&judge, &ctx.settings)? else {
        let message =
            "no judge is given\nhint: --judge FILE --judge-model PROVIDER/MODEL, or --judge-program FILE";
        return Err(CliError::with_exit(Exit::Usage, message));
    };
    let recorded = ctx.store().await?;
    let spinner = spinner()?;
    let round = select_visible(ctx, &recorded, selection, &spinner).await?;
    let limit = usize::try_from(limit)?;
    let mut found = last_replies(&recorded, &ctx.strategies, &round, limit).await?;
    spinner.finish_and_clear();
    let questions = questions(std::mem::take(&mut found.replies))?;
    if !questions.is_empty() {
        note(&quote(ctx, &judge, &questions));
        confirmed(&format!("judge {}?", counted(questions.len(), "answer")), yes)?;
    }
    let folder = Folder::of_judge(to.as_deref(), &judge, &recorded.identity().await?);
    folder.write_judge(&judge)?;
    let ended = ask(ctx, &judge, &recorded, &folder, (questions, max_usd)).await?;
    let graded = match ended {
        Ended::All(graded) => graded,
        Ended::Early { exit, why, done } => {
            let done = counted(done, "answer");
            let command = match exit == Exit::Partial {
                true => "continue with a higher --max-usd; nothing is asked again whose answer is stored",
                false => "the same command continues, and asks nothing again whose answer is stored",
            };
            note(&format!("paused: {why}; {done} judged\nhint: {command}"));
            return Ok(exit);
        }
    };
    report(ctx, &judge, folder.path(), &found, graded)
}

fn questions(
    replies: impl IntoIterator<Item = (ThreadId, LastReply)>,
) -> Result<Vec<Question>, serde_json::Error> {
    let question = |(thread, LastReply { tenant, single }): (ThreadId, LastReply)| {
        Ok((thread, tenant, serde_json::to_string(&single)?))
    };
    replies.into_iter().map(question).collect()
}

fn quote(ctx: &Context, judge: &Judge, questions: &[Question]) -> String {
    let prices = configured_prices(ctx);
    let price = |(_, _, content): &Question| judge.price(estimated_tokens(content), &prices);
    let all = format!("judge: at most {} to {}", counted(questions.len(), "question"), judge.name());
    match questions.iter().map(price).sum::<Option<f64>>() {
        Some(usd) => format!("{all}, about ${usd:.4}"),
        None => format!("{all}, without a known price"),
    }
}

async fn ask(
    ctx: &Context,
    judge: &Judge,
    recorded: &Store,
    folder: &Folder,
    (questions, max_usd): (Vec<Question>, Option<f64>),
) -> anyhow::Result<Ended<Graded>> {
    let mut engine = Engine::open(ctx, folder, recorded, ToolPolicy::Never, max_usd, Some(judge)).await?;
    let lanes = Lanes {
        recorded: recorded.clone(),
        parts: engine.parts.clone(),
        strategies: engine.strategies.clone(),
        world: engine.world.clone(),
        changes: Changes::default(),
        heads: None,
        prices: configured_prices(ctx),
        judge: None,
    };
    take_up(&lanes, &[]).await?;
    let grade = |(thread, tenant, content): Question| {
        let lanes = &lanes;
        async move {
            let asked = Asked { thread, tenant: &tenant, task: Task::Grade, content };
            let Verdict { opinion, requests, usd } = lanes.ask::<Grade>(judge, asked).await?;
            let (opinion, not_judged) = match opinion {
                Ok(opinion) => (Some(opinion), None),
                Err(why) => (None, Some(why)),
            };
            Ok::<_, Error>(Graded { thread, opinion, not_judged, spent: (requests, usd) })
        }
    };
    let ended = drive(&mut engine, questions, grade).await;
    engine.end().await?;
    ended
}

fn report(
    ctx: &Context,
    judge: &Judge,
    folder: &Path,
    found: &LastReplies,
    mut graded: Vec<Graded>,
) -> anyhow::Result<Exit> {
    graded.sort_by_key(|graded| graded.thread);
    let of = |grade| {
        let is_of =
            |graded: &&Graded| graded.opinion.as_ref().is_some_and(|opinion| opinion.verdict == grade);
        graded.iter().filter(is_of).count() as u64
    };
    let (pass, fail, unsure) = (of(Grade::Pass), of(Grade::Fail), of(Grade::Unsure));
    let (judged, all) = (pass + fail + unsure, graded.len() as u64);
    let requests: u64 = graded.iter().map(|graded| graded.spent.0).sum();
    let usd: f64 = graded.iter().map(|graded| graded.spent.1).sum();
    let LastReplies { without, unreadable, older, .. } = found;
    let thing = json!({
        "judge": judge.name(), "judged": judged, "pass": pass, "fail": fail, "unsure": unsure,
        "fail_percent_95": interval(fail, judged), "not_judged": all - judged, "without_reply": without,
        "unreadable": unreadable, "older": older, "requests": requests, "spent_usd": usd, "folder": folder,
        "threads": &graded,
    });
    output::one(ctx.format, &thing, || {
        let likely = interval(fail, judged)
            .map(|[low, high]| format!(" ({low:.1} to {high:.1} % of such threads, at 95 %)"));
        let mut text = format!(
            "{} judged by {}: {pass} pass, {fail} fail{}, {unsure} unsure",
            counted(judged, "answer"),
            judge.name(),
            likely.unwrap_or_default()
        );
        for (count, why) in [
            (all - judged, "not judged"),
            (*without, "without a reply"),
            (*unreadable, "not readable"),
            (*older, "older, beyond --limit"),
        ] {
            if 0 < count {
                text += &format!("\n{} {why}", counted(count, "thread"));
            }
        }
        text += &listed(&graded);
        text + &format!(
            "\n{} to the judge, ${usd:.4}; the questions are in {}",
            counted(requests, "request"),
            folder.display()
        )
    })?;
    Ok(if judged == all && 0 < all && *unreadable == 0 { Exit::Ok } else { Exit::Unchecked })
}

/// The replies that do not pass, each with the reason.
fn listed(graded: &[Graded]) -> String {
    let words = |Graded { thread, opinion, not_judged, .. }: &Graded| {
        let (grade, why) = match (opinion, not_judged) {
            (Some(Opinion { verdict: Grade::Pass, .. }), _) | (None, None) => return None,
            (Some(Opinion { verdict: Grade::Fail, reason }), _) => ("fail", reason),
            (Some(Opinion { verdict: Grade::Unsure, reason }), _) => ("unsure", reason),
            (None, Some(why)) => ("not judged", why),
        };
        Some(format!("\n  {grade:<10} {thread}: {why}"))
    };
    let lines: Vec<String> = graded.iter().filter_map(words).collect();
    lines.iter().take(LISTED).cloned().collect::<String>()
        + &output::and_more(lines.len(), lines.len().min(LISTED))
}
