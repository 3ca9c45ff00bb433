//! A call of a strategy as a request to submit a turn.

use api_types::ErrorDetail;
use rmcp::model::JsonObject;
use serde_json::{Value, json};
use uuid::Uuid;

use super::arguments::take_wait;
use crate::{
    logs::lookup::find_thread,
    server::{
        problem::{ApiError, Kind},
        rest::{Refusal, Rest, refusal},
        state::AppState,
    },
    turns::opening::find_strategy,
};

/// Arguments that name the strategy in the REST API.
const STRATEGY_NAMES: [&str; 2] = ["strategy", "assistant_id"];

/// Name of the configuration among the arguments, and in the REST API.
const SETTINGS: (&str, &str) = ("settings", "config");

/// A request to submit a turn, and the time to wait for its end in seconds.
pub(super) struct Submission {
    /// Body for the REST API, which checks the other arguments.
    pub(super) body: Value,
    pub(super) wait: u64,
    /// True if the configuration was sent by its name among the arguments.
    has_settings: bool,
}

impl Submission {
    /// Converts the arguments of a tool.
    ///
    /// # Errors
    ///
    /// [`Kind::UnknownTool`] if the principal may run no strategy of this name.
    pub(super) async fn new(
        app: &AppState,
        rest: &Rest,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<Self, Refusal> {
        read(app, rest, tool, arguments).await.map_err(|error| refusal(&error))
    }

    /// Names the configuration as the arguments do, in an error of the REST API about it.
    pub(super) fn named(&self, mut problem: Refusal) -> Refusal {
        if self.has_settings {
            let ErrorDetail { message, param, .. } = &mut problem.error;
            [&mut problem.detail, message].into_iter().chain(param).for_each(rename_settings);
        }
        problem
    }
}

fn rename_settings(text: &mut String) {
    let (name, own) = SETTINGS;
    let rest = text.strip_prefix(own).filter(|rest| rest.is_empty() || rest.starts_with([':', '.', ' ']));
    if let Some(rest) = rest {
        *text = format!("{name}{rest}");
    }
}

async fn read(
    app: &AppState,
    rest: &Rest,
    tool: &str,
    mut arguments: JsonObject,
) -> Result<Submission, ApiError> {
    find_strategy(app, rest.principal().into(), tool, Kind::UnknownTool)?;
    if let Some(name) = STRATEGY_NAMES.into_iter().find(|name| arguments.contains_key(*name)) {
        let detail = format!("{name}: the tool {tool} is the strategy");
        return Err(Kind::Invalid.because(detail).hint("remove it").with_param(name));
    }
    let wait = take_wait(&mut arguments)?;
    arguments.retain(|_, value| !value.is_null());
    let (name, own) = SETTINGS;
    let settings = arguments.remove(name);
    let has_settings = settings.is_some();
    if let Some(settings) = settings
        && arguments.insert(own.to_owned(), settings).is_some()
    {
        let detail = format!("{name}: there is {own} too");
        return Err(Kind::Invalid.because(detail).hint("give one of them").with_param(name));
    }
    match arguments.get("thread_id") {
        None => drop(arguments.insert("strategy".to_owned(), json!(tool))),
        Some(id) => check_thread(app, rest, tool, id).await?,
    }
    Ok(Submission { body: Value::Object(arguments), wait, has_settings })
}

/// Checks that the thread to continue runs the strategy of the tool.
async fn check_thread(app: &AppState, rest: &Rest, tool: &str, id: &Value) -> Result<(), ApiError> {
    let id = id.as_str().and_then(|id| Uuid::parse_str(id).ok());
    let id = id.ok_or_else(|| Kind::Invalid.because("thread_id: it must be the id of a thread"))?;
    let strategy = find_thread(app, rest.principal(), id).await?.strategy;
    if strategy == tool {
        return Ok(());
    }
    let detail = format!("thread_id: this thread runs the strategy {strategy}");
    Err(Kind::Invalid.because(detail).hint(format!("call the tool {strategy}")))
}
