//! Finds web addresses in text, with their labels, and recognizes equal ones.

use std::ops::Range;

/// Address in a text.
#[derive(Debug, PartialEq)]
pub(super) struct Link {
    /// Range to replace, including the markup.
    pub(super) at: Range<usize>,
    /// Address without markup.
    pub(super) url: String,
    /// Link text, if it differs from the address.
    pub(super) label: Option<String>,
    /// Kind of the link: a page or a picture.
    pub(super) kind: Kind,
}

/// Purpose of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The address names a page.
    Page,
    /// The address shows a picture.
    Picture,
}

/// Maximum length of a link's label, in characters. Bounds the backward search for each label in a long text.
pub(super) const LABEL_MAX: usize = 1_000;

/// Returns every address in `text`, in order: bare, in angle brackets, or as a markdown link.
///
/// **Invariant:** no two links overlap, whatever the text, so a caller can replace them and copy the text between them.
pub(super) fn links(text: &str) -> Vec<Link> {
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::<Link>::new();
    let mut from = 0;
    while let Some(colon) = lower[from..].find("://").map(|at| from + at) {
        let scheme = ["https", "http"].into_iter().find(|name| lower[from..colon].ends_with(name));
        let Some(start) = scheme.map(|name| colon - name.len()) else {
            from = colon + 1;
            continue;
        };
        let end = end_of(text, start);
        from = end;
        let within_a_word = text[..start].ends_with(|char: char| char.is_ascii_alphanumeric());
        let url = &text[start..end];
        if within_a_word || host(url).is_empty() {
            continue;
        }
        // A label that begins within another link is none: the bracket is part of that link's title.
        let torn = |link: &Link| {
            let before = found.iter().rfind(|other| other.at.start < link.at.start);
            before.is_some_and(|other| link.at.start < other.at.end)
        };
        let link = markdown(text, start, end).filter(|link| !torn(link)).unwrap_or_else(|| {
            let angled = text[..start].ends_with('<') && text[end..].starts_with('>');
            let at = if angled { start - 1..end + 1 } else { start..end };
            Link { at, url: url.to_owned(), label: None, kind: Kind::Page }
        });
        // An address that is the label of another link is only the name of that link.
        while found.last().is_some_and(|other| link.at.start <= other.at.start) {
            found.pop();
        }
        from = link.at.end;
        found.push(link);
    }
    found
}

/// Returns the end of the address that starts at `start`, without the punctuation of the sentence.
fn end_of(text: &str, start: usize) -> usize {
    let mut open = 0_i32;
    let stops = |char: char| {
        char.is_whitespace()
            || "<>\"'`{}|\\^[]".contains(char)
            || char.is_control()
            || (!char.is_ascii() && !char.is_alphanumeric())
    };
    let mut end = text.len();
    for (at, char) in text[start..].char_indices() {
        match char {
            '(' => open += 1,
            ')' => open -= 1,
            _ => (),
        }
        if open < 0 || stops(char) {
            end = start + at;
            break;
        }
    }
    start + text[start..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '~']).len()
}

/// Returns the markdown link around the address at this position, if there is one.
fn markdown(text: &str, start: usize, end: usize) -> Option<Link> {
    let before = text[..start].strip_suffix('<').unwrap_or(&text[..start]).strip_suffix("](")?;
    let mut depth = 0_u32;
    let (open, _) = before.char_indices().rev().take(LABEL_MAX).find(|(_, char)| match char {
        ']' => {
            depth += 1;
            false
        }
        '[' if depth == 0 => true,
        '[' => {
            depth -= 1;
            false
        }
        _ => false,
    })?;
    let after = text[end..].strip_prefix('>').unwrap_or(&text[end..]);
    let title = after.trim_start_matches(' ');
    let after = match title.strip_prefix('"').and_then(|title| title.split_once('"')) {
        Some((_, rest)) => rest,
        None => after,
    };
    let rest = after.trim_start_matches(' ').strip_prefix(')')?;
    let picture = before[..open].ends_with('!');
    let label = before[open + 1..].trim();
    Some(Link {
        at: open - usize::from(picture)..text.len() - rest.len(),
        url: text[start..end].to_owned(),
        label: (!label.is_empty()).then(|| label.to_owned()),
        kind: if picture { Kind::Picture } else { Kind::Page },
    })
}

/// Returns the host of an address without a leading `www.`, or an empty text if there is none.
pub(super) fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default().to_lowercase();
    let host = host.strip_suffix(":443").or(host.strip_suffix(":80")).unwrap_or(&host);
    let host = host.strip_prefix("www.").unwrap_or(host);
    if host.contains(|char: char| char.is_alphanumeric()) { host.to_owned() } else { String::new() }
}

/// Query parameters that track the origin of a visit and do not change the page.
const TRACKING: &[&str] = &["gclid", "fbclid", "msclkid", "mc_cid", "mc_eid", "igshid"];

