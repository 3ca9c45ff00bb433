//! Arguments of `turnfold whatif`.

use std::path::PathBuf;

use audit::whatif::Limit;
use serde::{Deserialize, Serialize};

use crate::{
    args::{JudgeArgs, Replayed, Selection},
    config::Sources,
    exit::{CliError, Exit},
};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WhatIf {
    #[command(subcommand)]
    pub(crate) command: Option<WhatIfCommand>,
    #[command(flatten)]
    pub(crate) question: Question,
    /// Replay with this binary of turnfold, and compare with this one, which changes nothing itself
    #[arg(long, value_name = "PATH", conflicts_with_all = ["prompt", "model"])]
    pub(crate) build: Option<PathBuf>,
    /// Also write the report to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Also write the report to this file, as SARIF 2.1.0
    #[arg(long, value_name = "FILE")]
    pub(crate) sarif: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
pub(crate) enum WhatIfCommand {
    /// Run the threads that would go differently, from their first difference on
    ///
    /// Asks the models of the configuration; what was recorded before the difference is not asked again. Tools answer from the
    /// record. Nothing is written: a thread that needs a call which the record does not answer is not decided. The threads of
    /// the run are in a database of their own, in --to or .turnfold/whatif/NAME, and are deleted with that folder. Shows a quote
    /// and asks for confirmation first. Ctrl-C pauses the run, and the same command continues it; a request whose answer is
    /// stored is not sent again. With --judge or --judge-program, a judge compares each answer that changed with the recorded one,
    /// once in each order, and does not know which is which. Exits with 1 if a limit of --fail-if is exceeded, with 5 if the run was
    /// stopped by --max-usd, and with 6 if a thread is not decided or not judged, or if no thread matched.
    Run(Box<Run>),
    /// Freeze threads in a file, so that later replays read the same logs
    ///
    /// The file has the id of each thread, the number of its events and the hash of the last one, and none of its words. Commit
    /// it beside your tests: `whatif`, `whatif run` and `audit replay` read it with --cohort. Turns that follow later change
    /// nothing. Exits with 6 if no thread matched.
    Cohort(Cohort),
}

#[derive(clap::Args)]
pub(crate) struct Cohort {
    /// File to write, or to read with --check
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) threads: Selection,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Only compare the threads of the file with the store; exits with 1 if one is gone or differs
    #[arg(long, conflicts_with_all = ["thread", "filter", "since", "force"])]
    pub(crate) check: bool,
}

/// Threads and changes.
#[derive(clap::Args)]
pub(crate) struct Question {
    #[command(flatten)]
    pub(crate) selection: Replayed,
    /// Replace the prompt of a node: --prompt planner/assess=@new.md, or the text itself; repeatable
    #[arg(long, value_name = "STRATEGY/NODE=@FILE|TEXT")]
    prompt: Vec<String>,
    /// Replace the model of a node: --model planner/assess=openai/gpt-5; repeatable
    #[arg(long, value_name = "STRATEGY/NODE=MODEL")]
    model: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) question: Question,
    /// Calls of tools: from the record only, reads that are not in the record live, or none
    #[arg(long, value_enum, value_name = "POLICY", default_value_t)]
    pub(crate) tools: ToolPolicy,
    /// Stop at this cost in US dollars, that of a judge included; requests under way still finish
    #[arg(long, value_name = "USD", value_parser = usd)]
    pub(crate) max_usd: Option<f64>,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
    /// Run without asking for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Exit with 1 if more threads than this differ: 'worse > 2%', 'not_decided > 5'; repeatable. Measures: worse, outcome, route,
    /// answer, not_decided, and of a judge judged_worse, judged_inconsistent, not_judged
    #[arg(long, value_name = "LIMIT")]
    pub(crate) fail_if: Vec<Limit>,
    /// Also write the report to this file, as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Also write the limits of --fail-if and the threads that are not decided to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Run the threads with this binary of turnfold, from the first difference between it and this one on
    #[arg(long, value_name = "PATH", conflicts_with_all = ["prompt", "model"])]
    pub(crate) build: Option<PathBuf>,
    /// Another build planned the run, and started this one
    #[arg(long, hide = true, requires = "resume")]
    pub(crate) handed_over: bool,
    /// Folder of the run [default: .turnfold/whatif/NAME]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: Option<PathBuf>,
    /// Continue the run with this name or folder, whose threads and changes are known
    #[arg(long, value_name = "NAME|FOLDER", conflicts_with_all = ["to", "tools", "build", "prompt", "model", "thread", "filter", "since", "cohort"])]
    pub(crate) resume: Option<PathBuf>,
}

/// Treatment of calls of tools in a what-if run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToolPolicy {
    /// The record answers a call that was made with the same arguments
    #[default]
    Recorded,
    /// As recorded, and other calls of tools that only read are sent
    LiveReads,
    /// No call is answered
    Never,
}

/// Parses a positive amount of US dollars.
pub(super) fn usd(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(usd) if usd.is_finite() && 0.0 < usd => Ok(usd),
        Ok(_) | Err(_) => Err("expected a positive number, such as 2.50".to_owned()),
    }
}

impl WhatIf {
    /// Adds the prompts and models to the sources of the settings, which check them. A key may begin with the name of a strategy.
    pub(crate) fn over(&self, sources: Sources) -> anyhow::Result<Sources> {
        match &self.command {
            Some(WhatIfCommand::Run(run)) => run.question.over(sources),
            Some(WhatIfCommand::Cohort(_)) => Ok(sources),
            None => self.question.over(sources),
        }
    }
}

impl Question {
    fn over(&self, mut sources: Sources) -> anyhow::Result<Sources> {
        let names: Vec<&str> = sources.strategies.iter().map(|strategy| strategy.name()).collect();
        for (key, _) in sources.flags.iter_mut().filter_map(|flag| flag.sets.as_mut()) {
            if key.split_once('.').is_some_and(|(first, _)| names.contains(&first)) {
                *key = format!("strategies.{key}");
            }
        }
        for text in &self.prompt {
            let (node, value) = at_node("--prompt", text)?;
            sources = match value.strip_prefix('@') {
                Some(file) => sources.flag("--prompt", &format!("{node}.prompt_file"), file),
                None => sources.flag("--prompt", &format!("{node}.prompt"), value),
            };
        }
        for text in &self.model {
            let (node, value) = at_node("--model", text)?;
            sources = sources.flag("--model", &format!("{node}.model"), value);
        }
        Ok(sources)
    }
}

/// Returns the section of the node that a flag names, and the flag's value.
fn at_node<'a>(flag: &str, text: &'a str) -> anyhow::Result<(String, &'a str)> {
    let named = text.split_once('=').and_then(|(place, value)| Some((place.split_once('/')?, value)));
    let Some(((strategy, node), value)) = named else {
        let message = format!(
            "{flag} {text:?} names no node\nhint: {flag} STRATEGY/NODE=VALUE; `turnfold strategy show NAME` lists the nodes"
        );
        return Err(CliError::with_exit(Exit::Usage, message));
    };
    Ok((format!("strategies.{strategy}.nodes.{node}"), value))
}
