//! Turns the citations of an answer into links, with a list of the sources at its end.
//!
//! A citation is a token of the engine (`[s1]`), or an address of a source. Everything else stays byte for byte: code,
//! other addresses and other text in brackets.

use std::ops::Range;

use serde_json::Value;

use super::{
    code::{code, containing, settled},
    links::{Kind, LABEL_MAX, Link, host, key, links},
    sources::Source,
};

/// Characters that are left out at the beginning of an answer.
const LINE_ENDS: [char; 2] = ['\n', '\r'];

/// Answer in the form that a person reads.
#[derive(Debug, PartialEq)]
pub(super) struct Resolved {
    /// Text with links and the list of sources.
    pub(super) text: String,
    /// Tokens that were removed because they name no source, and addresses that are in no source.
    pub(super) strange: Vec<String>,
}

impl Resolved {
    /// Returns a one-line note about the references that no source supports, if there are any.
    pub(super) fn why(&self) -> Option<String> {
        let what = self.strange.join(", ");
        (!what.is_empty()).then(|| format!("the answer refers to what was not found: {what}"))
    }
}

/// Turns every citation of `answer` into a link to its source.
///
/// **Invariant:** outside code, every address in the result is one of `sources`, or one that `known` accepts as part of
/// the conversation, or is listed at the end as not among the sources.
pub(super) fn resolve(answer: &str, sources: &[Source], known: impl Fn(&str) -> bool) -> Resolved {
    let (code, found) = (code(answer), links(answer));
    let mut page = Page::new(answer, sources, &code);
    page.fill(&found, answer.len(), known);
    page.listed()
}

/// Turns every citation in the texts of a JSON object into a link to its source, without a list of the sources.
pub(super) fn resolve_fields(answer: &str, sources: &[Source], known: &impl Fn(&str) -> bool) -> Resolved {
    let Ok(mut value) = serde_json::from_str(answer) else { return resolve(answer, sources, known) };
    let mut strange = Vec::new();
    resolve_value(&mut value, sources, known, &mut strange);
    Resolved { text: value.to_string(), strange }
}

fn resolve_value(
    value: &mut Value,
    sources: &[Source],
    known: &impl Fn(&str) -> bool,
    strange: &mut Vec<String>,
) {
    match value {
        Value::String(text) => {
            let (code, found) = (code(text), links(text));
            let mut page = Page::new(text, sources, &code);
            page.fill(&found, text.len(), known);
            strange.append(&mut page.strange);
            strange.append(&mut page.unfound);
            let resolved = page.out;
            *text = resolved;
        }
        Value::Array(items) => items.iter_mut().for_each(|item| resolve_value(item, sources, known, strange)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| resolve_value(field, sources, known, strange));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// Resolves the beginning of an answer that is still being written, as far as the rest cannot change it.
///
/// **Invariant:** the result is the beginning of what [`resolve`] returns for the whole answer, whatever follows.
pub(super) fn resolve_beginning(partial: &str, sources: &[Source]) -> String {
    let (code, found) = (code(partial), links(partial));
    let brackets = brackets(partial);
    let end = settled(partial).min(settled_brackets(partial, &brackets, &code, &found));
    // An address extends to the next white space, and a token may hold some.
    let end = partial[..end].rfind(char::is_whitespace).unwrap_or_default();
    let torn = brackets.iter().find(|(open, close)| *open < end && close.is_some_and(|at| end <= at));
    let end = torn.map_or(end, |(open, _)| *open);
    let mut page = Page::new(partial, sources, &code);
    page.fill(&found, end, |_| true);
    page.out.trim_end().trim_start_matches(LINE_ENDS).to_owned()
}

/// Returns the end of the part of `text` in which every bracket that more text could make a token or a link is complete.
fn settled_brackets(text: &str, brackets: &[Bracket], code: &[Range<usize>], links: &[Link]) -> usize {
    let mut from = 0;
    for &(open, close) in brackets {
        let link = links.get(links.partition_point(|link| link.at.end <= open));
        let link = link.filter(|link| link.at.contains(&open) && !torn_by_code(&link.at, code));
        match link {
            _ if open < from || containing(code, open).is_some() => (),
            Some(link) if link.at.end < text.len() => from = link.at.end,
            _ if is_complete(&text[open + 1..], close.map(|at| &text[at + 1..])) => (),
            // The mark of a picture belongs to its brackets.
            _ => return open - usize::from(text[..open].ends_with('!')),
        }
    }
    text.len() - usize::from(text.ends_with('!'))
}

/// Returns whether an opening bracket begins neither a link nor a token that is still being written, given the text after
/// it and the text after its closing bracket.
fn is_complete(inside: &str, after: Option<&str>) -> bool {
    match after {
        Some(after) => after.chars().next().is_some_and(|char| char != '('),
        // A token holds only numbers, and no label is so long.
        None => {
            let is_token = |char: char| char.is_ascii_digit() || "sS,; ".contains(char);
            4 * LABEL_MAX < inside.len() && !inside.chars().take(TOKEN_MAX).all(is_token)
        }
    }
}

/// Number of characters after which a bracket without another character than those of a token is taken for a token.
const TOKEN_MAX: usize = 100;

/// Positions of an opening bracket and of its closing one.
type Bracket = (usize, Option<usize>);

/// Returns the brackets of `text`, in the order of their openings.
fn brackets(text: &str) -> Vec<Bracket> {
    let (mut found, mut open) = (Vec::new(), Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => {
                open.push(found.len());
                found.push((at, None));
            }
            b']' => open.pop().into_iter().for_each(|nth: usize| found[nth].1 = Some(at)),
            _ => (),
        }
    }
    found
}

/// Returns true if a link begins or ends in code. A link may hold a span of code in its label.
fn torn_by_code(link: &Range<usize>, code: &[Range<usize>]) -> bool {
    containing(code, link.start).is_some() || containing(code, link.end - 1).is_some()
}

struct Page<'a> {
    answer: &'a str,
    sources: &'a [Source],
    /// Ranges of the answer that are code.
    code: &'a [Range<usize>],
    /// Indexes of the cited sources, in the order of their citation numbers.
    cited: Vec<usize>,
    out: String,
    strange: Vec<String>,
    /// Addresses in the text that no source supports.
    unfound: Vec<String>,
}

