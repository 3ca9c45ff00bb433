//! Parses queries from models and people: cleans, deduplicates and counts them.

use std::collections::BTreeSet;

use serde_json::Value;
use shared::{Answer, ToolCall};

/// Maximum length of a query, in characters. Search engines accept no more.
pub(super) const QUERY_MAX: usize = 400;

/// Plan that a model submitted: the queries and the reasoning behind them.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) queries: Vec<String>,
    pub(super) rationale: String,
}

/// Returns the plan that all these calls submit together.
///
/// # Errors
///
/// A description of the error, so that the model can correct it.
pub(super) fn submitted<'a>(
    calls: impl IntoIterator<Item = &'a ToolCall>,
    limit: usize,
) -> Result<Plan, String> {
    let (mut queries, mut reasons) = (Vec::new(), Vec::new());
    for call in calls {
        let own = read(&call.arguments)?;
        if let Some(twice) = own.iter().enumerate().find(|(n, query)| is_among(query, &own[..*n])) {
            return Err(format!("the query {:?} is there twice; each must ask for something else", twice.1));
        }
        queries.extend(own);
        reasons.extend(call.arguments["rationale"].as_str().map(str::trim).filter(|text| !text.is_empty()));
    }
    let queries = distinct(queries, &[]);
    if limit < queries.len() {
        return Err(format!(
            "there are {} queries and at most {limit} may be submitted; keep the best",
            queries.len()
        ));
    }
    Ok(Plan { queries, rationale: reasons.join(" ") })
}

fn read(arguments: &Value) -> Result<Vec<String>, String> {
    let Some(listed) = arguments["queries"].as_array() else {
        return Err("\"queries\" must be a list of texts".to_owned());
    };
    if listed.is_empty() {
        return Err("there is no query; submit at least one, or answer in plain words".to_owned());
    }
    let one = |value: &Value| {
        let Some(text) = value.as_str() else {
            return Err(format!("{value} is not a text; every query must be one"));
        };
        match cleaned(text) {
            query if query.is_empty() => Err("a query is empty".to_owned()),
            query if QUERY_MAX < query.chars().count() => {
                Err(format!("a query is longer than {QUERY_MAX} characters"))
            }
            query => Ok(query),
        }
    };
    listed.iter().map(one).collect()
}

/// Returns the queries that are not empty, too long, repeated or among `known`, in order.
pub(super) fn distinct(queries: impl IntoIterator<Item = String>, known: &[&str]) -> Vec<String> {
    let mut seen: BTreeSet<String> = known.iter().map(|query| folded(query)).collect();
    let cut = queries.into_iter().map(|query| cleaned(&query).chars().take(QUERY_MAX).collect::<String>());
    cut.filter(|query| !query.is_empty() && seen.insert(folded(query))).collect()
}

fn is_among(query: &str, others: &[String]) -> bool {
    others.iter().any(|other| folded(other) == folded(query))
}

