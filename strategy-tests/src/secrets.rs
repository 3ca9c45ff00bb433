//! Detects secrets by shape, by the words before them, or by random letters; and personal data by the shapes of `personal`.

use std::{cmp::Reverse, collections::BTreeMap, ops::Range, sync::LazyLock};

use regex::Regex;

use crate::{
    personal,
    placeholder::{Placeholder, is_placeholder},
};

/// Patterns of secrets and of personal data, beside the known ones.
#[derive(Clone, Debug)]
pub struct Secrets(Vec<Pattern>);

/// A pattern of secrets.
#[derive(Clone, Debug)]
pub struct Pattern {
    what: String,
    /// The secret is the first group of the expression, or the whole match.
    shape: Regex,
    stands: Placeholder,
    test: Test,
}

/// Condition on a match.
#[derive(Clone, Copy, Debug)]
enum Test {
    /// The matched value is one if the function accepts it.
    Itself(MayBe),
    /// The match only announces a value: the value after it is one if the function accepts it.
    After(MayBe),
}

/// Kind of a value that a fixture does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind<'a> {
    /// Description of the value.
    pub what: &'a str,
    /// Form of its placeholder.
    pub stands: Placeholder,
}

/// Shapes documented by providers, and words that announce a secret.
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
    ("a token of Discord", r"(?-u:\b)[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    ("a token of Airtable", r"(?-u:\b)pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    ("a key of SendGrid", r"(?-u:\b)SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("a token of Telegram", r"(?-u:\b)[0-9]{8,10}:[A-Za-z0-9_-]{35}"),
    ("a key of Azure", r"(?i)(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})"),
    ("a signature of Azure", r"[?&]sig=([A-Za-z0-9%+/]{30,}(?:%3[Dd]|=)*)"),
    ("a password in a URL", r"://[^\s/:@]+:([^\s/@]{4,})@"),
    ("a bearer token", r"(?i)(?-u:\b)bearer\s+([A-Za-z0-9_.~+/-]{12,}=*)"),
    (
        "a cookie",
        r#"(?i)(?-u:\b)cookie\\*["']?\s*[:=]\s*\\*["']?([\w.-]+=[^\s"';,\\]+(?:;\s*[\w.-]+(?:=[^\s"';,\\]*)?)*)"#,
    ),
];

/// Accepts values that may be secrets.
type MayBe = fn(&str) -> bool;

/// Shapes that other texts have too: kind of secret, expression, and a test for the value.
const CHECKED: &[(&str, &str, MayBe)] =
    &[("a secret key of AWS", r"(?-u:\b)[A-Za-z0-9/+]{40}(?-u:\b)", |value| {
        // A path of words has less.
        is_mixed(value) && value.bytes().any(|byte| byte.is_ascii_lowercase()) && 4.5 <= entropy(value)
    })];

/// Words that announce a secret: kind of secret, expression, and a test for the value after it.
const ANNOUNCED: &[(&str, &str, MayBe)] = &[
    (
        "what is called a secret",
        r#"(?i)(?:password|passwd|passphrase|secret|api[_-]?key|(?:access|auth|refresh|session)[_-]?(?:key|token)|private[_-]?key)\\*["']?\s*[:=]\s*"#,
        |value| LEAST <= value.chars().count(),
    ),
    // In a shell, `pwd` is a folder.
    ("what is called a secret", r#"(?i)(?-u:\b)pwd\\*["']?\s*[:=]\s*"#, |value| {
        LEAST <= value.chars().count() && !value.starts_with(['/', '~', '.'])
    }),
    // Parsers have tokens too, and count them.
    (
        "what is called a token",
        r#"(?i)(?-u:\b)(?:(?:api|bearer|csrf|id)[_-]?)?token\\*["']?\s*[:=]\s*"#,
        is_mixed,
    ),
    (
        "what is called an authorization",
        r#"(?i)authorization\\*["']?\s*[:=]\s*(?:\\*["']?(?:token|api-?key|key)\s+)?"#,
        is_mixed,
    ),
    ("what is called an authorization", r#"(?i)authorization\\*["']?\s*[:=]\s*\\*["']?basic\s+"#, |value| {
        let camel = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
        is_mixed(value)
            || (LEAST <= value.len() && (value.ends_with('=') || value.as_bytes().windows(2).any(camel)))
    }),
];

