//! What looks like a secret: by its shape, by the words before it, or because nobody would write such letters.

use std::{collections::BTreeMap, ops::Range};

use regex::Regex;

/// What is searched for.
#[derive(Clone, Debug)]
pub struct Secrets(Vec<Pattern>);

/// One shape of secrets.
#[derive(Clone, Debug)]
pub struct Pattern {
    what: String,
    /// The secret is its first group, or all of it.
    shape: Regex,
}

/// Shapes that providers document, and words that announce a secret.
const SHAPES: &[(&str, &str)] = &[
    ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)"),
    ("a JSON web token", r"(?-u:\b)eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}"),
    ("a key of a model's provider", r"(?-u:\b)sk-[A-Za-z0-9_-]{16,}"),
    ("a key of Stripe", r"(?-u:\b)[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("a token of GitHub", r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})"),
    ("a token of GitLab", r"(?-u:\b)glpat-[A-Za-z0-9_-]{20,}"),
    ("a key of AWS", r"(?-u:\b)(?:AKIA|ASIA)[0-9A-Z]{16}(?-u:\b)"),
    ("a key of Google", r"(?-u:\b)AIza[A-Za-z0-9_-]{35}"),
    ("a token of Slack", r"(?-u:\b)xox[abeoprs]-[A-Za-z0-9_-]{10,}"),
    (
        "a token of a registry",
        r"(?-u:\b)(?:npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,})",
    ),
    ("a password in a URL", r"://[^\s/:@]+:([^\s/@]{4,})@"),
    ("a bearer token", r"(?i)(?-u:\b)bearer\s+([A-Za-z0-9_.~+/-]{12,}=*)"),
    (
        "what is called a secret",
        r#"(?i)(?:password|passwd|passphrase|secret|api[_-]?key|(?:access|auth|refresh|session)[_-]?(?:key|token)|private[_-]?key)["']?\s*[:=]\s*["']?([^\s"',;&<>{}\[\]]{6,})"#,
    ),
];

/// Names of fields that hold a secret, whatever it looks like.
const NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "token",
    "accesstoken",
    "refreshtoken",
    "authorization",
];

/// The shortest text that is a secret for its letters alone.
const SHORTEST: usize = 20;

impl Pattern {
    /// The secrets that a regular expression finds: its first group, or all that it matches.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn of(shape: &str) -> Result<Self, regex::Error> {
        Ok(Self { what: format!("what fits {shape:?}"), shape: Regex::new(shape)? })
    }
}

impl Secrets {
    /// The shapes that are known, and `more`.
    pub fn and(more: Vec<Pattern>) -> Self {
        let known = SHAPES.iter().filter_map(|(what, shape)| {
            Some(Pattern { what: (*what).to_owned(), shape: Regex::new(shape).ok()? })
        });
        Self(known.chain(more).collect())
    }

    /// The secrets in a text, and what each looks like; none overlaps another.
    pub fn find(&self, text: &str) -> Vec<(Range<usize>, &str)> {
        let mut found = BTreeMap::<usize, (usize, &str)>::new();
        let mut add = |range: Range<usize>, what| {
            let before = found.range(..range.end).next_back().is_some_and(|(_, (end, _))| range.start < *end);
            if !before && !is_placeholder(&text[range.clone()]) {
                found.insert(range.start, (range.end, what));
            }
        };
        for Pattern { what, shape } in &self.0 {
            for it in shape.captures_iter(text) {
                if let Some(secret) = it.get(1).or_else(|| it.get(0)) {
                    add(secret.range(), what);
                }
            }
        }
        for range in words(text).filter(|it| is_random(&text[it.clone()])) {
            add(range, "letters that nobody would write");
        }
        found.into_iter().map(|(start, (end, what))| (start..end, what)).collect()
    }
}

/// Whether a field of this name holds a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    NAMES.contains(&plain.to_lowercase().as_str())
}

/// What stands where a secret was.
pub(crate) fn placeholder(nth: usize) -> String {
    format!("SECRET_{nth}")
}

