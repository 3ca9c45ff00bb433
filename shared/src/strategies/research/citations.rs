//! Turns the citations of an answer into links, with a list of the sources at its end.
//!
//! A citation is a token of the engine (`[s1]`), or an address of a source. Everything else stays byte for byte: code,
//! other addresses and other text in brackets.

use std::ops::Range;

use super::{
    code::code,
    links::{Kind, Link, host, key, links},
    sources::Source,
};

/// Answer in the form that a person reads.
#[derive(Debug, PartialEq)]
pub(super) struct Resolved {
    /// Text with links and the list of sources.
    pub(super) text: String,
    /// Removed tokens of no source, and addresses that no source supports.
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
    let (cited, out, strange, unfound) = (Vec::new(), String::new(), Vec::new(), Vec::new());
    let mut page = Page { answer, sources, code: &code, cited, out, strange, unfound };
    let mut done = 0;
    for link in found.iter().filter(|it| !torn_by_code(&it.at, &code)) {
        page.words(done..link.at.start);
        done = link.at.end;
        page.link(link, known(&link.url));
    }
    page.words(done..answer.len());
    page.listed()
}

/// Returns true if a link begins or ends in code. A link may hold a span of code in its label.
fn torn_by_code(link: &Range<usize>, code: &[Range<usize>]) -> bool {
    let within = |at: usize| {
        let before = code.partition_point(|it| it.start <= at);
        code[..before].last().is_some_and(|it| at < it.end)
    };
    within(link.start) || within(link.end - 1)
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

impl Page<'_> {
    /// Copies a part of the answer without links, and replaces its tokens.
    fn words(&mut self, part: Range<usize>) {
        let mut done = part.start;
        let first = self.code.partition_point(|it| it.end <= part.start);
        for code in self.code[first..].iter().take_while(|it| it.start < part.end) {
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
        let label = link.label.as_deref().filter(|it| !it.contains("://"));
        if let Some(group) = label.and_then(numbers) {
            return self.cite(&group);
        }
        let page = key(&link.url);
        let source = self.sources.iter().position(|it| key(&it.url) == page);
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
            let Some(source) = n.checked_sub(1).and_then(|it| self.sources.get(it)) else {
                self.strange.push(format!("[s{n}]"));
                continue;
            };
            let at = self.cited.iter().position(|it| it + 1 == *n).unwrap_or_else(|| {
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
            let all: Vec<String> = self.unfound.iter().map(|it| format!("<{it}>")).collect();
            self.out.push_str(&format!("\n\nNot among the sources: {}", all.join(", ")));
        }
        self.strange.append(&mut self.unfound);
        Resolved { text: self.out.trim_start_matches(['\n', '\r']).to_owned(), strange: self.strange }
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
    let parts = inner.split([',', ';', ' ']).filter(|it| !it.is_empty());
    let numbers: Option<Vec<usize>> = parts
        .map(|it| {
            let digits = it.strip_prefix(['s', 'S'])?;
            digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().ok())?
        })
        .collect();
    numbers.filter(|it| !it.is_empty())
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
        let strange = strange.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(resolved(answer), Resolved { text: expected.to_owned(), strange }, "{answer}");
    }

    #[test]
    fn a_token_is_itself_and_not_the_beginning_of_another() {
        is(
            "Ten [s10]. One [s1]. Ten again [s10].",
            "Ten [1](https://e.example/10). One [2](https://e.example/1). Ten again [1](https://e.example/10).\n\n\
             Sources:\n1. [Page 10](https://e.example/10)\n2. [Page 1](https://e.example/1)",
        );
    }

    #[test]
    fn tokens_may_stand_together() {
        let list = "\n\nSources:\n1. [Page 1](https://e.example/1)\n2. [Page 2](https://e.example/2)";
        let (one, two) = ("[1](https://e.example/1)", "[2](https://e.example/2)");
        is("A [s1][s2].", &format!("A {one}{two}.{list}"));
        is("A [s1, S2].", &format!("A {one} {two}.{list}"));
        is("A ([s1]; [s2]).", &format!("A ({one}; {two}).{list}"));
    }

    #[test]
    fn what_names_no_source_is_taken_out() {
        drops("A [s13], B [s0].", "A, B.", &["[s13]", "[s0]"]);
        drops(
            "A [s1, s99].",
            "A [1](https://e.example/1).\n\nSources:\n1. [Page 1](https://e.example/1)",
            &["[s99]"],
        );
        drops("A [s99999999999999999999999].", "A [s99999999999999999999999].", &[]);
    }

    #[test]
    fn what_is_no_token_stays() {
        for it in ["a[0], a[i], [], [s], [sx1], [note], [ ] todo, s1, [s1", "", "[[a](b)]"] {
            is(it, it);
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
        for it in ["Open http://localhost:8080/map.", "[here](http://127.0.0.1/)", "http://localhost"] {
            is(it, it);
        }
        drops(
            "http://localhost.example/x",
            "http://localhost.example/x\n\nNot among the sources: <http://localhost.example/x>",
            &["http://localhost.example/x"],
        );
    }

    #[test]
    fn code_stays_byte_for_byte() {
        for it in [
            "Run `curl http://localhost:8080/health`.",
            "```sh\ncurl http://localhost:8080 # [s1]\n```",
            "a\n\n~~~\nx[s1] = [s2, s3]\nhttps://e.example/3\n~~~\n\nb",
            "``[s1] ` https://e.example/1``",
            "    [a] stays indented, as `[s1]` does",
            "`[see`](http://known.example/x)",
        ] {
            is(it, it);
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