impl<'a> Page<'a> {
    fn new(answer: &'a str, sources: &'a [Source], code: &'a [Range<usize>]) -> Self {
        let (cited, out, strange, unfound) = (Vec::new(), String::new(), Vec::new(), Vec::new());
        Page { answer, sources, code, cited, out, strange, unfound }
    }

    /// Copies the answer up to `end` with its citations. A link that crosses `end` is left out, with all that follows.
    fn fill(&mut self, links: &[Link], end: usize, known: impl Fn(&str) -> bool) {
        let mut done = 0;
        for link in links.iter().filter(|link| !torn_by_code(&link.at, self.code)) {
            self.words(done..link.at.start.min(end));
            done = link.at.end;
            if end < done {
                return;
            }
            self.link(link, known(&link.url));
        }
        self.words(done..end);
    }

    /// Copies a part of the answer without links, and replaces its tokens.
    fn words(&mut self, part: Range<usize>) {
        let mut done = part.start;
        let first = self.code.partition_point(|range| range.end <= part.start);
        for code in self.code[first..].iter().take_while(|range| range.start < part.end) {
            self.prose(&self.answer[done..code.start.max(done)]);
            done = code.end.min(part.end);
            self.push(&self.answer[code.start.max(part.start)..done]);
        }
        self.prose(&self.answer[done..part.end]);
    }

    fn prose(&mut self, mut rest: &str) {
        while let Some(open) = rest.find('[') {
            let (before, from) = rest.split_at(open);
            self.push(before);
            let group = from[1..].split_once(']').and_then(|(inner, after)| Some((numbers(inner)?, after)));
            match group {
                Some((group, after)) => {
                    self.cite(&group);
                    rest = after;
                }
                None => {
                    self.push("[");
                    rest = &from[1..];
                }
            }
        }
        self.push(rest);
    }

    /// An address of a source is a citation. Any other stays as the model wrote it.
    fn link(&mut self, link: &Link, known: bool) {
        let label = link.label.as_deref().filter(|label| !label.contains("://"));
        if let Some(group) = label.and_then(numbers) {
            return self.cite(&group);
        }
        let page = key(&link.url);
        let source = self.sources.iter().position(|source| key(&source.url) == page);
        if link.kind == Kind::Page
            && let Some(nth) = source
        {
            if let Some(label) = label {
                self.push(&format!("{label} "));
            }
            return self.cite(&[nth + 1]);
        }
        self.push(&self.answer[link.at.clone()]);
        let is_told = known || source.is_some() || is_local(&link.url);
        if !is_told && !self.unfound.contains(&link.url) {
            self.unfound.push(link.url.clone());
        }
    }

    fn cite(&mut self, group: &[usize]) {
        let mut links = Vec::new();
        for n in group {
            let Some(source) = n.checked_sub(1).and_then(|index| self.sources.get(index)) else {
                self.strange.push(format!("[s{n}]"));
                continue;
            };
            let at = self.cited.iter().position(|index| index + 1 == *n).unwrap_or_else(|| {
                self.cited.push(n - 1);
                self.cited.len() - 1
            });
            links.push(format!("[{}]({})", at + 1, target(&source.url)));
        }
        if links.is_empty() { self.leave_out() } else { self.push(&links.join(" ")) }
    }