/// Names of fields that always contain a secret.
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
    "cookie",
    "setcookie",
    "pwd",
];

/// Minimum length of an announced secret.
const LEAST: usize = 6;

/// Minimum length of a token.
const LEAST_MIXED: usize = 8;

/// Minimum length of a text that is a secret by its letters alone.
const SHORTEST: usize = 20;

/// Minimum length of a part of a key that has no digit.
const LONG: usize = 10;

impl Pattern {
    /// Compiles a regular expression. The secret is its first group, or the whole match.
    ///
    /// # Errors
    ///
    /// The expression is invalid.
    pub fn of(shape: &str) -> Result<Self, regex::Error> {
        let (what, test) = (format!("what fits {shape:?}"), Test::Itself(|_| true));
        Ok(Self { what, shape: Regex::new(shape)?, stands: Placeholder::Secret, test })
    }

    /// A person's name, in any letter case.
    ///
    /// # Errors
    ///
    /// The name is too long for an expression.
    pub fn of_name(name: &str) -> Result<Self, regex::Error> {
        let (what, stands, shape) = personal::of_name(name);
        Ok(Self { what: what.to_owned(), shape: Regex::new(&shape)?, stands, test: Test::Itself(|_| true) })
    }
}

/// The known patterns, compiled when a text is first searched: that takes longer than all else that most commands do.
static KNOWN: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let secret = Placeholder::Secret;
    let shapes = SHAPES.iter().map(|(what, shape)| (*what, *shape, secret, Test::Itself(|_| true)));
    let announced =
        ANNOUNCED.iter().map(|(what, shape, is_value)| (*what, *shape, secret, Test::After(*is_value)));
    let checked = CHECKED.iter().map(|(what, shape, test)| (*what, *shape, secret, Test::Itself(*test)));
    let of_people =
        personal::SHAPES.iter().map(|it| (it.what, it.shape, it.stands, Test::Itself(it.accepts)));
    let known =
        shapes.chain(checked).chain(announced).chain(of_people).filter_map(|(what, shape, stands, test)| {
            Some(Pattern { what: what.to_owned(), shape: Regex::new(shape).ok()?, stands, test })
        });
    known.collect()
});

impl Pattern {
    /// Finds the values that fit.
    fn find<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (Range<usize>, Kind<'a>)> {
        let kind = Kind { what: &self.what, stands: self.stands };
        self.shape.captures_iter(text).filter_map(move |captures| {
            let all = captures.get(0)?;
            let (range, accepts) = match self.test {
                Test::Itself(accepts) => (captures.get(1).unwrap_or(all).range(), accepts),
                Test::After(accepts) => (value(text, all.end()), accepts),
            };
            accepts(&text[range.clone()]).then_some((range, kind))
        })
    }
}

impl Secrets {
    /// The known patterns, and `more`.
    pub fn and(more: Vec<Pattern>) -> Self {
        Self(more)
    }

    /// Finds secrets and personal data in a text, with their kinds. Overlapping matches become one, of the longest match's kind.
    pub fn find<'a>(&'a self, text: &'a str) -> Vec<(Range<usize>, Kind<'a>)> {
        let patterns = KNOWN.iter().chain(&self.0);
        let mut found: Vec<_> = patterns.flat_map(|pattern| pattern.find(text)).collect();
        let random = words(text).filter(|word| is_random(&text[word.clone()]));
        found.extend(random.map(|range| (widened(text, range), RANDOM)));
        found.retain(|(range, _)| !range.is_empty() && !is_placeholder(&text[range.clone()]));
        found.sort_by_key(|(range, _)| (range.start, Reverse(range.end)));
        let mut united = Vec::<(Range<usize>, usize, Kind<'a>)>::new();
        for (next, kind) in found {
            match united.last_mut() {
                Some((range, longest, of)) if next.start < range.end => {
                    if *longest < next.len() {
                        (*longest, *of) = (next.len(), kind);
                    }
                    range.end = range.end.max(next.end);
                }
                Some(_) | None => united.push((next.clone(), next.len(), kind)),
            }
        }
        united.into_iter().map(|(range, _, kind)| (range, kind)).collect()
    }
}

const RANDOM: Kind<'static> = Kind { what: "random letters", stands: Placeholder::Secret };

