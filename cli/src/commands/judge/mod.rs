//! A judge of answers, as the flags name it, and its questions, each a thread of its own.

mod program;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use audit::{
    judge::{Judge as Strategy, Opinion, Task},
    whatif::Prices,
};
use queue::clock;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shared::{
    Budget, ContextSettings, Event, FORMAT, Message, Opened, Strategy as _, TurnKind, TurnStarted, Usage,
    estimated_tokens,
};
use store::ThreadId;
use threads::ImportedEvent;
use uuid::{Builder, Variant, Version};

pub(super) use self::program::Program;
use crate::{
    args::JudgeArgs,
    config::Settings,
    exit::{CliError, Exit},
    suggest,
};

/// Maximum length of a rubric, in bytes.
const RUBRIC_MAX: u64 = 64 * 1024;

/// Tokens of a verdict, in quotes.
const VERDICT_TOKENS: u64 = 50;

/// Author of the questions.
const ACTOR: &str = "judge";

/// Judge of a command: a model with a rubric, or a program.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    pub(super) by: By,
    /// Arguments that name it again.
    pub(super) flags: Vec<String>,
    context: ContextSettings,
}

/// Part of a judge that its verdicts depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum By {
    /// A model, with its rubric.
    Model { model: String, rubric: String },
    /// A program.
    Program(Program),
}

impl Judge {
    /// Reads the judge that the flags name, if they name one. Fails if it could answer nothing.
    pub(super) fn of(args: &JudgeArgs, settings: &Settings) -> anyhow::Result<Option<Self>> {
        let (by, flags) = match args {
            JudgeArgs { judge: Some(rubric), judge_model: Some(model), .. } => {
                check_model(model, settings)?;
                let flags = ["--judge", &shown(rubric), "--judge-model", model].map(str::to_owned);
                (By::Model { model: model.clone(), rubric: read_rubric(rubric)? }, flags.to_vec())
            }
            JudgeArgs { judge_program: Some(path), .. } => {
                let flags = ["--judge-program", &shown(path)].map(str::to_owned);
                (By::Program(find_program(path)?), flags.to_vec())
            }
            JudgeArgs { .. } => return Ok(None),
        };
        Ok(Some(Self { by, flags, context: settings.context.clone() }))
    }

    /// Name in reports.
    pub(super) fn name(&self) -> String {
        match &self.by {
            By::Model { model, .. } => model.clone(),
            By::Program(program) => program.path().display().to_string(),
        }
    }

    /// Identity of the judge: another rubric, model or program is another judge.
    pub(super) fn id(&self) -> String {
        hex::encode(Sha256::digest(json!(self.by).to_string()))
    }

    /// Cost of a question whose content has this number of tokens, in US dollars. `None` if its model has no price.
    pub(super) fn price(&self, content_tokens: u64, prices: &Prices) -> Option<f64> {
        let By::Model { model, rubric } = &self.by else { return Some(0.0) };
        let instructions = Strategy::PROMPTS.first().map_or(0, |prompt| estimated_tokens(prompt));
        let input_tokens = instructions + estimated_tokens(rubric) + content_tokens;
        let usage = Usage { input_tokens, output_tokens: VERDICT_TOKENS, ..Usage::default() };
        prices(model, &usage).map(shared::usd)
    }

    /// Returns true if a question with this configuration is one to this judge.
    pub(super) fn is_asked_by(&self, question: &Value) -> bool {
        let (model, rubric) = match &self.by {
            By::Model { model, rubric } => (model.clone(), rubric.as_str()),
            By::Program(program) => (program.model(), ""),
        };
        question["model"] == model && question["rubric"] == rubric
    }

    fn config(&self, task: Task) -> Value {
        match &self.by {
            By::Model { model, rubric } => json!({"model": model, "rubric": rubric, "task": task}),
            By::Program(program) => json!({"model": program.model(), "task": task}),
        }
    }

