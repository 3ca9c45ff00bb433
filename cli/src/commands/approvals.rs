//! `turnfold audit approvals`: who approved which payload, shown when, under which key, and what was executed.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use audit::approvals::{Answer, Approval, ApprovalReader, Call};
use serde_json::Value;
use store::{Error, Reader, Recorded, Store, ThreadId};
use threads::StrategyRegistry;

use super::{
    Context,
    selection::{select_visible, spinner},
};
use crate::{
    args::Approvals,
    exit::{CliError, Exit},
    output::{self, counted},
};

/// Maximum number of approvals in a report.
const LISTED_MAX: usize = 100_000;

/// Maximum characters of a question, payload or result in text.
const TEXT_MAX: usize = 200;

const CSV_COLUMNS: [&str; 21] = [
    "thread",
    "tenant",
    "strategy",
    "batch",
    "event",
    "shown_at",
    "question",
    "copied",
    "approved",
    "answered_at",
    "person",
    "key",
    "subject",
    "answer",
    "server",
    "tool",
    "payload",
    "attempted_at",
    "ended_at",
    "ending",
    "result",
];

/// Approvals and logs that could not be read, of all ranges of threads.
#[derive(Default)]
struct Report {
    approvals: Vec<Approval>,
    more: usize,
    not_read: Vec<(ThreadId, String)>,
}

/// Reads the logs of one range of threads.
struct Collector {
    store: Store,
    strategies: Arc<StrategyRegistry>,
    report: Arc<Mutex<Report>>,
    /// Only approvals of this person, if given.
    person: Option<String>,
    /// Only approvals in threads of this batch, if given.
    batch: Option<store::batches::BatchId>,
    log: Option<(ThreadId, Result<ApprovalReader, String>)>,
    found: Vec<Approval>,
    not_read: Vec<(ThreadId, String)>,
}

pub(super) async fn run(ctx: &Context, store: &Store, command: Approvals) -> anyhow::Result<Exit> {
    let Approvals { selection, person, batch, csv } = command;
    if csv && ctx.format != output::Format::Text {
        return Err(CliError::with_exit(
            Exit::Usage,
            "--csv cannot be combined with -o json\nhint: leave one of them out",
        ));
    }
    let spinner = spinner()?;
    let round = select_visible(ctx, store, selection, &spinner).await?;
    let report = Arc::new(Mutex::new(Report::default()));
    let (shared, strategies) = ((store.clone(), Arc::clone(&report)), Arc::new(ctx.strategies.clone()));
    let make = move || Collector {
        store: shared.0.clone(),
        strategies: Arc::clone(&strategies),
        report: Arc::clone(&shared.1),
        person: person.clone(),
        batch,
        log: None,
        found: Vec::new(),
        not_read: Vec::new(),
    };
    drop(store.read_logs(&round, make).await?);
    spinner.finish_and_clear();
    let Report { mut approvals, more, mut not_read } =
        mem::take(&mut *report.lock().unwrap_or_else(PoisonError::into_inner));
    approvals.sort_by_key(|approval| (approval.thread, approval.event));
    not_read.sort();
    if csv {
        output::print(&to_csv(&approvals))?;
    } else {
        output::many(ctx.format, &approvals, || to_text(&approvals, more, &not_read))?;
    }
    if ctx.format != output::Format::Text || csv {
        if 0 < more {
            output::note(&not_listed(more));
        }
        not_read.iter().for_each(|(thread, why)| output::note(&format!("not read: thread {thread}: {why}")));
    }
    Ok(if not_read.is_empty() && more == 0 { Exit::Ok } else { Exit::Unchecked })
}

impl Reader for Collector {
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>) {
        if self.log.as_ref().is_none_or(|(log, _)| *log != thread) {
            self.end();
            let reader = match &event {
                Ok(first) => ApprovalReader::begin(&self.strategies, thread, &first.event),
                Err(error) => Err(error.to_string()),
            };
            self.log = Some((thread, reader));
        }
        let Some((_, reader)) = &mut self.log else { return };
        let read = match (reader.as_mut(), event) {
            (Ok(reader), Ok(recorded)) => reader.read(&recorded),
            (Ok(_), Err(error)) => Err(error.to_string()),
            (Err(_), _) => Ok(()),
        };
        if let Err(why) = read {
            *reader = Err(why);
        }
    }

    async fn pause(&mut self) -> Result<(), Error> {
        self.end();
        let (person, batch) = (self.person.as_ref(), self.batch);
        self.found.retain(|approval| person.is_none_or(|name| is_by(approval, name)));
        for approval in &mut self.found {
            approval.batch = self.store.batch_of(approval.thread).await?;
        }
        self.found.retain(|approval| batch.is_none_or(|batch| approval.batch == Some(batch)));
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        let free = LISTED_MAX.saturating_sub(report.approvals.len()).min(self.found.len());
        report.more += self.found.len() - free;
        report.approvals.extend(self.found.drain(..).take(free));
        report.not_read.append(&mut self.not_read);
        Ok(())
    }
}

impl Collector {
    fn end(&mut self) {
        match self.log.take() {
            Some((_, Ok(reader))) => self.found.extend(reader.end()),
            Some((thread, Err(why))) => self.not_read.push((thread, why)),
            None => {}
        }
    }
}