    /// Leaves out a token and the space before it.
    fn leave_out(&mut self) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
    }

    fn push(&mut self, words: &str) {
        self.out.push_str(words);
    }

    fn listed(mut self) -> Resolved {
        self.out.truncate(self.out.trim_end().len());
        if !self.cited.is_empty() {
            self.out.push_str("\n\nSources:");
        }
        for (n, nth) in self.cited.iter().enumerate() {
            let Source { url, title } = &self.sources[*nth];
            self.out.push_str(&format!("\n{}. [{title}]({})", n + 1, target(url)));
        }
        if !self.unfound.is_empty() {
            let all: Vec<String> = self.unfound.iter().map(|address| format!("<{address}>")).collect();
            self.out.push_str(&format!("\n\nNot among the sources: {}", all.join(", ")));
        }
        self.strange.append(&mut self.unfound);
        Resolved { text: self.out.trim_start_matches(LINE_ENDS).to_owned(), strange: self.strange }
    }
}

/// Returns true for an address of the reader's own machine, which no search finds.
fn is_local(url: &str) -> bool {
    let host = host(url);
    let name = host.rsplit_once(':').map_or(&*host, |(name, _)| name);
    name == "localhost" || name.starts_with("127.")
}

/// Returns the sources named in brackets, if the brackets contain nothing else: `s1`, or `s1, s2`.
pub(super) fn numbers(inner: &str) -> Option<Vec<usize>> {
    let parts = inner.split([',', ';', ' ']).filter(|part| !part.is_empty());
    let numbers: Option<Vec<usize>> = parts
        .map(|part| {
            let digits = part.strip_prefix(['s', 'S'])?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
        })
        .collect();
    numbers.filter(|numbers| !numbers.is_empty())
}

