//! Parses search output in any format into sources with tokens and text that cites them.

use serde::{Deserialize, Serialize};
use serde_json::{Deserializer, Value};

use super::links::{Kind, host, key, links};

/// Page that a search found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Address of the page, as first found.
    pub url: String,
    /// Title of the page.
    pub title: String,
}

/// Sources of a turn, without duplicates. The first is `[s1]`.
pub(super) struct Shelf(Vec<Source>);

/// Maximum lengths of the text of one source and of one finding that a model receives, in characters.
const SNIPPET_MAX: usize = 1_000;
pub(super) const FINDING_MAX: usize = 8_000;
const TITLE_MAX: usize = 120;

impl Shelf {
    pub(super) fn new(sources: &[Source]) -> Self {
        Self(sources.to_vec())
    }

    pub(super) fn into_sources(self) -> Vec<Source> {
        self.0
    }

    /// Returns the token of a page, and adds the page if it is new.
    pub(super) fn token(&mut self, url: &str, title: Option<&str>) -> String {
        let page = key(url);
        let nth = self.0.iter().position(|source| key(&source.url) == page).unwrap_or_else(|| {
            let title = title.map(one_line).filter(|title| !title.is_empty()).unwrap_or_else(|| host(url));
            self.0.push(Source { url: url.to_owned(), title });
            self.0.len() - 1
        });
        format!("[s{}]", nth + 1)
    }

    /// Returns the finding in a search's output, with a token at each of its sources. Empty if nothing was found.
    ///
    /// Accepts JSON with addresses anywhere in it, several such texts in a row, or plain text with addresses.
    pub(super) fn note(&mut self, output: &str, results: usize) -> String {
        let Some(values) = json(output) else { return self.note_words(output) };
        let mut read = Found::default();
        values.iter().for_each(|value| read.walk(value, 0));
        if read.hits.is_empty() {
            return self.note_words(&read.words.join("\n"));
        }
        let told = |hit: &Hit| {
            let token = self.token(&hit.url, hit.title.as_deref());
            let title = hit.title.as_deref().map(one_line).filter(|title| !title.is_empty());
            let named = title.map_or_else(String::new, |title| format!("{} ", defused(&title)));
            let snippet = defused(&cut(hit.snippet.trim(), SNIPPET_MAX));
            format!("{token} {named}({})\n{snippet}", host(&hit.url)).trim_end().to_owned()
        };
        read.hits.iter().take(results.max(1)).map(told).collect::<Vec<_>>().join("\n\n")
    }

    /// Returns text with a token in place of every address.
    fn note_words(&mut self, words: &str) -> String {
        let words = cut(words.trim(), FINDING_MAX);
        let (mut out, mut done) = (String::new(), 0);
        for link in links(&words) {
            out.push_str(&defused(&words[done..link.at.start]));
            done = link.at.end;
            let label = link.label.as_deref().filter(|label| !label.contains("://"));
            out.push_str(&defused(label.unwrap_or_default()));
            if link.kind == Kind::Picture {
                continue;
            }
            let title = label.map(str::to_owned).or_else(|| title_near(&words, link.at.start));
            let gap = if label.is_some() { " " } else { "" };
            out.push_str(gap);
            out.push_str(&self.token(&link.url, title.as_deref()));
        }
        out.push_str(&defused(&words[done..]));
        out
    }
}

#[derive(Default)]
struct Found {
    hits: Vec<Hit>,
    words: Vec<String>,
}

struct Hit {
    url: String,
    title: Option<String>,
    snippet: String,
}

const URL: &[&str] = &["url", "link", "href", "uri"];
const TITLE: &[&str] = &["title", "name", "heading"];
const SNIPPET: &[&str] = &[
    "snippet",
    "content",
    "description",
    "summary",
    "excerpt",
    "text",
    "body",
    "abstract",
    "markdown",
    "highlights",
];

/// Maximum depth of JSON nested in JSON strings.
const DEPTH_MAX: usize = 4;

