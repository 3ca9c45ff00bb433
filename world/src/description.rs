//! Builds the description of a server: one text that can be searched and that a model can read.

use shared::Description;

use crate::text::truncate;

/// Maximum characters of one item's description; the first sentences say its purpose.
const MAX_ITEM_CHARS: usize = 500;

/// Maximum characters of a text, because a server may offer thousands of items.
const MAX_TEXT_CHARS: usize = 50_000;

/// Name and description of an item that a server offers.
pub(super) type Item = (String, String);

/// Lists the operator's description, then the items of each kind by name. Empty kinds are left out.
pub(super) fn description(about: &str, kinds: [(&str, Vec<Item>); 3]) -> Description {
    let mut lines: Vec<String> =
        Some(to_one_line(about)).into_iter().filter(|line| !line.is_empty()).collect();
    for (title, mut items) in kinds {
        if items.is_empty() {
            continue;
        }
        // Sorted, so that the hash does not depend on the server's order.
        items.sort();
        items.dedup();
        lines.push(format!("{title}:"));
        lines.extend(items.into_iter().map(|(name, purpose)| {
            match truncate(&to_one_line(&purpose), MAX_ITEM_CHARS) {
                purpose if purpose.is_empty() => format!("- {name}"),
                purpose => format!("- {name}: {purpose}"),
            }
        }));
    }
    Description::new(truncate(&lines.join("\n"), MAX_TEXT_CHARS))
}

fn to_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
