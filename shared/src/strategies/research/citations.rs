//! Turns the tokens of an answer into links, with a list of the sources at its end.

use super::{
    links::{Kind, Link, key, links},
    sources::Source,
};

/// Answer in the form that a person reads.
#[derive(Debug, PartialEq)]
pub(super) struct Resolved {
    /// Text with links and the list of sources.
    pub(super) text: String,
    /// Removed references that no source supports.
    pub(super) strange: Vec<String>,
}

impl Resolved {
    /// Returns a one-line note about the removed references, if there are any.
    pub(super) fn why(&self) -> Option<String> {
        let what = self.strange.join(", ");
        (!what.is_empty()).then(|| format!("taken out of the answer, as nobody found it: {what}"))
    }
}

/// Turns every token of `answer` into a link to its source.
///
/// **Invariant:** every address in the result is one of `sources`, or one that `known` accepts as part of the
/// conversation.
pub(super) fn resolve(answer: &str, sources: &[Source], known: impl Fn(&str) -> bool) -> Resolved {
    let mut page = Page { sources, cited: Vec::new(), out: String::new(), strange: Vec::new() };
    let mut done = 0;
    for link in links(answer) {
        page.words(&answer[done..link.at.start]);
        done = link.at.end;
        page.link(&link, &answer[link.at.clone()], known(&link.url));
    }
    page.words(&answer[done..]);
    page.listed()
}

struct Page<'a> {
    sources: &'a [Source],
    /// Indexes of the cited sources, in the order of their citation numbers.
    cited: Vec<usize>,
    out: String,
    strange: Vec<String>,
}

impl Page<'_> {
    fn words(&mut self, mut rest: &str) {
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

    /// A link that the model wrote itself stays if its address is known. Otherwise only its text stays.
    fn link(&mut self, link: &Link, whole: &str, known: bool) {
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
        if known {
            return self.push(whole);
        }
        self.strange.push(link.url.clone());
        match label {
            Some(label) => self.push(label),
            None => self.leave_out(),
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

    /// Leaves out a reference and the space before it.
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
        Resolved { text: self.out.trim().to_owned(), strange: self.strange }
    }
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
    fn an_address_is_a_source_or_was_spoken_of_or_goes() {
        let list = "\n\nSources:\n1. [Page 3](https://e.example/3)";
        is("A [three](http://www.e.example/3/).", &format!("A three [1](https://e.example/3).{list}"));
        is("A https://e.example/3.", &format!("A [1](https://e.example/3).{list}"));
        is("A [s3](https://made.example/up).", &format!("A [1](https://e.example/3).{list}"));
        is("Your [page](https://known.example/x).", "Your [page](https://known.example/x).");
        drops(
            "A [page](https://made.example/up), <https://made.example/b>.",
            "A page,.",
            &["https://made.example/up", "https://made.example/b"],
        );
        drops("![p](https://made.example/p.png) A", "p A", &["https://made.example/p.png"]);
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
