//! Formats requests and responses for people, one line each.
//!
//! `{}` shortens long text and JSON to 200 characters. `{:#}` shows JSON whole and text up to 2,000 characters, for
//! snapshots.

use std::fmt;

use serde_json::Value;

use super::{Metric, ModelParameters, Request, Response, SearchOptions, Simulation, WebSearch};
use crate::client_tools::{ToolChoice, ToolUse};
use crate::message::{Reply, ToolOutput};
use crate::prompt_name::is_template_hash;

/// Maximum number of characters of a text that `{}` shows.
const SHORT_TEXT_MAX: usize = 200;

/// Maximum number of characters of a text that `{:#}` shows.
const FULL_TEXT_MAX: usize = 2_000;

/// Formats a text on one line, in quotation marks.
pub(crate) fn quoted(text: &str, full: bool) -> String {
    let (shown, rest) = shortened(text, full);
    format!("“{}”{rest}", shown.replace('\n', " ⏎ "))
}

/// Formats JSON on one line, unshortened if `full` is set.
pub(crate) fn json(value: &Value, full: bool) -> String {
    whole_or_short(value.to_string(), full)
}

/// Formats the arguments of a call: `name: value, …` for an object.
pub(crate) fn arguments(value: &Value, full: bool) -> String {
    let text = match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", ")
        }
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => value.to_string(),
    };
    whole_or_short(text, full)
}

fn whole_or_short(text: String, full: bool) -> String {
    if full {
        return text;
    }
    let (shown, rest) = shortened(&text, full);
    format!("{shown}{rest}")
}

fn shortened(text: &str, full: bool) -> (String, String) {
    let max = if full { FULL_TEXT_MAX } else { SHORT_TEXT_MAX };
    let more = text.chars().count().saturating_sub(max);
    let rest = if more == 0 { String::new() } else { format!(" … {more} more characters") };
    (text.chars().take(max).collect(), rest)
}

fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = f.alternate();
        match self {
            Request::Chat { .. } => self.fmt_chat(f),
            Request::ListTools { server } => write!(f, "list tools of {server}"),
            Request::CallTool { server, call } => {
                write!(f, "{server}.{}({})", call.name, arguments(&call.arguments, full))
            }
            Request::ReadMore { call, .. } => {
                write!(f, "{}({})", call.name, arguments(&call.arguments, full))
            }
            Request::ListPrompts { server } => write!(f, "list prompts of {server}"),
            Request::GetPrompt { server, name, arguments } => {
                let filled: Vec<String> =
                    arguments.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
                write!(f, "get prompt {server}.{name}({})", filled.join(", "))
            }
            Request::Describe { server } => write!(f, "describe {server}"),
            Request::Search { query, limit, options } => {
                write!(f, "search index: {} · at most {limit} servers", quoted(query, full))?;
                let SearchOptions { metric, filter, min_score } = options;
                (*metric != Metric::Cosine).then(|| write!(f, " · by {metric:?}")).transpose()?;
                (!filter.is_empty()).then(|| write!(f, " · among {}", filter.join(", "))).transpose()?;
                (*min_score > 0.0).then(|| write!(f, " · score at least {min_score}")).transpose().map(drop)
            }
            Request::Index { servers, held: _ } => {
                let changed = servers.values().filter(|hash| hash.is_some()).count();
                write!(f, "update index: {} servers, {changed} new or changed", servers.len())
            }
            Request::Simulate(Simulation { wait_ms, failures, error, text }) => {
                write!(f, "simulate")?;
                (*wait_ms > 0).then(|| write!(f, " · wait {wait_ms} ms")).transpose()?;
                (*failures > 0).then(|| write!(f, " · fail {failures} times")).transpose()?;
                error.iter().try_for_each(|error| write!(f, " · fail with {error:?}"))?;
                (!text.is_empty()).then(|| write!(f, " · echo {text:?}")).transpose().map(drop)
            }
        }
    }
}

