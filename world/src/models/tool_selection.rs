//! Selects the tools a model is shown, where an endpoint does not take all.

use std::collections::{BTreeMap, BTreeSet};

use shared::Tool;

use crate::words::stems;

/// Maximum tools of one request.
const MAX_TOOLS: usize = 128;

/// Reduces the tools to what a request may offer, and returns the number of tools removed.
///
/// The first `own` tools always stay. Of the others, those that share the most words with `query` stay; ties keep their
/// order.
///
/// ## Why
///
/// `OpenAI` rejects a request with more than 128 tools, and the turn would fail; and no model chooses well among
/// hundreds. A word counts less the more tools contain it: a word of every description distinguishes nothing.
pub(super) fn fit(tools: &mut Vec<Tool>, own: usize, query: [&str; 2]) -> usize {
    if tools.len() <= MAX_TOOLS {
        return 0;
    }
    let query: BTreeSet<String> = query.into_iter().flat_map(stems).collect();
    let common_words = |tool: &Tool| -> BTreeSet<String> {
        [&tool.name, &tool.description]
            .into_iter()
            .flat_map(|text| stems(text))
            .filter(|stem| query.contains(stem))
            .collect()
    };
    let mut others: Vec<(BTreeSet<String>, Tool)> =
        tools.drain(own..).map(|tool| (common_words(&tool), tool)).collect();
    let mut tools_with_word: BTreeMap<String, f64> = BTreeMap::new();
    for word in others.iter().flat_map(|(shared, _)| shared) {
        *tools_with_word.entry(word.clone()).or_default() += 1.0;
    }
    let score = |shared: &BTreeSet<String>| -> f64 {
        shared.iter().filter_map(|stem| tools_with_word.get(stem)).map(|tools| tools.recip()).sum()
    };
    others.sort_by(|(one, _), (other, _)| score(other).total_cmp(&score(one)));
    let before = others.len();
    others.truncate(MAX_TOOLS.saturating_sub(own));
    let removed = before - others.len();
    tools.extend(others.into_iter().map(|(_, tool)| tool));
    removed
}

#[cfg(test)]
mod tests {
    use shared::{Safety, Tool};

    use super::{MAX_TOOLS, fit};

    fn tool(name: &str, description: &str) -> Tool {
        let parameters = serde_json::Value::Null;
        Tool {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters,
            safety: Safety::Read,
            max_repeats: None,
            read_back: None,
        }
    }

    fn many(count: usize) -> Vec<Tool> {
        (0..count).map(|nth| tool(&format!("tool_{nth}"), "does something with the data")).collect()
    }

    #[test]
    fn the_tools_that_match_the_query_stay_within_the_maximum() {
        let mut tools = many(300);
        tools[0] = tool("submit", "ends it");
        tools[250] = tool("listEvents", "shows a calendar");
        tools[299] = tool("odd", "sends an Invoice");
        let query = ["Please send the invoice for the data", "Your task: the calendar."];
        assert_eq!(fit(&mut tools, 1, query), 300 - MAX_TOOLS);
        assert_eq!(tools.len(), MAX_TOOLS);
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).take(5).collect();
        assert_eq!(names, ["submit", "odd", "listEvents", "tool_1", "tool_2"]);
    }

    #[test]
    fn tools_within_the_maximum_stay_unchanged() {
        let mut tools = many(MAX_TOOLS);
        let before = tools.clone();
        assert_eq!(fit(&mut tools, 0, ["tool_77", ""]), 0);
        assert_eq!(tools, before);
    }
}