/// Escapes an address for use as the target of a markdown link.
fn target(url: &str) -> String {
    url.replace('(', "%28").replace(')', "%29")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(n: usize) -> Vec<Source> {
        let one = |n| Source { url: format!("https://e.example/{n}"), title: format!("Page {n}") };
        (1..=n).map(one).collect()
    }

    fn resolved(answer: &str) -> Resolved {
        resolve(answer, &sources(12), |url| url == "https://known.example/x")
    }

    fn is(answer: &str, expected: &str) {
        assert_eq!(resolved(answer), Resolved { text: expected.to_owned(), strange: vec![] }, "{answer}");
    }

    fn drops(answer: &str, expected: &str, strange: &[&str]) {
        let strange = strange.iter().map(|url| (*url).to_owned()).collect();
        assert_eq!(resolved(answer), Resolved { text: expected.to_owned(), strange }, "{answer}");
    }

    /// Returns texts that more text can change in every way: code, links, tokens and brackets.
    fn awkward() -> Vec<String> {
        let parts = [
            "[s1]",
            "[s1",
            ", s2]",
            "[s99]",
            "(https://e.example/3)",
            "[three]",
            " `f[s1]`",
            "``",
            "`",
            "\n```sh\n",
            "\n~~~\n",
            "\n> ",
            "! ",
            "![p](https://e.example/3)",
            " https://e.example/1",
            ". ",
            " <https://e.example/2>",
            "[",
            "]",
            "](",
            " \"a title\")",
            " \n\n",
            "ä ",
            "(",
        ];
        let mut seed = 7_usize;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            parts[(seed >> 33) % parts.len()]
        };
        (0..3_000).map(|n| (0..2 + n % 9).map(|_| next()).collect()).collect()
    }

    #[test]
    fn the_beginning_of_a_text_does_not_depend_on_its_end() {
        let sources = sources(3);
        let mut written = 0;
        for answer in awkward() {
            let whole = resolve(&answer, &sources, |_| true).text;
            for (at, _) in answer.char_indices().chain([(answer.len(), ' ')]) {
                let beginning = resolve_beginning(&answer[..at], &sources);
                assert!(
                    whole.starts_with(&beginning),
                    "{answer:?} to {at}: {beginning:?} does not begin {whole:?}"
                );
                written += usize::from(!beginning.is_empty());
            }
        }
        assert!(3_000 < written, "{written}");
        let long = "[a".repeat(100_000);
        assert_eq!(resolve_beginning(&long, &sources), "");
        let early = resolve_beginning("Porto has six bridges [s2]. The `old` one [s3](", &sources);
        assert_eq!(early, "Porto has six bridges [1](https://e.example/2). The `old` one");
    }

    #[test]
    fn a_token_is_not_a_prefix_of_another() {
        is(
            "Ten [s10]. One [s1]. Ten again [s10].",
            "Ten [1](https://e.example/10). One [2](https://e.example/1). Ten again [1](https://e.example/10).\n\n\
             Sources:\n1. [Page 10](https://e.example/10)\n2. [Page 1](https://e.example/1)",
        );
    }

    #[test]
    fn several_tokens_may_be_adjacent() {
        let list = "\n\nSources:\n1. [Page 1](https://e.example/1)\n2. [Page 2](https://e.example/2)";
        let (one, two) = ("[1](https://e.example/1)", "[2](https://e.example/2)");
        is("A [s1][s2].", &format!("A {one}{two}.{list}"));
        is("A [s1, S2].", &format!("A {one} {two}.{list}"));
        is("A ([s1]; [s2]).", &format!("A ({one}; {two}).{list}"));
    }

    #[test]
    fn tokens_without_a_source_are_removed() {
        drops("A [s13], B [s0].", "A, B.", &["[s13]", "[s0]"]);
        drops(
            "A [s1, s99].",
            "A [1](https://e.example/1).\n\nSources:\n1. [Page 1](https://e.example/1)",
            &["[s99]"],
        );
        drops("A [s99999999999999999999999].", "A [s99999999999999999999999].", &[]);
    }

    #[test]
    fn other_brackets_are_kept() {
        for text in ["a[0], a[i], [], [s], [sx1], [note], [ ] todo, s1, [s1", "", "[[a](b)]"] {
            is(text, text);
        }
    }

    #[test]
    fn an_address_of_a_source_is_a_citation_and_any_other_stays() {
        let list = "\n\nSources:\n1. [Page 3](https://e.example/3)";
        is("A [three](http://www.e.example/3/).", &format!("A three [1](https://e.example/3).{list}"));
        is("A https://e.example/3.", &format!("A [1](https://e.example/3).{list}"));
        is("A [s3](https://made.example/up).", &format!("A [1](https://e.example/3).{list}"));
        is("Your [page](https://known.example/x).", "Your [page](https://known.example/x).");
        is("![p](https://e.example/3) A", "![p](https://e.example/3) A");
        drops(
            "A [page](https://made.example/up), <https://made.example/b>, https://made.example/up.",
            "A [page](https://made.example/up), <https://made.example/b>, https://made.example/up.\n\n\
             Not among the sources: <https://made.example/up>, <https://made.example/b>",
            &["https://made.example/up", "https://made.example/b"],
        );
        let picture = "![p](https://made.example/p.png) A";
        drops(
            picture,
            &format!("{picture}\n\nNot among the sources: <https://made.example/p.png>"),
            &["https://made.example/p.png"],
        );
    }

    #[test]
    fn an_address_of_the_readers_own_machine_needs_no_source() {
        for text in ["Open http://localhost:8080/map.", "[here](http://127.0.0.1/)", "http://localhost"] {
            is(text, text);
        }
        drops(
            "http://localhost.example/x",
            "http://localhost.example/x\n\nNot among the sources: <http://localhost.example/x>",
            &["http://localhost.example/x"],
        );
    }

    #[test]
    fn code_stays_byte_for_byte() {
        for text in [
            "Run `curl http://localhost:8080/health`.",
            "```sh\ncurl http://localhost:8080 # [s1]\n```",
            "a\n\n~~~\nx[s1] = [s2, s3]\nhttps://e.example/3\n~~~\n\nb",
            "``[s1] ` https://e.example/1``",
            "    [a] stays indented, as `[s1]` does",
            "`[see`](http://known.example/x)",
        ] {
            is(text, text);
        }
        is(
            "Call `f[s1]` as in [s2], [`f`](https://known.example/x) and ```[s3]```.",
            "Call `f[s1]` as in [1](https://e.example/2), [`f`](https://known.example/x) and ```[s3]```.\n\n\
             Sources:\n1. [Page 2](https://e.example/2)",
        );
        is(
            "[`f`](https://e.example/3)",
            "`f` [1](https://e.example/3)\n\nSources:\n1. [Page 3](https://e.example/3)",
        );
    }

    #[test]
    fn an_address_with_brackets_stays_one_target() {
        let sources = [Source { url: "https://e.example/a_(b)".to_owned(), title: "A".to_owned() }];
        let text = resolve("A [s1]", &sources, |_| false).text;
        assert_eq!(
            text,
            "A [1](https://e.example/a_%28b%29)\n\nSources:\n1. [A](https://e.example/a_%28b%29)"
        );
    }
}