/// Returns a key that is equal for two addresses of the same page.
pub(super) fn key(url: &str) -> String {
    let (page, fragment) = url.split_once('#').unwrap_or((url, ""));
    // A fragment that looks like a path names a page of its own. Any other fragment is a position on the page.
    let fragment = if fragment.starts_with(['!', '/']) { fragment } else { "" };
    let rest = page.split_once("://").map_or("", |(_, rest)| rest);
    let path = rest.find(['/', '?']).map_or("", |at| &rest[at..]);
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let tracks = |parameter: &&str| {
        let name = parameter.split('=').next().unwrap_or_default();
        name.starts_with("utm_") || TRACKING.contains(&name)
    };
    let query: Vec<&str> =
        query.split('&').filter(|parameter| !parameter.is_empty() && !tracks(parameter)).collect();
    format!("{}{}?{}#{fragment}", host(url), path.trim_end_matches('/'), query.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<(String, String, Option<String>)> {
        links(text).into_iter().map(|link| (text[link.at].to_owned(), link.url, link.label)).collect()
    }

    fn one(text: &str, at: &str, url: &str, label: Option<&str>) {
        assert_eq!(told(text), [(at.to_owned(), url.to_owned(), label.map(str::to_owned))], "{text}");
    }

    #[test]
    fn addresses_are_found_wherever_they_stand() {
        one("see https://a.example/b?c=d, then", "https://a.example/b?c=d", "https://a.example/b?c=d", None);
        one("(https://a.example/b_(c)).", "https://a.example/b_(c)", "https://a.example/b_(c)", None);
        one("é <HTTPS://A.example/b> é", "<HTTPS://A.example/b>", "HTTPS://A.example/b", None);
        one("**https://a.example**", "https://a.example", "https://a.example", None);
        one("{'url': 'https://a.example/b'}", "https://a.example/b", "https://a.example/b", None);
        one("在https://a.example/é。是", "https://a.example/é", "https://a.example/é", None);
        one(
            "x [A [b]](https://a.example/b \"t\") y",
            "[A [b]](https://a.example/b \"t\")",
            "https://a.example/b",
            Some("A [b]"),
        );
        one("[A](<https://a.example/b>)", "[A](<https://a.example/b>)", "https://a.example/b", Some("A"));
        one(
            "[https://a.example](https://a.example/b)",
            "[https://a.example](https://a.example/b)",
            "https://a.example/b",
            Some("https://a.example"),
        );
        one("A](https://a.example)", "https://a.example", "https://a.example", None);
        assert!(told("xhttps://a.example https:// http://. ftp://a.example").is_empty());
        assert_eq!(links("![p](https://a.example/p.png)")[0].kind, Kind::Picture);
        let both = told("[A](https://a.example) [B](https://b.example)");
        assert_eq!(
            both.iter().map(|pair| &*pair.0).collect::<Vec<_>>(),
            ["[A](https://a.example)", "[B](https://b.example)"]
        );
    }

    #[test]
    fn a_bracket_in_a_title_opens_no_link() {
        let all = |text: &str| told(text).into_iter().map(|(at, ..)| at).collect::<Vec<_>>();
        let titled = "[A](http://a.b \"t[\")";
        assert_eq!(all("[A](http://a.b \"t[\") x](http://b.c)"), [titled, "http://b.c"]);
        assert_eq!(all("[A](http://a.b \"t[\") x](<http://b.c>)"), [titled, "<http://b.c>"]);
        assert_eq!(all("[A](http://a.b \"t![\")](http://b.c)"), ["[A](http://a.b \"t![\")", "http://b.c"]);
        assert_eq!(
            all("[A](http://a.b \"t[\") http://b.c x](http://c.d)"),
            [titled, "http://b.c", "http://c.d"]
        );
    }

    /// A page may be hostile. Each of these texts once took seconds.
    #[test]
    fn long_texts_take_linear_time() {
        for (piece, many) in [("http://a ", 100_000), ("](http://a) ", 80_000), ("[](http://a \"", 80_000)] {
            let found = links(&piece.repeat(many)).len();
            assert!(many / 2 <= found, "{found} of {piece:?}");
        }
    }

    /// Tries eight pieces of markdown in every order, enough for a link that begins in the title of another.
    #[test]
    fn links_never_overlap() {
        const PARTS: [&str; 8] =
            ["[", "](http://a", "](<http://b>", " \"![", "é\"", "\")", ")", "<http://c>"];
        for nth in 0..PARTS.len().pow(6) {
            let text: String = (0..6).map(|at| PARTS[nth / PARTS.len().pow(at) % PARTS.len()]).collect();
            let mut done = 0;
            for Link { at, url, .. } in links(&text) {
                assert!(done <= at.start && at.start < at.end, "{at:?} after {done} in {text:?}");
                assert!(text[at.clone()].contains(&url), "{at:?} in {text:?}");
                done = at.end;
            }
        }
    }

    #[test]
    fn one_page_has_one_key() {
        let same = [
            "https://www.A.example/b/",
            "http://a.example/b",
            "https://a.example:443/b#part",
            "https://a.example/b?utm_source=x&gclid=1",
            "https://ann@a.example/b#:~:text=x",
        ];
        assert!(same.iter().all(|url| key(url) == key(same[0])), "{:?}", same.map(key));
        let others = [
            "https://a.example/bc",
            "https://a.example/B",
            "https://a.example/b?p=1",
            "https://a.example/b#/c",
            "https://a.example:8080/b",
        ];
        assert!(others.iter().all(|url| key(url) != key(same[0])), "{:?}", others.map(key));
    }
}