pub(crate) fn is_placeholder(text: &str) -> bool {
    text.strip_prefix("SECRET_").is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
}

/// Where there are letters as tokens are made of.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_part = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-' | b'+' | b'=');
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        at += bytes[at..].iter().position(|it| is_part(*it))?;
        let length = bytes[at..].iter().position(|it| !is_part(*it)).unwrap_or(bytes.len() - at);
        at += length;
        Some(at - length..at)
    })
}

/// Whether letters are too mixed for a word, a name or an id that people read.
///
/// ## Why not entropy alone
///
/// A long name such as `ask_which_of_the_prompts_2` has as many bits a letter as a token. What names lack is that letters and
/// digits alternate all the time.
fn is_random(word: &str) -> bool {
    if word.len() < SHORTEST || is_uuid(word) {
        return false;
    }
    let parts: Vec<bool> =
        word.bytes().filter(u8::is_ascii_alphanumeric).map(|it| it.is_ascii_digit()).collect();
    let changes = parts.windows(2).filter(|it| it[0] != it[1]).count();
    let is_hex = word.bytes().all(|it| it.is_ascii_hexdigit());
    let least = if is_hex { 3.0 } else { 3.5 };
    parts.len() <= changes * 6 && least <= entropy(word)
}

/// Bits a letter.
fn entropy(word: &str) -> f64 {
    let mut counts = BTreeMap::<u8, u32>::new();
    word.bytes().for_each(|it| *counts.entry(it).or_default() += 1);
    let length = word.len() as f64;
    counts.values().map(|it| f64::from(*it) / length).map(|it| -it * it.log2()).sum()
}

/// Ids of turns and threads tell nobody anything.
fn is_uuid(word: &str) -> bool {
    let dashed = |(n, it): (usize, u8)| {
        if matches!(n, 8 | 13 | 18 | 23) { it == b'-' } else { it.is_ascii_hexdigit() }
    };
    word.len() == 36 && word.bytes().enumerate().all(dashed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        Secrets::and(Vec::new()).find(text).into_iter().map(|(range, _)| &text[range]).collect()
    }

    #[test]
    fn secrets_are_found_and_nothing_else_is() {
        // Put together here, so that nobody takes this file for a leak.
        let key = format!("sk-{}", "Zm9vYmFyMTIzNDU2");
        let github = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let random = format!("{}{}", "q7Zx9Lm2Vt", "8Rk4Wp6Ys1");
        let hex = format!("{}{}", "9f86d081884c7d65", "9a2feaa0c55ad015");
        for secret in [&key, &github, &random, &hex] {
            assert_eq!(found(&format!("it is {secret}, he said")), [secret.as_str()]);
        }
        assert_eq!(found("postgres://ann:hunter2@db/x"), ["hunter2"]);
        assert_eq!(found(r#"{"api_key": "hunter22", "n": 1}"#), ["hunter22"]);
        assert_eq!(found("authorization: Bearer abcdefghijklmnop"), ["abcdefghijklmnop"]);
        for plain in [
            "Book lunch with Ann on Friday, and tell me her address",
            "ask_which_of_the_prompts_2_a_person_chose",
            "https://example.org/2026/11/20/how-to-book-a-flight-in-2026-with-3-children",
            "0198c0de-7b1a-7c3d-9e2f-00112233aabb",
            "the password is wanted",
            "password: SECRET_1, key SECRET_12",
            "PlanReply_with_a_Rather_Long_Name_Of_Version_2",
        ] {
            assert_eq!(found(plain), Vec::<&str>::new(), "{plain}");
        }
        let mine = Secrets::and(vec![Pattern::of(r"\bcase-(\d+)").unwrap()]);
        assert_eq!(mine.find("see case-4711"), [(9..13, "what fits \"\\\\bcase-(\\\\d+)\"")]);
        assert!(Pattern::of("(").is_err());
        assert_eq!(Secrets::and(Vec::new()).0.len(), SHAPES.len(), "every shape is one");
    }
}
