//! Fingerprints of errors: an error message without the parts that differ between occurrences.

/// Maximum length of a fingerprint, in characters.
const KEPT: usize = 200;

/// Number of digits from which a word counts as an id: `req_8f3a91c2` and `gpt-4o-2024-08-06` do, `gpt-4o` does not.
const DIGITS: usize = 4;

/// Returns an error with `#` for each number or id and `"…"` for each quoted text, cut off after 200 characters.
pub fn error_fingerprint(error: &str) -> String {
    let error: Vec<char> = error.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let mut cause = String::new();
    let mut at = 0;
    while let Some(&first) = error.get(at) {
        let before = at.checked_sub(1).and_then(|at| error.get(at));
        if let Some(end) = quoted(&error, at).filter(|_| before.is_none_or(|it| !it.is_alphanumeric())) {
            cause.push_str("\"…\"");
            at = end;
        } else if first.is_alphanumeric() {
            let end = (at..error.len()).find(|at| !in_word(&error, *at)).unwrap_or(error.len());
            let word = &error[at..end];
            if differs(word) {
                cause.push('#')
            } else {
                cause.extend(word)
            }
            at = end;
        } else {
            // Consecutive blanks count as one.
            if !(first.is_whitespace() && before.is_none_or(|before| before.is_whitespace())) {
                cause.push(if first.is_whitespace() { ' ' } else { first });
            }
            at += 1;
        }
    }
    let kept: String = cause.trim().chars().take(KEPT).collect();
    kept.trim_end().to_owned()
}

/// Returns the end of the quoted text that starts here, if there is one. The closing quote must not be followed by a
/// word, so the apostrophe in "can't" does not count.
fn quoted(error: &[char], at: usize) -> Option<usize> {
    let closing = match error.get(at)? {
        quote @ ('"' | '\'' | '`') => *quote,
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        _ => return None,
    };
    let ends =
        |at: &usize| error[*at] == closing && error.get(at + 1).is_none_or(|char| !char.is_alphanumeric());
    (at + 1..error.len()).find(ends).map(|at| at + 1)
}

/// Returns true for the characters of a word: letters, digits, `-`, `_`, and the decimal point of a number.
fn in_word(error: &[char], at: usize) -> bool {
    let is_digit = |at: Option<usize>| at.and_then(|at| error.get(at)).is_some_and(char::is_ascii_digit);
    match error[at] {
        '-' | '_' => true,
        '.' => is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)),
        char => char.is_alphanumeric(),
    }
}

fn differs(word: &[char]) -> bool {
    let digits = word.iter().filter(|char| char.is_ascii_digit()).count();
    let is_hex = 8 <= word.len() && word.iter().all(|char| char.is_ascii_hexdigit() || *char == '-');
    word.first().is_some_and(char::is_ascii_digit) || DIGITS <= digits || (is_hex && 0 < digits)
}

#[test]
fn what_differs_from_case_to_case_is_taken_out() {
    for (error, common) in [
        ("", ""),
        ("no paper left", "no paper left"),
        ("timed out after 30s", "timed out after #"),
        ("timed out  after\n12.5 seconds.", "timed out after # seconds."),
        ("status 503 of http://127.0.0.1:8080/v1", "status # of http://#:#/v1"),
        ("openai/gpt-4o is overloaded", "openai/gpt-4o is overloaded"),
        ("request req_8f3a91c2 failed", "request # failed"),
        ("thread 019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d is gone", "thread # is gone"),
        ("deadbeef1 and deadbeef", "# and deadbeef"),
        ("no tool \"book a room\" at 'calendar'", "no tool \"…\" at \"…\""),
        ("it can't be read, isn't it", "it can't be read, isn't it"),
        ("an \"open end", "an \"open end"),
        ("“ä” or ‘ö’: `x`", "\"…\" or \"…\": \"…\""),
        ("für 7 Bücher", "für # Bücher"),
    ] {
        assert_eq!(error_fingerprint(error), common, "{error}");
        assert_eq!(error_fingerprint(&error_fingerprint(error)), common, "{error}: a cause is its own cause");
    }
    assert_eq!(error_fingerprint(&"ä ".repeat(500)).chars().count(), KEPT - 1, "the last blank is trimmed");
}