/// Returns true if this person, or this subject of a key, gave the answer.
fn is_by(approval: &Approval, name: &str) -> bool {
    let by = approval.answer.as_ref();
    by.is_some_and(|answer| answer.person == name || answer.subject.as_deref() == Some(name))
}

fn not_listed(more: usize) -> String {
    format!("NOT LISTED: {more} more; hint: select fewer threads with --where or --since")
}

fn to_text(approvals: &[Approval], more: usize, not_read: &[(ThreadId, String)]) -> String {
    let mut lines = vec![counted(approvals.len(), "approval")];
    lines.extend(approvals.iter().flat_map(approval_lines));
    if 0 < more {
        lines.push(not_listed(more));
    }
    lines.extend(not_read.iter().map(|(thread, why)| format!("NOT READ: thread {thread}: {why}")));
    lines.join("\n")
}

fn approval_lines(approval: &Approval) -> Vec<String> {
    let Approval { thread, tenant, strategy, batch, event, shown_at, question, copied, answer, calls } =
        approval;
    let batch = batch.map_or_else(String::new, |batch| format!(", batch {batch}"));
    let copied = if *copied { ", copied by a fork" } else { "" };
    let mut lines = vec![
        String::new(),
        format!("thread {thread}, event {event} ({strategy}, tenant {tenant}{batch}{copied})"),
        format!("  shown     {shown_at}  {}", shortened(question)),
        match answer {
            None => "  answered  by no person".to_owned(),
            Some(answer) => answer_line(answer),
        },
    ];
    for Call { server, tool, arguments, executions } in calls {
        let payload =
            arguments.as_ref().map_or_else(|| "payload filled in later".to_owned(), Value::to_string);
        lines.push(format!("  payload   {server}.{tool} {}", shortened(&payload)));
        if executions.is_empty() {
            lines.push("    not executed".to_owned());
        }
        for execution in executions {
            let sent = match arguments {
                Some(_) => String::new(),
                None => format!(" with {}", shortened(&execution.arguments.to_string())),
            };
            let at = execution.ended_at.as_deref().or(execution.attempted_at.as_deref()).unwrap_or("not yet");
            let (event, ending) = (execution.event, execution.ending.name());
            lines.push(format!("    {ending}  {at}, event {event}{sent}  {}", shortened(&execution.result)));
        }
    }
    lines
}

fn answer_line(Answer { event, at, person, key, subject, text, approved }: &Answer) -> String {
    let verb = if *approved { "approved" } else { "answered" };
    let person = if person.is_empty() { "an unnamed person".to_owned() } else { format!("{person:?}") };
    let key = match (key, subject) {
        (Some(key), Some(subject)) => format!("key {key} ({subject})"),
        (Some(name), None) | (None, Some(name)) => format!("key {name}"),
        (None, None) => "no key".to_owned(),
    };
    format!("  {verb}  {at}  by {person} under {key}, event {event}: {}", shortened(text))
}

/// Returns the text in one line, cut off at [`TEXT_MAX`] characters.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Returns one line for each execution, and one for each call or question without any.
fn to_csv(approvals: &[Approval]) -> String {
    let mut lines = vec![CSV_COLUMNS.join(",")];
    for approval in approvals {
        let mut calls: Vec<[String; 7]> = approval.calls.iter().flat_map(call_cells).collect();
        if calls.is_empty() {
            calls.push(Default::default());
        }
        lines.extend(calls.into_iter().map(|call| {
            let cells = approval_cells(approval).into_iter().chain(call);
            cells.map(|text| cell(&text)).collect::<Vec<_>>().join(",")
        }));
    }
    lines.join("\n")
}

fn approval_cells(approval: &Approval) -> [String; 14] {
    let answer = |of: fn(&Answer) -> String| approval.answer.as_ref().map(of).unwrap_or_default();
    [
        approval.thread.to_string(),
        approval.tenant.clone(),
        approval.strategy.clone(),
        approval.batch.map(|batch| batch.to_string()).unwrap_or_default(),
        approval.event.to_string(),
        approval.shown_at.clone(),
        approval.question.clone(),
        approval.copied.to_string(),
        answer(|answer| answer.approved.to_string()),
        answer(|answer| answer.at.clone()),
        answer(|answer| answer.person.clone()),
        answer(|answer| answer.key.clone().unwrap_or_default()),
        answer(|answer| answer.subject.clone().unwrap_or_default()),
        answer(|answer| answer.text.clone()),
    ]
}

fn call_cells(call: &Call) -> Vec<[String; 7]> {
    let shown = call.arguments.as_ref().map(Value::to_string);
    let of = |payload: String, rest: [String; 4]| {
        let [attempted_at, ended_at, ending, result] = rest;
        [call.server.clone(), call.tool.clone(), payload, attempted_at, ended_at, ending, result]
    };
    if call.executions.is_empty() {
        return vec![of(shown.unwrap_or_default(), Default::default())];
    }
    let row = |execution: &audit::approvals::Execution| {
        let payload = execution.arguments.to_string();
        let time = |time: &Option<String>| time.clone().unwrap_or_default();
        of(
            payload,
            [
                time(&execution.attempted_at),
                time(&execution.ended_at),
                execution.ending.name().to_owned(),
                execution.result.clone(),
            ],
        )
    };
    call.executions.iter().map(row).collect()
}

/// Quotes a cell. An apostrophe before a sign keeps spreadsheets from reading it as a formula.
fn cell(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}