impl Request {
    fn fmt_chat(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request::Chat {
            model,
            system: _,
            context,
            summarised,
            tool_result_tokens,
            attachments_max,
            tool_servers,
            tools,
            response_schema,
            web_search,
            prompt,
            offered: _,
            parameters,
            tool_use,
        } = self
        else {
            return Ok(());
        };
        write!(f, "chat {model}")?;
        summarised.then(|| write!(f, " · summary")).transpose()?;
        match context.len() {
            0 => write!(f, " · no messages")?,
            1 => write!(f, " · message {}", context.start)?,
            _ => write!(f, " · messages {}–{}", context.start, context.end - 1)?,
        }
        tool_result_tokens
            .iter()
            .try_for_each(|tokens| write!(f, " · tool results up to {tokens} tokens"))?;
        attachments_max.iter().try_for_each(|max| write!(f, " · at most {max} images and files"))?;
        if !tool_servers.is_empty() || !tools.is_empty() {
            let of_servers = tool_servers.iter().map(|server| format!("{server}.*"));
            write!(f, " · tools {}", of_servers.chain(tools.iter().cloned()).collect::<Vec<_>>().join(", "))?;
        }
        if let Some(ToolUse { tool_choice, parallel_tool_calls }) = tool_use.as_deref() {
            match tool_choice {
                ToolChoice::Auto => (),
                ToolChoice::None => write!(f, " · no tool")?,
                ToolChoice::Required => write!(f, " · a tool is required")?,
                ToolChoice::Function(name) => write!(f, " · {name} is required")?,
            }
            (*parallel_tool_calls == Some(false)).then(|| write!(f, " · one call at a time")).transpose()?;
        }
        response_schema.iter().try_for_each(|schema| write!(f, " · answer as {schema}"))?;
        match web_search {
            WebSearch::Off => (),
            WebSearch::On => write!(f, " · web search")?,
        }
        let configured = prompt.iter().filter(|name| !is_template_hash(name));
        configured
            .into_iter()
            .try_for_each(|name| write!(f, " · prompt {}", name.get(..12).unwrap_or(name)))?;
        parameters.iter().try_for_each(|parameter| write!(f, " · {parameter}"))
    }
}

impl fmt::Display for ModelParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { temperature, max_tokens, reasoning_effort, extra } = self;
        let named = [
            temperature.map(|temperature| format!("temperature {temperature}")),
            max_tokens.map(|limit| format!("max_tokens {limit}")),
            reasoning_effort.as_ref().map(|effort| format!("reasoning_effort {effort}")),
        ];
        let extra = extra.iter().map(|(name, value)| format!("{name} {}", json(value, f.alternate())));
        write!(f, "{}", named.into_iter().flatten().chain(extra).collect::<Vec<_>>().join(" · "))
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = f.alternate();
        match self {
            Response::Reply(Reply { content, tool_calls, citations, reasoning, cut_off }) => {
                let words = (!content.is_empty() || tool_calls.is_empty()).then(|| quoted(content, full));
                let calls = tool_calls
                    .iter()
                    .map(|call| format!("{}({})", call.name, arguments(&call.arguments, full)));
                write!(f, "{}", words.into_iter().chain(calls).collect::<Vec<_>>().join(" + "))?;
                citations
                    .iter()
                    .try_for_each(|it| write!(f, " · cites {} <{}>", quoted(&it.title, full), it.url))?;
                if *cut_off {
                    write!(f, " · cut off")?;
                }
                if !reasoning.is_empty() {
                    write!(f, " · reasoning {}", quoted(reasoning, full))?;
                }
                Ok(())
            }
            Response::Tools { tools } => write!(f, "tools: {}", list(tools.iter().map(|tool| &*tool.name))),
            Response::ToolsUnchanged => write!(f, "tools unchanged"),
            Response::Output(ToolOutput::Ok(text)) => write!(f, "{}", quoted(text, full)),
            Response::Output(ToolOutput::Error(text)) => write!(f, "error {}", quoted(text, full)),
            Response::Output(ToolOutput::Refused(text)) => write!(f, "refused {}", quoted(text, full)),
            Response::OutputWithExtras { output, .. } => {
                let output = Response::Output(output.clone());
                if full { write!(f, "{output:#}") } else { write!(f, "{output}") }
            }
            Response::Working { task, .. } => write!(f, "working on task {task}"),
            Response::InputRequired { input_requests, .. } => {
                write!(f, "input required: {}", list(input_requests.keys().map(String::as_str)))
            }
            Response::Prompts { prompts } => {
                write!(f, "prompts: {}", list(prompts.iter().map(|prompt| &*prompt.name)))
            }
            Response::Prompt { messages } => {
                let texts = messages.iter().map(|message| quoted(&message.content, full));
                write!(f, "{}", texts.collect::<Vec<_>>().join(" "))
            }
            Response::Described(described) => {
                write!(f, "{} {}", described.hash, quoted(&described.text, full))
            }
            Response::SearchResults { hits, ranking } => {
                let hits: Vec<String> =
                    hits.iter().map(|hit| format!("{} {:.2}", hit.server, hit.score)).collect();
                let hits = if hits.is_empty() { "no servers found".to_owned() } else { hits.join(", ") };
                write!(f, "{hits} · ranked by {ranking}")
            }
            Response::Indexed { written, unchanged, removed } => {
                let names = |names: &[String]| list(names.iter().map(String::as_str));
                let (written, unchanged, removed) = (names(written), names(unchanged), names(removed));
                write!(f, "written: {written}; unchanged: {unchanged}; removed: {removed}")
            }
            Response::Echo { text } => write!(f, "echo {}", quoted(text, full)),
            Response::Unavailable { reason } => write!(f, "unavailable: {reason}"),
        }
    }
}