/// Adds the parts of a key that `/`, `+` or `.` separates from random letters, if they are as mixed as those. Parts of paths are words.
fn widened(text: &str, mut range: Range<usize>) -> Range<usize> {
    let is_joint = |letter: char| matches!(letter, '/' | '.');
    let is_part = |part: &str| {
        let has = |what: fn(&u8) -> bool| part.bytes().any(|byte| what(&byte));
        has(u8::is_ascii_lowercase)
            && has(u8::is_ascii_uppercase)
            && (has(u8::is_ascii_digit) || LONG <= part.len())
    };
    let ends = |letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '_' | '-' | '+' | '=');
    while let Some(rest) = text[range.end..].strip_prefix(is_joint) {
        let part = &rest[..rest.find(ends).unwrap_or(rest.len())];
        if !is_part(part) {
            break;
        }
        range.end += 1 + part.len();
    }
    while let Some(before) = text[..range.start].strip_suffix(is_joint) {
        let part = &before[before.rfind(ends).map_or(0, |at| at + 1)..];
        if !is_part(part) {
            break;
        }
        range.start -= 1 + part.len();
    }
    range
}

/// The value that begins at `from`: a quoted text up to its closing quote on the same line, else everything up to a
/// separator.
///
/// In nested JSON a quote follows backslashes, and a quote that belongs to the value follows more of them.
fn value(text: &str, from: usize) -> Range<usize> {
    let rest = &text[from..];
    let depth = rest.len() - rest.trim_start_matches('\\').len();
    let Some(quote) = rest[depth..].chars().next().filter(|letter| matches!(letter, '"' | '\'')) else {
        return bare(rest, from);
    };
    let (start, value) = (from + depth + 1, &rest[depth + 1..]);
    for (at, _) in value.match_indices(quote).take_while(|(at, _)| !value[..*at].contains('\n')) {
        let slashes = at - value[..at].trim_end_matches('\\').len();
        if slashes < depth {
            return start..start + at - slashes;
        }
        if slashes % (2 * (depth + 1)) == depth {
            return start..start + at - depth;
        }
    }
    bare(value, start)
}

fn bare(value: &str, from: usize) -> Range<usize> {
    let separates = |letter: char| letter.is_whitespace() || "\"',;&<>{}[]".contains(letter);
    let value = &value[..value.find(separates).unwrap_or(value.len())];
    from..from + value.trim_end_matches('\\').len()
}

/// Reports whether letters and digits are mixed, as in no word.
fn is_mixed(value: &str) -> bool {
    let has = |what: fn(&char) -> bool| value.chars().any(|letter| what(&letter));
    LEAST_MIXED <= value.len()
        && has(char::is_ascii_digit)
        && has(char::is_ascii_alphabetic)
        && !has(|letter| letter.is_whitespace())
}

/// Reports whether a field of this name contains a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    NAMES.contains(&plain.to_lowercase().as_str())
}

/// Ranges of the characters that tokens consist of.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'=');
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        at += bytes[at..].iter().position(|byte| is_part(*byte))?;
        let length = bytes[at..].iter().position(|byte| !is_part(*byte)).unwrap_or(bytes.len() - at);
        at += length;
        Some(at - length..at)
    })
}

/// Reports whether letters are too mixed for a word, a name or an id.
///
/// ## Why not entropy alone
///
/// A long name such as `ask_which_of_the_prompts_2` has as many bits per letter as a token. In a token, letters and
/// digits also alternate frequently.
fn is_random(word: &str) -> bool {
    if word.len() < SHORTEST || is_uuid(word) {
        return false;
    }
    let parts: Vec<bool> =
        word.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.is_ascii_digit()).collect();
    let changes = parts.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let least = if is_hex { 3.0 } else { 3.5 };
    parts.len() <= changes * 6 && least <= entropy(word)
}

/// Entropy in bits per letter.
fn entropy(word: &str) -> f64 {
    let mut counts = BTreeMap::<u8, u32>::new();
    word.bytes().for_each(|byte| *counts.entry(byte).or_default() += 1);
    let length = word.len() as f64;
    counts.values().map(|count| f64::from(*count) / length).map(|share| -share * share.log2()).sum()
}

