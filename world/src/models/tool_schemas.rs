//! Forms of tools that an endpoint takes: one refused schema costs one tool, and never the turn.
//!
//! A schema that an endpoint refuses is simplified for the model, and a tool that is refused again is left out. Arguments
//! are checked against the server's whole schema in any case.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::LazyLock,
};

use regex::Regex;
use serde_json::Value;
use shared::Tool;

use super::{http_error::HttpError, plain_schema::simplified, request::tool_name};

/// Maximum changes of tools for one request.
pub(super) const MAX_CHANGES: usize = 32;

/// Maximum tools of a model whose form is remembered.
const MAX_TOOLS: usize = 1_000;

/// Form of a tool whose schema was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolForm {
    /// Offered with a simplified schema.
    Simplified,
    /// Not offered.
    LeftOut,
}

/// Name of a tool as it is sent, and the hash of its schema. A tool with another schema is tried anew.
type ToolKey = (String, u64);

/// Forms of the tools whose schemas an endpoint refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolForms(BTreeMap<ToolKey, ToolForm>);

/// A tool as it is offered to a model.
pub(super) struct OfferedTool<'a> {
    pub(super) tool: &'a Tool,
    pub(super) parameters: Cow<'a, Value>,
}

/// Words of a refusal for a schema, in lower case, where the tool is named.
const SCHEMA_WORDS: [&str; 8] =
    ["schema", "parameters", "properties", "anyof", "oneof", "allof", "items", "function_declarations"];

/// The same where no tool is named.
const TOOL_SCHEMA_WORDS: [&str; 6] = [
    "function.parameters",
    "function parameters",
    "function_declarations",
    "input_schema",
    "inputschema",
    "tool schema",
];

/// Patterns of the index of a tool, in lower case. The first that matches counts.
static INDEXES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns =
        [r"function_?declarations(?:\.|\[)(\d+)\b()", r"\btools(?:\.|\[)(\d+)(?:\]|\b)(\.member)?"];
    patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
});