impl Found {
    fn walk(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => (),
            Value::Array(items) => items.iter().for_each(|item| self.walk(item, depth)),
            Value::String(text) => match json(text).filter(|_| depth < DEPTH_MAX) {
                Some(values) => values.iter().for_each(|value| self.walk(value, depth + 1)),
                None => self.words.push(text.clone()),
            },
            Value::Object(fields) => {
                let text = |names: &[&str]| names.iter().find_map(|name| words(fields.get(*name)?));
                let url =
                    text(URL).filter(|url| links(url).first().is_some_and(|link| link.at == (0..url.len())));
                let (title, snippet) = (text(TITLE), text(SNIPPET));
                let already = self.hits.len();
                match url {
                    Some(url) if title.is_some() || snippet.is_some() => {
                        self.hits.push(Hit { url, title, snippet: snippet.unwrap_or_default() });
                        let below = fields.values().filter(|value| value.is_object() || value.is_array());
                        below.for_each(|value| self.walk(value, depth));
                    }
                    url => {
                        fields.values().for_each(|value| self.walk(value, depth));
                        // An address without any text belongs to the search itself, if there are other addresses below
                        // it.
                        if let Some(url) = url.filter(|_| self.hits.len() == already) {
                            self.hits.push(Hit { url, title: None, snippet: String::new() });
                        }
                    }
                }
            }
        }
    }
}

fn words(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" … "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// Returns the JSON objects and lists that make up a text: one or several in a row, possibly fenced or introduced by
/// words. `None` if the text is anything else.
fn json(text: &str) -> Option<Vec<Value>> {
    let start = text.find(['{', '['])?;
    let mut stream = Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let mut values = Vec::new();
    let mut end = start;
    while let Some(Ok(value)) = stream.next() {
        if !value.is_object() && !value.is_array() {
            break;
        }
        values.push(value);
        end = start + stream.byte_offset();
    }
    let around = [&text[..start], &text[end..]];
    (!values.is_empty() && !around.iter().any(|line| line.contains("://"))).then_some(values)
}

/// Returns the title of the page at `at` from the lines around it, up to an empty one: “Title: …”, or the list item
/// above.
fn title_near(text: &str, at: usize) -> Option<String> {
    let above =
        text[..at].rsplit('\n').skip(1).take_while(|line| !line.trim().is_empty() && !line.contains("://"));
    let below =
        text[at..].split('\n').skip(1).take_while(|line| !line.trim().is_empty() && !line.contains("://"));
    let named = |line: &str| {
        let line = line.trim_start_matches(|char: char| !char.is_alphanumeric());
        let (label, title) = line.split_once(':')?;
        let title = title.trim_matches(|char: char| char.is_whitespace() || char == '*');
        label.trim_end_matches('*').eq_ignore_ascii_case("title").then(|| title.to_owned())
    };
    let listed = |line: &str| {
        let line = line.trim();
        let rest = line
            .trim_start_matches(|char: char| char.is_ascii_digit())
            .trim_start_matches(['.', ')', '#', '-', '*', ' ']);
        (rest.len() < line.len() && line.chars().count() <= TITLE_MAX)
            .then(|| rest.trim_end_matches('*').to_owned())
    };
    let titled = above.clone().find_map(named).or_else(|| below.clone().find_map(named));
    titled.or_else(|| above.clone().next().and_then(listed))
}

/// Returns `text` without anything that looks like a token, because only the engine writes tokens.
pub(super) fn defused(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let (before, from) = rest.split_at(open);
        out.push_str(before);
        let inner = from[1..].split_once(']').filter(|(inner, _)| super::citations::numbers(inner).is_some());
        match inner {
            Some((inner, after)) => {
                out.push_str(&format!("({inner})"));
                rest = after;
            }
            None => {
                out.push('[');
                rest = &from[1..];
            }
        }
    }
    out + rest
}

/// Returns the first `limit` characters of a text, shortened to the end of a word.
pub(super) fn cut(text: &str, limit: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(limit) else { return text.to_owned() };
    let end = text[..end].rfind(char::is_whitespace).unwrap_or(end);
    format!("{} …", text[..end].trim_end())
}

/// Formats a title on one line, without characters that markdown could interpret.
fn one_line(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|char| match char {
            '[' => '(',
            ']' => ')',
            char if char.is_control() => ' ',
            char => char,
        })
        .collect();
    cut(&plain.split_whitespace().collect::<Vec<_>>().join(" "), TITLE_MAX)
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
