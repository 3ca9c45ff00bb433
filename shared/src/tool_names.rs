//! Names under which models are offered the tools of MCP servers.
//!
//! A tool keeps its own name, or is called `server__tool` if several servers are offered. Endpoints accept at most 64
//! letters, digits, `_` and `-`, so other characters become `_` and long names are cut. If that makes two names equal, or
//! equal to that of a tool of the strategy, the end of the name becomes a hash of server and tool.
//!
//! **Invariant:** pure, and no two tools have one name: the same tools always get the same names, so a call goes to the
//! tool that the model meant, also when a log is replayed.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::Tool;

/// Maximum length of a name that endpoints accept.
const NAME_MAX: usize = 64;

/// Length of the hash at the end of a name.
const HASH_LENGTH: usize = 6;

/// Tool of an MCP server, as offered to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedTool<'a> {
    /// Name that the model sees and calls.
    pub name: String,
    /// Server that has the tool.
    pub server: &'a str,
    /// The tool, with the server's own name for it.
    pub tool: &'a Tool,
}

/// Names the tools of `servers`, in order. No name is one of `reserved`, the tools of the strategy itself.
pub fn offered_tools<'a>(
    servers: &[(&'a str, &'a [Tool])],
    reserved: &BTreeSet<String>,
) -> Vec<OfferedTool<'a>> {
    let all = servers.iter().flat_map(|(server, tools)| tools.iter().map(move |tool| (*server, tool)));
    let wanted: Vec<(String, &str, &Tool)> = all
        .map(|(server, tool)| {
            let several = 1 < servers.len();
            (if several { format!("{server}__{}", tool.name) } else { tool.name.clone() }, server, tool)
        })
        .collect();
    let mut by_name = BTreeMap::<String, Vec<&str>>::new();
    for (wanted, ..) in &wanted {
        by_name.entry(legal(wanted)).or_default().push(wanted);
    }
    // A name that needs no change is kept before one that would become equal to it.
    let is_kept = |wanted: &str, name: &str| {
        let others = &by_name[name];
        let exact = others.iter().filter(|other| **other == name).count();
        !reserved.contains(name) && (others.len() == 1 || (wanted == name && exact == 1))
    };
    let mut taken: BTreeSet<String> = reserved.clone();
    taken.extend(by_name.keys().cloned());
    let offer = |(wanted, server, tool): (String, &'a str, &'a Tool)| {
        let name = legal(&wanted);
        let name = if is_kept(&wanted, &name) { name } else { distinct(&name, server, tool, &taken) };
        taken.insert(name.clone());
        OfferedTool { name, server, tool }
    };
    wanted.iter().cloned().map(offer).collect()
}

/// Converts a name to one that endpoints accept.
fn legal(name: &str) -> String {
    let legal =
        |char: char| if char.is_ascii_alphanumeric() || char == '_' || char == '-' { char } else { '_' };
    name.chars().map(legal).take(NAME_MAX).collect()
}

/// Returns a name that is not taken, ending in a hash.
fn distinct(name: &str, server: &str, tool: &Tool, taken: &BTreeSet<String>) -> String {
    let begin = &name[..name.len().min(NAME_MAX - HASH_LENGTH - 1)];
    let named = |round: u64| format!("{begin}_{}", hash(&[server, &tool.name], round));
    (0..).map(named).find(|name| !taken.contains(name)).unwrap_or_default()
}

/// Returns the first digits of a 64-bit FNV-1a hash.
fn hash(texts: &[&str], round: u64) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325 ^ round;
    // A zero byte after each text: `ab` and `c` differ from `a` and `bc`.
    for byte in texts.iter().flat_map(|text| text.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")[..HASH_LENGTH].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Safety;

    fn tools(names: &[&str]) -> Vec<Tool> {
        let tool = |name: &&str| Tool {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: serde_json::Value::Null,
            safety: Safety::Read,
            max_repeats: None,
            read_back: None,
        };
        names.iter().map(tool).collect()
    }

    fn named(servers: &[(&str, &[&str])]) -> Vec<String> {
        let tools: Vec<(&str, Vec<Tool>)> =
            servers.iter().map(|(server, names)| (*server, tools(names))).collect();
        let servers: Vec<(&str, &[Tool])> =
            tools.iter().map(|(server, tools)| (*server, &tools[..])).collect();
        let reserved = BTreeSet::from(["ask_user".to_owned(), "a__submit".to_owned()]);
        let names: Vec<String> =
            offered_tools(&servers, &reserved).into_iter().map(|tool| tool.name).collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        let legal = |name: &&String| !name.is_empty() && **name == legal(name) && !reserved.contains(*name);
        assert_eq!(names.iter().filter(legal).count(), names.len(), "{names:?}");
        names
    }

    #[test]
    fn a_name_is_kept_or_made_legal() {
        assert_eq!(named(&[("s", &["find", "list.day", "größe"])]), ["find", "list_day", "gr__e"]);
        assert_eq!(named(&[("s", &["find"]), ("t", &["find"])]), ["s__find", "t__find"]);
        assert_eq!(named(&[("s", &[&"x".repeat(70)])]), ["x".repeat(64)]);
        assert_eq!(named(&[]), [""; 0]);
    }

    #[test]
    fn names_that_would_be_equal_are_told_apart() {
        assert_eq!(named(&[("s", &["a.b", "a_b"])])[1], "a_b", "the exact name is kept");
        assert!(named(&[("s", &["a.b", "a_b"])])[0].starts_with("a_b_"));
        assert!(
            named(&[("s", &["a.b", "a/b"])]).iter().all(|name| name.starts_with("a_b_")),
            "none is favoured"
        );
        let long = |end: &str| format!("{}{end}", "x".repeat(64));
        assert!(named(&[("s", &[&long("1"), &long("2")])]).iter().all(|name| name.len() == 64));
        named(&[("a__b", &["c"]), ("a", &["b__c"])]);
        named(&[("s", &["a", "a"])]);
    }

    #[test]
    fn a_tool_of_the_strategy_is_not_shadowed() {
        assert!(named(&[("s", &["ask_user", "find"])])[0].starts_with("ask_user_"));
        assert!(named(&[("s", &["ask.user"])])[0].starts_with("ask_user_"));
        assert_eq!(named(&[("s", &["ask_user"]), ("t", &["find"])]), ["s__ask_user", "t__find"]);
        assert!(named(&[("a", &["submit"]), ("t", &["find"])])[0].starts_with("a__submit_"));
    }

    #[test]
    fn a_name_that_looks_like_a_hash_is_avoided() {
        let hashed = named(&[("s", &["ask_user"])]).remove(0);
        let names = named(&[("s", &["ask_user", &hashed])]);
        assert_eq!(names[1], hashed, "a server's own name comes first");
        assert_ne!(names[0], hashed);
    }
}
