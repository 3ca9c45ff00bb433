//! The rules, and the comments that break them.

use crate::{Comment, Kind};

/// Words and phrases that no comment uses, each with its replacement.
pub const AVOIDED: &[(&str, &str)] = &[
    ("whoever", "name the person, process or caller"),
    ("whomever", "name the person, process or caller"),
    ("whosoever", "name the person, process or caller"),
    ("somebody", "someone, or name the role: a person, a worker, a caller"),
    ("anybody", "anyone, or name the role"),
    ("everybody", "everyone, or name the roles"),
    ("nobody", "no one, or name the role: no worker, no caller"),
    ("such a", "a"),
    ("such an", "an"),
    ("so many", "the number, or: that many"),
    ("as it were", "leave it out"),
    ("hears", "receives, is notified"),
    ("is told", "is notified, receives, is configured"),
    ("are told", "are notified, receive, are configured"),
    ("for nothing", "free, at no cost, without need"),
    ("is at rest", "is idle"),
    ("all the same", "anyway, still"),
    ("besides", "also, in addition"),
    ("as long as that", "until then, for that time"),
];

/// First words that a doc comment does not open with: the sentence would be a relative clause or a question.
const OPENINGS: &[&str] = &[
    "what",
    "whatever",
    "who",
    "whoever",
    "whom",
    "whomever",
    "whose",
    "whether",
    "that",
    "how",
    "however",
    "which",
    "whichever",
    "where",
    "wherever",
    "when",
    "whenever",
    "why",
    "so",
    "nobody",
    "somebody",
    "someone",
    "anybody",
    "everybody",
];

const MIN_WORDS: usize = 3;

/// A rule about comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A doc comment opens with a noun phrase or a verb.
    Opening,
    /// A file's introduction opens with a noun phrase or a verb.
    FileOpening,
    /// A doc comment has at least three words, except on enum variants.
    TooShort,
    /// A comment uses no word of [`AVOIDED`].
    Avoided,
    /// The only parameter of a closure names the element: it is not `it`.
    Element,
    /// An identifier of a test, or the name of its file, is not one of [`RENAMED`](crate::RENAMED).
    Identifier,
}

/// A comment that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The broken rule.
    pub rule: Rule,
    /// Line number, counted from 1.
    pub line: usize,
    /// The offending words, and for [`Rule::Avoided`] the replacement.
    pub message: String,
}

/// Rules broken by a comment.
pub fn findings(comment: &Comment) -> Vec<Finding> {
    let text = comment.text();
    let mut found = Vec::new();
    let mut add = |rule, line, message| found.push(Finding { rule, line, message });
    if comment.kind != Kind::Plain {
        let opening = words(&text).next().unwrap_or_default().to_lowercase();
        if OPENINGS.contains(&&*opening) {
            let rule = if comment.kind == Kind::File { Rule::FileOpening } else { Rule::Opening };
            add(rule, comment.line, excerpt(&text));
        }
        if comment.kind != Kind::Variant && words(&text).count() < MIN_WORDS {
            add(Rule::TooShort, comment.line, excerpt(&text));
        }
    }
    for (phrase, instead) in AVOIDED {
        for _ in occurrences(&text, phrase) {
            add(Rule::Avoided, line_of(comment, phrase), format!("{phrase:?} (use: {instead})"));
        }
    }
    found
}

/// Words of a text: letters, digits, apostrophes, underscores and hyphens.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let in_word = |char: char| char.is_alphanumeric() || matches!(char, '\'' | '’' | '_' | '-');
    text.split(move |char| !in_word(char)).filter(|word| word.chars().any(char::is_alphanumeric))
}

fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    if text.chars().count() <= MAX_CHARS {
        return format!("{text:?}");
    }
    format!("{:?}", text.chars().take(MAX_CHARS).chain(['…']).collect::<String>())
}

fn occurrences(text: &str, phrase: &str) -> Vec<usize> {
    let text = text.to_lowercase();
    let is_edge = |char: Option<char>| !char.is_some_and(|char| char.is_alphanumeric() || char == '_');
    let whole = |at: &usize| {
        is_edge(text[..*at].chars().next_back()) && is_edge(text[*at + phrase.len()..].chars().next())
    };
    text.match_indices(phrase).map(|(at, _)| at).filter(whole).collect()
}

/// The line with the phrase; the first line if the phrase spans two.
fn line_of(comment: &Comment, phrase: &str) -> usize {
    let within = comment.lines.iter().position(|line| !occurrences(line, phrase).is_empty());
    comment.line + within.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comments;

    #[track_caller]
    fn assert_rules(source: &str, expected: &[Rule]) {
        let found: Vec<_> = comments(source).iter().flat_map(findings).map(|finding| finding.rule).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn a_doc_comment_names_a_thing_or_says_an_action() {
        assert_rules("/// What a job may use.\nstruct S;", &[Rule::Opening]);
        assert_rules("/// **How** it is done here.\nstruct S;", &[Rule::Opening]);
        assert_rules("/// Resources of one job.\nstruct S;", &[]);
        assert_rules("// What a plain comment says is free.", &[]);
    }

    #[test]
    fn a_file_introduces_itself_by_its_subject() {
        assert_rules("//! Where jobs wait for workers.\n", &[Rule::FileOpening]);
        assert_rules("//! The queue of jobs.\n", &[]);
        assert_rules("mod m {\n//! Where jobs wait for workers.\n}", &[Rule::Opening]);
    }

    #[test]
    fn a_doc_comment_says_more_than_two_words() {
        assert_rules("/// In seconds.\nconst A: u8 = 1;", &[Rule::TooShort]);
        assert_rules("enum E {\n/// Done.\nDone }", &[]);
        assert_rules("/// Timeout in seconds.\nconst A: u8 = 1;", &[]);
    }

    #[test]
    fn avoided_words_are_found_in_every_comment() {
        assert_rules("// Somebody else's, such\n// a thing.", &[Rule::Avoided, Rule::Avoided]);
        assert_rules("/// Hearsay is not avoided.\nfn f() {}", &[]);
        let finding = &findings(&comments("fn f() {\n    // One.\n    // For nothing.\n}")[0])[0];
        assert_eq!(finding.line, 3);
    }
}
