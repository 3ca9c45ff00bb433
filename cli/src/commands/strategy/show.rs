//! `turnfold strategy show`: the effective model, prompt and parameters of each node, and where each is set.

use api_types::{NodeSetup, PromptSetup, Setting, StrategySetup};
use serde_json::Value;
use shared::Graph;

use crate::{commands::Context, output};

pub(super) fn run(ctx: &Context, graph: &dyn Graph, prompts: bool) -> anyhow::Result<()> {
    let config = ctx.settings.strategies.get(graph.name());
    let origin = |key: &str| ctx.origins.of_either(key, "_file");
    let shown = api::strategy_setup(graph, config, &origin, prompts)?;
    output::one(ctx.format, &shown, || text(&shown))
}

/// Maximum number of characters of a prompt's first line in the table.
const LINE_MAX: usize = 60;

fn text(shown: &StrategySetup) -> String {
    let mut out = format!("{} (version {}): {}\n", shown.name, shown.version, shown.about);
    if let Some(Setting { value, origin }) = &shown.servers {
        out += &format!("servers: {value}, from {origin}\n");
    }
    let rows = shown.nodes.iter().map(row);
    out +=
        &format!("\n{}\n", output::table(&["node", "model", "from", "prompt", "from", "parameters"], rows));
    for (node, prompt) in shown.nodes.iter().filter_map(|node| Some((node, node.prompt.as_ref()?))) {
        if let Some(text) = &prompt.text {
            let PromptSetup { hash, origin, placeholders, .. } = prompt;
            let head = format!("── {}: {origin}, {hash}", node.name);
            out += &format!("\n{head}\n   placeholders: {}\n\n{}\n", placeholders.join(" "), text.trim_end());
        }
    }
    out
}

fn row(node: &NodeSetup) -> Vec<String> {
    if !node.asks_model {
        return vec![node.name.clone(), "asks no model".to_owned()];
    }
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (model, from) = node
        .model
        .as_ref()
        .map_or_else(Default::default, |model| (plain(&model.value), model.origin.clone()));
    let (prompt, prompt_from) = match &node.prompt {
        None => ("made by the node".to_owned(), "built-in".to_owned()),
        Some(PromptSetup { hash, origin, first_line, .. }) => {
            let more = if first_line.chars().nth(LINE_MAX).is_some() { "…" } else { "" };
            let line: String = first_line.chars().take(LINE_MAX).collect();
            (format!("{} {line}{more}", hash.get(..12).unwrap_or(hash)), origin.clone())
        }
    };
    let parameter = |(name, setting): (&String, &Setting)| {
        format!("{name} {} ({})", plain(&setting.value), setting.origin)
    };
    let parameters: Vec<String> = node.parameters.iter().map(parameter).collect();
    vec![node.name.clone(), model, from, prompt, prompt_from, parameters.join(", ")]
}