/// Ids of turns and threads are no secrets.
fn is_uuid(word: &str) -> bool {
    let dashed = |(n, byte): (usize, u8)| {
        if matches!(n, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() }
    };
    word.len() == 36 && word.bytes().enumerate().all(dashed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        Secrets::and(Vec::new()).find(text).into_iter().map(|(range, _)| &text[range]).collect()
    }

    fn secret(what: &str) -> Kind<'_> {
        Kind { what, stands: Placeholder::Secret }
    }

    #[test]
    fn secrets_are_captured_and_nothing_else_is() {
        // Concatenated, so that scanners do not report this file.
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
        for (secret, text) in [
            ("hunter22", r#"{"body":"{\"password\":\"hunter22\"}"}"#),
            ("hunter22", r#"{\"a\":\"{\\\"password\\\": \\\"hunter22\\\"}\"}"#),
            ("pa,ss;w<o>r{d}[1]&", r#"password: "pa,ss;w<o>r{d}[1]&", and more"#),
            ("it's, so", r#"{"secret":"it's, so"}"#),
            ("say \"x\", so", "passphrase='say \"x\", so'"),
            (r#"a\"b,c\\"#, r#"{"password":"a\"b,c\\","n":"x"}"#),
            (r#"a\\\"b,c"#, r#"{\"password\":\"a\\\"b,c\",\"n\":\"x\"}"#),
            ("hunter22", r#"the "password: hunter22""#),
            ("unclosed1", "password: 'unclosed1, and\nit's more"),
            ("12345678", r#"{"password": 12345678, "n": 1}"#),
            ("hunter22", "pwd=hunter22"),
            ("ab12cd34", r#"{"token":"ab12cd34"}"#),
            ("ab12cd34", "https://example.org/?token=ab12cd34&n=1"),
            ("ab12cd34", "X-Csrf-Token: ab12cd34"),
            ("ab12cd34", "authorization: ab12cd34"),
            ("ab12cd34", "Authorization: token ab12cd34"),
            ("YW5uOmh1bnRlcg==", "Authorization: Basic YW5uOmh1bnRlcg=="),
            ("dXNlcjpwYXNz", r#"{\"authorization\":\"Basic dXNlcjpwYXNz\"}"#),
            ("sid=abc; theme=dark", "cookie: sid=abc; theme=dark\naccept: */*"),
            ("sid=abc; Path=/; HttpOnly", r#"{"Set-Cookie": "sid=abc; Path=/; HttpOnly"}"#),
        ] {
            assert_eq!(found(text), [secret], "{text}");
        }
        for plain in [
            r#"{"max_tokens": 100, "total_tokens": 123456789}"#,
            "tokens: 5, max_tokens=100000000",
            "put the source's token in square brackets: s1",
            "token: whitespace",
            r#"{"token": "the 2nd of them", "logprob": -0.1}"#,
            r#"{"next_page_token": ""}"#,
            "authorization: required",
            "authorization: Basic authentication",
            "the cookie: eat it",
            "PWD=/home/ann/project",
            r#"{"password": "SECRET_1", "cookie": "SECRET_2"}"#,
            r#"{\"password\": \"SECRET_1\"}"#,
            r#"{"password":"","next":"of no use"}"#,
        ] {
            assert_eq!(found(plain), Vec::<&str>::new(), "{plain}");
        }
        let mine = Secrets::and(vec![Pattern::of(r"ACME\{[^}]*\}").unwrap()]);
        let whole = format!("ACME{{sk-{}:rest}}", "abcdefghijklmnopqr");
        assert_eq!(
            mine.find(&format!("see {whole}")),
            [(4..4 + whole.len(), secret("what fits \"ACME\\\\{[^}]*\\\\}\""))]
        );
        let mine = Secrets::and(["one two", "two three!"].map(|shape| Pattern::of(shape).unwrap()).to_vec());
        assert_eq!(mine.find("no one two three!"), [(3..17, secret("what fits \"two three!\""))]);
        let mine = Secrets::and(vec![Pattern::of(r"\bcase-(\d+)").unwrap()]);
        assert_eq!(mine.find("see case-4711"), [(9..13, secret("what fits \"\\\\bcase-(\\\\d+)\""))]);
        assert!(Pattern::of("(").is_err());
        let all = SHAPES.len() + CHECKED.len() + ANNOUNCED.len() + personal::SHAPES.len();
        assert_eq!(KNOWN.len(), all, "every shape is one");
    }
}
