//! Which tools a model is shown, where there are more than an endpoint takes.

use std::collections::{BTreeMap, BTreeSet};

use shared::Tool;

/// The most tools that one request may offer.
const TOOLS_MAX: usize = 128;

/// The shortest word that says something about a tool.
const WORD_MIN: usize = 3;

/// Leaves no more tools than a request may offer, and tells how many are gone.
///
/// The first `own` always stay. Of the others stay those that share the most words with what is `asked`; equals keep
/// their order.
///
/// ## Why
///
/// `OpenAI` refuses a request with more than 128 tools, and with it the whole turn, and no model chooses well among
/// hundreds. A word counts the less, the more tools have it: what stands in every description tells nothing.
pub(super) fn fit(tools: &mut Vec<Tool>, own: usize, asked: [&str; 2]) -> usize {
    if tools.len() <= TOOLS_MAX {
        return 0;
    }
    let asked: BTreeSet<String> = asked.into_iter().flat_map(words).collect();
    let shared = |tool: &Tool| -> BTreeSet<String> {
        words(&tool.name).chain(words(&tool.description)).filter(|it| asked.contains(it)).collect()
    };
    let mut others: Vec<(BTreeSet<String>, Tool)> =
        tools.drain(own..).map(|tool| (shared(&tool), tool)).collect();
    let mut spread: BTreeMap<String, f64> = BTreeMap::new();
    for word in others.iter().flat_map(|(shared, _)| shared) {
        *spread.entry(word.clone()).or_default() += 1.0;
    }
    let score = |shared: &BTreeSet<String>| -> f64 {
        shared.iter().filter_map(|it| spread.get(it)).map(|tools| tools.recip()).sum()
    };
    others.sort_by(|(one, _), (other, _)| score(other).total_cmp(&score(one)));
    let before = others.len();
    others.truncate(TOOLS_MAX.saturating_sub(own));
    let gone = before - others.len();
    tools.extend(others.into_iter().map(|(_, tool)| tool));
    gone
}

/// The words of a text in lower case; a name like `listEvents` has two.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut split = String::with_capacity(text.len());
    let mut small = false;
    for c in text.chars() {
        if small && c.is_uppercase() {
            split.push(' ');
        }
        small = c.is_lowercase();
        split.extend(c.to_lowercase());
    }
    let words: Vec<String> = split
        .split(|c: char| !c.is_alphanumeric())
        .filter(|it| WORD_MIN <= it.chars().count())
        .map(str::to_owned)
        .collect();
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use shared::{Safety, Tool};

    use super::{TOOLS_MAX, fit};

    fn tool(name: &str, description: &str) -> Tool {
        let parameters = serde_json::Value::Null;
        Tool { name: name.to_owned(), description: description.to_owned(), parameters, safety: Safety::Read }
    }

    fn many(count: usize) -> Vec<Tool> {
        (0..count).map(|nth| tool(&format!("tool_{nth}"), "does something with the data")).collect()
    }

    #[test]
    fn no_more_stay_than_fit_and_those_that_are_asked_for_come_first() {
        let mut tools = many(300);
        tools[0] = tool("submit", "ends it");
        tools[250] = tool("listEvents", "shows a calendar");
        tools[299] = tool("odd", "sends an Invoice");
        let asked = ["Please send the invoice for the data", "Your task: the calendar."];
        assert_eq!(fit(&mut tools, 1, asked), 300 - TOOLS_MAX);
        assert_eq!(tools.len(), TOOLS_MAX);
        let names: Vec<_> = tools.iter().map(|it| it.name.as_str()).take(5).collect();
        assert_eq!(names, ["submit", "listEvents", "odd", "tool_1", "tool_2"]);
    }

    #[test]
    fn where_all_fit_nothing_moves() {
        let mut tools = many(TOOLS_MAX);
        let before = tools.clone();
        assert_eq!(fit(&mut tools, 0, ["tool_77", ""]), 0);
        assert_eq!(tools, before);
    }
}
