//! Arguments of `turnfold whatif`.

use crate::{
    args::Selection,
    config::Sources,
    exit::{CliError, Exit},
};

#[derive(clap::Args)]
pub(crate) struct WhatIf {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Replace the prompt of a node: --prompt planner/assess=@new.md, or the text itself; repeatable
    #[arg(long, value_name = "STRATEGY/NODE=@FILE|TEXT")]
    prompt: Vec<String>,
    /// Replace the model of a node: --model planner/assess=openai/gpt-5; repeatable
    #[arg(long, value_name = "STRATEGY/NODE=MODEL")]
    model: Vec<String>,
}

impl WhatIf {
    /// Adds the prompts and models to the sources of the settings, which check them. A key may begin with the name of a strategy.
    pub(crate) fn over(&self, mut sources: Sources) -> anyhow::Result<Sources> {
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
