//! Available commands: the tools of every reachable expert, each under its full name.

use super::{
    ActionPlan,
    plan::{Payload, Plan, Step},
};
use shared::{Safety, Thread, Tool, argument_mismatch as mismatch_of};

/// Tool of an expert.
pub(super) struct Command<'a> {
    pub(super) server: &'a str,
    pub(super) tool: &'a Tool,
}

impl Command<'_> {
    /// Returns true if the command declares that it takes no arguments.
    pub(super) fn takes_nothing(&self) -> bool {
        let takes = &self.tool.parameters;
        let names_none = takes["properties"].as_object().is_some_and(serde_json::Map::is_empty);
        takes.is_null() || names_none && !takes["additionalProperties"].is_object()
    }
}

/// Maximum length of a description in a list of names, in characters.
const LINE_MAX: usize = 160;

/// Returns all available commands.
pub(super) fn at_hand(thread: &Thread<ActionPlan>) -> impl Iterator<Item = Command<'_>> {
    let answers = |server: &&String| !thread.state.unreachable.contains_key(*server);
    thread.servers.keys().filter(answers).flat_map(|server| {
        let tools = thread.server_tools.get(server).map_or(&[][..], Vec::as_slice);
        tools.iter().map(move |tool| Command { server, tool })
    })
}

/// Returns the command of this full name.
pub(super) fn find<'a>(thread: &'a Thread<ActionPlan>, name: &str) -> Option<Command<'a>> {
    at_hand(thread).find(|command| {
        name.strip_prefix(command.server).and_then(|rest| rest.strip_prefix('.')) == Some(&*command.tool.name)
    })
}

/// Returns the safety of a step's command. A command that is not listed counts as a write.
pub(super) fn safety(thread: &Thread<ActionPlan>, step: &Step) -> Safety {
    find(thread, &step.command()).map_or(Safety::Write, |command| command.tool.safety)
}

/// Returns the reason that a payload does not fit the schema of its command, if one was found.
pub(super) fn mismatch(thread: &Thread<ActionPlan>, step: &Step, payload: &Payload) -> Option<String> {
    let command = find(thread, &step.command())?;
    let why = mismatch_of(&command.tool.parameters, payload)?;
    Some(format!("as the payload of {} does not fit its schema: {why}", step.command()))
}

/// Returns the error for a model that named a command that does not exist.
pub(super) fn unknown(thread: &Thread<ActionPlan>, name: &str) -> String {
    let known: Vec<String> =
        at_hand(thread).map(|command| format!("{}.{}", command.server, command.tool.name)).collect();
    format!("there is no command called {name:?}; the commands are: {}", known.join(", "))
}

/// Lists the command names, each with the first line of its description, and the unreachable servers.
pub(super) fn names(thread: &Thread<ActionPlan>) -> String {
    let line = |command: Command<'_>| {
        let about: String =
            command.tool.description.lines().next().unwrap_or_default().chars().take(LINE_MAX).collect();
        let about = if about.is_empty() { about } else { format!(": {about}") };
        format!("- {}.{}{about}", command.server, command.tool.name)
    };
    let missing =
        thread.state.unreachable.iter().map(|(server, why)| format!("(out of reach: {server}.*, as {why})"));
    at_hand(thread).map(line).chain(missing).collect::<Vec<_>>().join("\n")
}

/// Describes in full the commands that `plan` still needs, each once.
pub(super) fn details(thread: &Thread<ActionPlan>, plan: Option<&Plan>) -> String {
    let steps = plan.map_or(&[][..], |plan| &plan.steps);
    let needed = |command: &Command<'_>| {
        steps.iter().any(|step| step.server == command.server && step.tool == command.tool.name)
    };
    let told: Vec<String> = at_hand(thread).filter(needed).map(|command| detail(&command)).collect();
    if told.is_empty() { "none".to_owned() } else { told.join("\n") }
}

/// Describes one command in full.
pub(super) fn detail(Command { server, tool }: &Command<'_>) -> String {
    let Tool { name, description, parameters, .. } = tool;
    let about = if description.is_empty() { String::new() } else { format!(": {description}") };
    let takes = if parameters.is_null() { "{}".to_owned() } else { parameters.to_string() };
    format!("- {server}.{name}{about}\n  takes {takes}")
}

#[test]
fn a_command_takes_nothing_only_if_it_says_so() {
    let takes_nothing = |parameters: serde_json::Value| {
        let tool = Tool { parameters, ..serde_json::from_str(r#"{"name":"ping","safety":"read"}"#).unwrap() };
        Command { server: "contacts", tool: &tool }.takes_nothing()
    };
    let takes = |schema: &str| takes_nothing(serde_json::from_str(schema).unwrap());
    assert!(takes("null") && takes(r#"{"type":"object","properties":{}}"#));
    assert!(!takes(r#"{"type":"object","properties":{"name":{"type":"string"}}}"#));
    assert!(!takes(r#"{"type":"object"}"#) && !takes("{}") && !takes("true"));
    assert!(!takes(r#"{"properties":{},"additionalProperties":{"type":"string"}}"#));
}
