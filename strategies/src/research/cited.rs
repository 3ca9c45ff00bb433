//! Reads the text of a model with web search, and adds a token at each page that its provider cites.

use super::{
    links::{key, links},
    sources::{FINDING_MAX, Shelf, cut, defused},
};
use shared::Citation;

/// Maximum number of citations that are read from one finding.
const CITATIONS_MAX: usize = 100;

impl Shelf {
    /// Returns the finding in this text.
    ///
    /// **Invariant:** only pages that the provider cites become sources. The model may have invented any other address
    /// in the text, so its label stays and the address is removed.
    pub(super) fn note_cited(&mut self, words: &str, citations: &[Citation]) -> String {
        let is_address = |citation: &&Citation| {
            links(&citation.url).first().is_some_and(|link| link.at == (0..citation.url.len()))
        };
        let cited: Vec<(&Citation, String)> = citations
            .iter()
            .filter(is_address)
            .take(CITATIONS_MAX)
            .map(|citation| (citation, self.token(&citation.url, Some(&citation.title))))
            .collect();
        let kept = cut(words, FINDING_MAX);
        let (mut page, mut done) = (Page { words: &kept, due: due(words, &cited), out: String::new() }, 0);
        for link in links(&kept) {
            page.plain(done, link.at.start);
            done = link.at.end;
            page.out.push_str(&defused(
                link.label.as_deref().filter(|label| !label.contains("://")).unwrap_or_default(),
            ));
            let token = cited
                .iter()
                .find(|(citation, _)| key(&citation.url) == key(&link.url))
                .map(|(_, token)| token);
            token.into_iter().for_each(|text| page.put(text));
        }
        page.plain(done, kept.len());
        page.rest();
        page.out.trim().to_owned()
    }
}

/// Returns the tokens of the pages whose addresses are not in the text, each with its position, last position first.
/// Providers count positions in characters.
fn due(words: &str, cited: &[(&Citation, String)]) -> Vec<(usize, String)> {
    let linked: Vec<String> = links(words).iter().map(|link| key(&link.url)).collect();
    let place = |end: usize| match words.char_indices().nth(end) {
        Some((at, _)) if 0 < end => at,
        Some(_) | None => words.len(),
    };
    let missing = cited.iter().filter(|(citation, _)| !linked.contains(&key(&citation.url)));
    let mut due: Vec<(usize, String)> =
        missing.map(|(citation, token)| (place(citation.end), token.clone())).collect();
    due.sort_by_key(|(at, _)| *at);
    due.dedup();
    due.reverse();
    due
}

struct Page<'a> {
    words: &'a str,
    due: Vec<(usize, String)>,
    out: String,
}

impl Page<'_> {
    /// Writes the text between two positions, with the tokens that belong there.
    fn plain(&mut self, mut from: usize, to: usize) {
        while let Some((at, token)) = self.due.pop_if(|(at, _)| *at < to) {
            // The provider's positions do not count the mark at the end of truncated text.
            let at = self.words.floor_char_boundary(at.max(from));
            self.out.push_str(&defused(&self.words[from..at]));
            self.put(&token);
            from = at;
        }
        self.out.push_str(&defused(&self.words[from..to]));
    }

    fn put(&mut self, token: &str) {
        if !self.out.is_empty() && !self.out.ends_with([' ', '(', '\n']) {
            self.out.push(' ');
        }
        self.out.push_str(token);
    }

    /// Writes the tokens that belong at or after the end.
    fn rest(&mut self) {
        while let Some((_, token)) = self.due.pop() {
            self.put(&token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn citation(url: &str, title: &str, end: usize) -> Citation {
        Citation { url: url.to_owned(), title: title.to_owned(), end }
    }

    fn read(words: &str, citations: &[Citation]) -> (String, Vec<String>) {
        let mut shelf = Shelf::new(&[]);
        let finding = shelf.note_cited(words, citations);
        (finding, shelf.into_sources().iter().map(|it| format!("{} <{}>", it.title, it.url)).collect())
    }

    #[test]
    fn what_is_cited_is_a_source_and_what_is_only_said_is_none() {
        let words =
            "The tide is high ([a.example](https://a.example/t?utm_source=openai)), says https://made.up/x.";
        let (finding, sources) =
            read(words, &[citation("https://a.example/t?utm_source=openai", "Tides", 70)]);
        assert_eq!(finding, "The tide is high (a.example [s1]), says .");
        assert_eq!(sources, ["Tides <https://a.example/t?utm_source=openai>"]);
    }

    #[test]
    fn a_citation_without_a_link_stands_where_its_words_end() {
        let (finding, sources) = read(
            "Hoch ist die Flut. Der Mond zieht.",
            &[
                citation("https://b.example/m", "Moon", 34),
                citation("https://a.example/t", "Tides", 18),
                citation("https://c.example", "", 0),
                citation("https://d.example", "", 9_000),
                citation("javascript:alert(1)", "Evil", 3),
            ],
        );
        assert_eq!(finding, "Hoch ist die Flut. [s2] Der Mond zieht. [s1] [s3] [s4]");
        let told = ["Moon <https://b.example/m>", "Tides <https://a.example/t>"];
        assert_eq!(sources[..2], told);
        assert_eq!(sources.len(), 4, "{sources:?}");
    }

    #[test]
    fn a_citation_where_the_words_are_cut_off_is_kept() {
        let words = "word ".repeat(FINDING_MAX);
        for end in FINDING_MAX - 3..FINDING_MAX + 3 {
            let (finding, sources) = read(&words, &[citation("https://a.example", "A", end)]);
            assert!(
                finding.contains("[s1]") && finding.contains('…'),
                "{end}: {}",
                &finding[FINDING_MAX - 20..]
            );
            assert_eq!(sources, ["A <https://a.example>"]);
        }
    }

    #[test]
    fn a_page_is_cited_once_at_one_place_and_cannot_forge_tokens() {
        let twice = citation("https://a.example", "[s9] A", 6);
        let (finding, sources) = read("Flööd. [s7] more", &[twice.clone(), twice]);
        assert_eq!(finding, "Flööd. [s1] (s7) more");
        assert_eq!(sources, ["(s9) A <https://a.example>"]);
    }
}