/// Pattern of the name of a tool after the word for it, in lower case.
static NAMED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\b(?:functions?|tools?)(?: name)?[ .:=]+['"`]?([\w-]+)"#).ok());

impl ToolForms {
    /// Returns the tools in these forms, and the number of those that are left out.
    pub(super) fn offered<'a>(&self, tools: &'a [Tool]) -> (Vec<OfferedTool<'a>>, usize) {
        let offered = |tool: &'a Tool| match self.of(tool) {
            None => Some(OfferedTool { tool, parameters: Cow::Borrowed(&tool.parameters) }),
            Some(ToolForm::Simplified) => {
                Some(OfferedTool { tool, parameters: Cow::Owned(simplified(&tool.parameters)) })
            }
            Some(ToolForm::LeftOut) => None,
        };
        let shown: Vec<_> = tools.iter().filter_map(offered).collect();
        let omitted = tools.len() - shown.len();
        (shown, omitted)
    }

    /// Returns the forms after a refusal for the schema of a tool, and the names of tools that are left out now. `None` if
    /// the refusal is not for a schema, or nothing can be changed. `is_first` is true for the first refusal of a request:
    /// later ones simplify every schema that can be, so that many odd tools cost few requests.
    pub(super) fn after(
        &self,
        refusal: &HttpError,
        tools: &[Tool],
        is_first: bool,
    ) -> Option<(Self, Vec<String>)> {
        let message = refusal.lower_message();
        if refusal.is_about_size() || message.contains("response_format") {
            return None;
        }
        let named = if refusal.refuses(&SCHEMA_WORDS) { self.named(&message, tools) } else { Vec::new() };
        let changed = if !named.is_empty() {
            named
        } else if refusal.refuses(&TOOL_SCHEMA_WORDS) {
            self.all_odd(tools)
        } else {
            return None;
        };
        let (mut forms, mut left_out) = (self.clone(), Vec::new());
        for tool in changed {
            let form = match self.of(tool) {
                None if is_odd(tool) => ToolForm::Simplified,
                Some(ToolForm::Simplified) | None => ToolForm::LeftOut,
                Some(ToolForm::LeftOut) => continue,
            };
            if form == ToolForm::LeftOut {
                left_out.push(tool.name.clone());
            }
            forms.0.insert(key(tool), form);
        }
        if !is_first {
            for tool in tools.iter().filter(|tool| is_odd(tool)) {
                forms.0.entry(key(tool)).or_insert(ToolForm::Simplified);
            }
        }
        (forms != *self).then_some((forms, left_out))
    }

    /// Adds the forms that an endpoint took.
    pub(super) fn learn(&mut self, accepted: &Self) {
        for (tool, form) in &accepted.0 {
            if self.0.len() < MAX_TOOLS || self.0.contains_key(tool) {
                self.0.insert(tool.clone(), *form);
            }
        }
    }

    /// Returns true if every tool is offered as its server lists it.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the tools that are offered with a simplified schema, and of those that are not offered.
    pub(super) fn names(&self) -> (Vec<String>, Vec<String>) {
        let of = |wanted: ToolForm| {
            let mut names: Vec<String> = self
                .0
                .iter()
                .filter(|(_, form)| **form == wanted)
                .map(|((name, _), _)| name.clone())
                .collect();
            names.dedup();
            names
        };
        (of(ToolForm::Simplified), of(ToolForm::LeftOut))
    }

    fn of(&self, tool: &Tool) -> Option<ToolForm> {
        if self.0.is_empty() { None } else { self.0.get(&key(tool)).copied() }
    }

    /// Returns the tools that a message names: by index, by name after the word for a tool, or by name in quotes.
    fn named<'a>(&self, message: &str, tools: &'a [Tool]) -> Vec<&'a Tool> {
        let sent: Vec<&Tool> = tools.iter().filter(|tool| self.of(tool) != Some(ToolForm::LeftOut)).collect();
        let with_name =
            |name: &str| sent.iter().copied().find(|tool| tool_name(&tool.name).eq_ignore_ascii_case(name));
        let after_word: Vec<&Tool> = NAMED
            .iter()
            .flat_map(|regex| regex.captures_iter(message))
            .filter_map(|found| with_name(found.get(1)?.as_str()))
            .collect();
        if !after_word.is_empty() {
            return after_word;
        }
        let by_index = |regex: &Regex| -> Vec<&Tool> {
            let found = regex.captures_iter(message).filter_map(|found| {
                let nth: usize = found.get(1)?.as_str().parse().ok()?;
                // Members of a list are counted from one.
                let nth = if found.get(2).is_some_and(|member| !member.as_str().is_empty()) {
                    nth.checked_sub(1)?
                } else {
                    nth
                };
                sent.get(nth).copied()
            });
            found.collect()
        };
        if let Some(found) = INDEXES.iter().map(by_index).find(|found| !found.is_empty()) {
            return found;
        }
        let quoted = |tool: &&Tool| {
            let name = tool_name(&tool.name).to_lowercase();
            ['\'', '"', '`'].iter().filter_map(|quote| message.find(&format!("{quote}{name}{quote}"))).min()
        };
        let first = sent.iter().filter_map(|tool| Some((quoted(tool)?, *tool))).min_by_key(|(at, _)| *at);
        first.into_iter().map(|(_, tool)| tool).collect()
    }

    /// Returns the offered tools whose schemas can be simplified.
    fn all_odd<'a>(&self, tools: &'a [Tool]) -> Vec<&'a Tool> {
        tools.iter().filter(|tool| self.of(tool) != Some(ToolForm::LeftOut) && is_odd(tool)).collect()
    }
}

/// Returns true if the schema has a simpler form.
fn is_odd(tool: &Tool) -> bool {
    !tool.parameters.is_null() && simplified(&tool.parameters) != tool.parameters
}

fn key(tool: &Tool) -> ToolKey {
    let mut hasher = DefaultHasher::new();
    tool.parameters.to_string().hash(&mut hasher);
    (tool_name(&tool.name), hasher.finish())
}