    /// Id of the thread of a question: the same for the same question about the same thread.
    pub(super) fn question(&self, thread: ThreadId, content: &str) -> ThreadId {
        let hash = Sha256::digest(json!([self.id(), thread, content]).to_string());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        // Beside the thread in the order of ids.
        bytes[..6].copy_from_slice(&thread.as_bytes()[..6]);
        Builder::from_bytes(bytes).with_version(Version::SortRand).with_variant(Variant::RFC4122).into_uuid()
    }

    /// Returns the log of a question that is to be asked.
    pub(super) fn opening(
        &self,
        id: ThreadId,
        task: Task,
        tenant: &str,
        content: String,
    ) -> Result<Vec<ImportedEvent>, serde_json::Error> {
        let now = clock::now();
        let opened = Opened {
            format: FORMAT,
            strategy: Strategy::NAME.to_owned(),
            version: Strategy::VERSION,
            config: self.config(task),
            servers: BTreeMap::new(),
            budget: Budget::default(),
            context: self.context.clone(),
            actor: ACTOR.to_owned(),
            tenant: tenant.to_owned(),
            caller: None,
        };
        let started = TurnStarted {
            turn: id,
            actor: ACTOR.to_owned(),
            time: clock::rfc3339(now),
            kind: TurnKind::New,
            messages: vec![Message::user(content)],
            caller: None,
            forgotten_models: Vec::new(),
            reply_options: None,
            toolbox: None,
            history_hash: None,
            priority: None,
            metadata: None,
            build: None,
        };
        let events = [Event::from(opened), Event::from(started)];
        let imported = |event: Event| {
            Ok(ImportedEvent { at: now, kind: event.kind().to_owned(), payload: event.payload()? })
        };
        events.into_iter().map(imported).collect()
    }
}

/// Asks a program, and checks that it answers with a verdict.
pub(super) async fn ask_program<T: DeserializeOwned>(
    program: &Program,
    question: &str,
) -> Result<String, String> {
    let printed = program.ask(question).await?;
    Opinion::<T>::parse(&printed)
        .map_err(|error| format!("the judge program printed no verdict: {error}"))
        .map(|_| printed)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn usage(message: String) -> anyhow::Error {
    CliError::with_exit(Exit::Usage, message)
}

fn check_model(model: &str, settings: &Settings) -> anyhow::Result<()> {
    match model.split_once('/') {
        Some((provider, name)) if !name.is_empty() => {
            if settings.providers.contains_key(provider) {
                return Ok(());
            }
            let known: Vec<&str> = settings.providers.keys().map(String::as_str).collect();
            Err(usage(format!("--judge-model {model:?}: {}", suggest::unknown("provider", provider, &known))))
        }
        Some(_) | None => {
            let hint = "write it as PROVIDER/MODEL, with a provider of your configuration";
            Err(usage(format!("--judge-model {model:?} names no model\nhint: {hint}")))
        }
    }
}

fn read_rubric(file: &Path) -> anyhow::Result<String> {
    let failed = |why: String| {
        let hint = "a rubric is a text by which answers are judged, such as: A good answer names a day.";
        usage(format!("--judge {}: {why}\nhint: {hint}", file.display()))
    };
    let mut text = String::new();
    let read = File::open(file).and_then(|open| open.take(RUBRIC_MAX + 1).read_to_string(&mut text));
    if RUBRIC_MAX < read.map_err(|error| failed(error.to_string()))? as u64 {
        return Err(failed(format!("it has more than {RUBRIC_MAX} bytes")));
    }
    match text.trim() {
        "" => Err(failed("it is empty".to_owned())),
        rubric => Ok(rubric.to_owned()),
    }
}

fn find_program(path: &Path) -> anyhow::Result<Program> {
    Program::find(path).map_err(|error: io::Error| {
        let hint = "it must be an executable file that reads JSON and prints {\"verdict\": …, \"reason\": …}";
        usage(format!("--judge-program {}: {error}\nhint: {hint}", path.display()))
    })
}
