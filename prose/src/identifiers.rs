//! Parameters of closures, and words in the identifiers of tests.

/// Words of identifiers that tests do not use, each with its replacement.
pub const RENAMED: &[(&str, &str)] = &[
    ("room", "api, or the name of the harness; capacity, if that is meant"),
    ("door", "config or address"),
    ("hear", "start_turn or receive"),
    ("hears", "starts or receives"),
    ("heard", "started or received"),
    ("lived", "run_turn or run"),
    ("rung", "enqueued"),
    ("wish", "request"),
    ("hall", "batch_test"),
    ("house", "workers"),
    ("dice", "fault_source"),
    ("storm", "with_faults"),
    ("calm", "without_faults"),
    ("desk", "the kind of server or worker"),
    ("falter", "fail"),
    ("falters", "fails"),
    ("faltered", "failed"),
    ("whoever", "the role: a caller, a worker"),
];

/// Names of test files that do not say what is tested.
pub const RENAMED_FILES: &[&str] =
    &["whose", "looks", "door", "books", "disturbed", "ahead", "lived", "noted", "scene", "faithful"];

/// The only parameter of a closure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Line number, counted from 1.
    pub line: usize,
    /// The identifier without its type.
    pub name: &'a str,
}

/// A part of an identifier, and the identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// Line number, counted from 1.
    pub line: usize,
    /// The part in lower case: `make_room` and `MakeRoom` both have `make` and `room`.
    pub word: String,
    /// The whole identifier.
    pub identifier: &'a str,
}

/// Parameters of all closures that have one parameter and no pattern for it.
pub fn parameters(code: &str) -> Vec<Parameter<'_>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = code[from..].find('|').map(|at| from + at) {
        from = open + 1;
        let Some(close) = code[from..].find('|').filter(|_| opens_closure(&code[..open])) else { continue };
        let (name, line) = (identifier(&code[from..from + close]), 1 + code[..open].matches('\n').count());
        found.extend(name.map(|name| Parameter { line, name }));
        from += close + 1;
    }
    found
}

/// The identifier of a parameter, without `&`, `mut` and its type.
fn identifier(parameter: &str) -> Option<&str> {
    let name = parameter.split(':').next()?.trim().trim_start_matches(['&', ' ']);
    let name = name.strip_prefix("mut ").unwrap_or(name);
    let is_plain = name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    (is_plain && name.starts_with(|first: char| first.is_lowercase())).then_some(name)
}

/// Tells a `|` behind this code that opens a closure from one that separates patterns or combines bits.
fn opens_closure(before: &str) -> bool {
    let before = before.trim_end();
    let last_word = before.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next();
    before.ends_with(['(', ',', '=', '[', '{', '&', '>', ';'])
        || matches!(last_word, Some("move" | "async" | "return"))
}

/// Words of all identifiers.
pub fn words(code: &str) -> Vec<Word<'_>> {
    let lines = code.lines().zip(1..);
    let identifiers = lines.flat_map(|(text, line)| {
        let parts = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        parts.filter(|part| part.starts_with(|first: char| !first.is_numeric())).map(move |part| (line, part))
    });
    let words = identifiers.flat_map(|(line, identifier)| {
        let parts = identifier.split('_').flat_map(humps).filter(|part| !part.is_empty());
        parts.map(move |part| Word { line, word: part.to_lowercase(), identifier })
    });
    words.collect()
}

/// Parts of a name in camel case.
fn humps(name: &str) -> Vec<&str> {
    let starts =
        name.char_indices().filter(|(at, letter)| *at > 0 && letter.is_uppercase()).map(|(at, _)| at);
    let mut ends: Vec<usize> = starts.collect();
    ends.push(name.len());
    let begins = [0].into_iter().chain(ends.clone());
    begins.zip(ends).map(|(begin, end)| &name[begin..end]).collect()
}

/// The name of a test file, if it is one of [`RENAMED_FILES`].
pub fn renamed_file(stem: &str) -> Option<&'static str> {
    RENAMED_FILES.iter().copied().find(|name| *name == stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_parameters(code: &str, expected: &[&str]) {
        let found: Vec<_> = parameters(code).into_iter().map(|parameter| parameter.name).collect();
        assert_eq!(found, expected, "{code}");
    }

    #[test]
    fn parameters_are_identifiers_of_closures() {
        assert_parameters("a.map(|it| it.map(|row: &Row| row))", &["it", "row"]);
        assert_parameters("let f = async |&turn| turn; spawn(move |mut job| job)", &["turn", "job"]);
        assert_parameters("a.map(|(nth, it)| it).filter(|| true).map(|Turn { id }| id)", &[]);
    }

    #[test]
    fn alternatives_and_bits_are_no_closures() {
        assert_parameters("matches!(a, Some(B | c | D) | None)", &[]);
        assert_parameters("let a = b | c | d; matches!(a, \" | it | \")", &[]);
    }

    #[test]
    fn identifiers_consist_of_words() {
        let found = words("make_room(MakeRoom, 7, r)");
        let found: Vec<_> = found.iter().map(|word| (&*word.word, word.identifier)).collect();
        assert_eq!(
            found,
            [
                ("make", "make_room"),
                ("room", "make_room"),
                ("make", "MakeRoom"),
                ("room", "MakeRoom"),
                ("r", "r")
            ]
        );
    }
}