fn cleaned(query: &str) -> String {
    query.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn folded(query: &str) -> String {
    cleaned(query).to_lowercase()
}

/// Answer of a person to a plan of queries.
#[derive(Debug, PartialEq)]
pub(super) enum Approval {
    /// The queries are approved.
    Yes,
    /// The queries are rejected.
    No,
    /// Other queries are wanted, and not named yet.
    Change,
    /// These queries replace the plan.
    Rather(Vec<String>),
    /// One line that the table does not know: a query, an instruction, or something else. A model reads it.
    Line,
    /// An instruction, from which new queries are to be planned.
    Wish,
    /// The answer cannot be used, for this reason.
    Unclear(String),
}

/// Reads a person's answer by the table: yes, no, an instruction, or other queries, one per line. A single query is
/// recognized by its list mark.
pub(super) fn approval(answer: &str, limit: usize) -> Approval {
    match Answer::of(answer) {
        Answer::Yes => return Approval::Yes,
        Answer::No | Answer::Stop => return Approval::No,
        Answer::Change => return Approval::Change,
        Answer::Wish | Answer::Unclear => (),
    }
    // “No, rather …” is an instruction, and as a query it would find nothing useful.
    let first = answer.trim().split(['\n', ',', '.', '!', '?', ';', ':']).next().unwrap_or_default();
    if Answer::of(first) != Answer::Unclear {
        return Approval::Wish;
    }
    let lines: Vec<&str> = answer.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let [line] = lines[..]
        && unlisted(line) == line
    {
        return Approval::Line;
    }
    let queries = distinct(lines.into_iter().map(|line| unlisted(line).to_owned()), &[]);
    match queries.len() {
        0 => Approval::Unclear("nothing was answered".to_owned()),
        n if limit < n => {
            Approval::Unclear(format!("there are {n} queries and at most {limit} may be searched"))
        }
        _ => Approval::Rather(queries),
    }
}

/// Returns a line without its list marker or number.
fn unlisted(line: &str) -> &str {
    let line = line.trim();
    if let Some(rest) = ["- ", "* ", "• "].iter().find_map(|bullet| line.strip_prefix(bullet)) {
        return rest;
    }
    let rest = line.trim_start_matches(|char: char| char.is_ascii_digit());
    let numbered = rest.len() < line.len();
    [". ", ") "].iter().find_map(|mark| rest.strip_prefix(mark)).filter(|_| numbered).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(arguments: Value) -> ToolCall {
        ToolCall { id: "c".to_owned(), name: "submit_plan".to_owned(), arguments }
    }

    #[test]
    fn a_plan_is_read_or_refused_in_words() {
        let read = |arguments| submitted([&call(arguments)], 2);
        let plan = read(json!({"queries": [" tide\n times ", "moon"], "rationale": "two angles"})).unwrap();
        assert_eq!(
            plan,
            Plan { queries: vec!["tide times".into(), "moon".into()], rationale: "two angles".into() }
        );
        let refused = |arguments| read(arguments).unwrap_err();
        assert!(refused(json!({"queries": []})).contains("there is no query"));
        assert!(refused(json!({"queries": "tides"})).contains("must be a list"));
        assert!(refused(json!("{queries")).contains("must be a list"));
        assert!(refused(json!({})).contains("must be a list"));
        assert!(refused(json!({"queries": ["tides", 7]})).contains("7 is not a text"));
        assert!(refused(json!({"queries": ["tides", "  "]})).contains("empty"));
        assert!(refused(json!({"queries": ["Tide times", "tide  TIMES "]})).contains("twice"));
        assert!(refused(json!({"queries": ["a", "b", "c"]})).contains("at most 2"));
        assert!(refused(json!({"queries": ["a".repeat(401)]})).contains("longer"));
        assert!(read(json!({"queries": ["a".repeat(400)]})).is_ok());
    }

    #[test]
    fn several_plans_are_one() {
        let calls =
            [call(json!({"queries": ["a", "b"]})), call(json!({"queries": ["B", "c"], "rationale": "why"}))];
        let plan = submitted(&calls, 3).unwrap();
        assert_eq!(plan, Plan { queries: vec!["a".into(), "b".into(), "c".into()], rationale: "why".into() });
        assert!(submitted(&calls, 2).is_err());
    }

    #[test]
    fn a_person_is_understood() {
        for yes in ["yes", " Yes. ", "OK!", "go ahead", "Yes, please", "ja, bitte", "vale"] {
            assert_eq!(approval(yes, 2), Approval::Yes, "{yes}");
        }
        for no in ["no", "No.", "STOP", "No, thanks!", "forget it", "non merci"] {
            assert_eq!(approval(no, 2), Approval::No, "{no}");
        }
        let rather = |it: &[&str]| Approval::Rather(it.iter().map(|it| (*it).to_owned()).collect());
        for line in ["no man's sky review", "2026 tides", " tak\n", "make it about the moon", "-"] {
            assert_eq!(approval(line, 2), Approval::Line, "{line}");
        }
        assert_eq!(approval("- no man's sky review", 2), rather(&["no man's sky review"]));
        assert_eq!(approval("1. tides", 2), rather(&["tides"]));
        assert_eq!(approval("1. tides\n\n- Moon phases\n- TIDES", 2), rather(&["tides", "Moon phases"]));
        assert_eq!(approval("2026 tides\nmoon", 2), rather(&["2026 tides", "moon"]));
        assert_eq!(approval("change it", 2), Approval::Change);
        for wish in
            ["No, rather the moon", "Yes, but only of this year", "stop. The moon rather", "oui? et la lune"]
        {
            assert_eq!(approval(wish, 2), Approval::Wish, "{wish}");
        }
        for unclear in ["", " \n", "a\nb\nc"] {
            assert!(matches!(approval(unclear, 2), Approval::Unclear(_)), "{unclear}");
        }
    }
}
