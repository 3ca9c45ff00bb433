//! Finds code in markdown: fenced blocks, and spans between backticks.
//!
//! Indented blocks are no code here, because the continuation of a list item looks the same.

use std::ops::Range;

/// Returns the ranges of `text` that are code, with their fences and backticks, in order.
pub(super) fn code(text: &str) -> Vec<Range<usize>> {
    read(text).0
}

/// Returns the range that holds `at`, if there is one. The ranges are in order and do not overlap.
pub(super) fn containing(ranges: &[Range<usize>], at: usize) -> Option<&Range<usize>> {
    let next = ranges.partition_point(|range| range.end <= at);
    ranges.get(next).filter(|range| range.start <= at)
}

/// Returns the end of the part of `text` in which more text after it would change no code.
pub(super) fn settled(text: &str) -> usize {
    let line = text.rfind('\n').map_or(0, |at| at + 1);
    let text = if may_be_fence(&text[line..]) { &text[..line] } else { text };
    let (found, prose) = read(text);
    let Some(prose) = prose else { return text.len() };
    // A run of backticks without a partner may get one, and a run at the end may grow.
    let unsettled = |run: Range<usize>| match containing(&found, run.start) {
        Some(span) if span.end < text.len() => None,
        Some(span) => Some(span.start),
        None => Some(run.start),
    };
    runs(text, prose..text.len()).into_iter().find_map(unsettled).unwrap_or(text.len())
}

/// Returns whether more text could make this incomplete line a fence, or could make a fence something else.
fn may_be_fence(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '>']);
    let Some(mark) = line.chars().next() else { return true };
    let rest = line.trim_start_matches(mark);
    matches!(mark, '`' | '~') && (rest.is_empty() || 3 <= line.len() - rest.len())
}

/// Returns the ranges that are code, and the start of the prose at the end. `None` if a fence is open there.
fn read(text: &str) -> (Vec<Range<usize>>, Option<usize>) {
    let mut found = Vec::new();
    let (mut prose, mut at) = (0, 0);
    let mut open: Option<(usize, Fence)> = None;
    for line in text.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        match (&open, fence(line)) {
            (None, Some((fence, _))) => {
                found.extend(spans(text, prose..start));
                open = Some((start, fence));
            }
            (Some((from, (mark, length))), Some(((other, closing), "")))
                if mark == &other && *length <= closing =>
            {
                found.push(*from..end);
                (open, prose) = (None, end);
            }
            (Some(_) | None, _) => (),
        }
    }
    match open {
        // A fence that nothing closes extends to the end.
        Some((from, _)) => {
            found.push(from..text.len());
            (found, None)
        }
        None => {
            found.extend(spans(text, prose..text.len()));
            (found, Some(prose))
        }
    }
}

/// Character of a fence, and its number.
type Fence = (char, usize);

/// Returns the fence that a line begins with, and the rest of the line.
fn fence(line: &str) -> Option<(Fence, &str)> {
    // A fence within a list item or a quotation is indented or marked.
    let line = line.trim_start_matches([' ', '>']);
    let mark = line.chars().next().filter(|char| matches!(char, '`' | '~'))?;
    let rest = line.trim_start_matches(mark);
    let length = line.len() - rest.len();
    let is_span = mark == '`' && rest.contains('`');
    (3 <= length && !is_span).then_some(((mark, length), rest.trim()))
}

/// Returns the spans of code within prose: from a run of backticks to the next run of the same length.
fn spans(text: &str, prose: Range<usize>) -> Vec<Range<usize>> {
    let runs = runs(text, prose);
    let mut found = Vec::new();
    let mut from = 0;
    // The next run of each length, so that many unmatched runs are looked through once.
    let mut later = std::collections::BTreeMap::<usize, Vec<usize>>::new();
    for (nth, run) in runs.iter().enumerate().rev() {
        later.entry(run.len()).or_default().push(nth);
    }
    while let Some(run) = runs.get(from) {
        let same = later.entry(run.len()).or_default();
        while same.last().is_some_and(|start| *start <= from) {
            same.pop();
        }
        match same.last() {
            Some(end) => {
                found.push(run.start..runs[*end].end);
                from = end + 1;
            }
            None => from += 1,
        }
    }
    found
}

fn runs(text: &str, prose: Range<usize>) -> Vec<Range<usize>> {
    let mut runs = Vec::<Range<usize>>::new();
    for at in text[prose.clone()].match_indices('`').map(|(at, _)| prose.start + at) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end = at + 1,
            Some(_) | None => runs.push(at..at + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(text: &str, expected: &[&str]) {
        let found: Vec<&str> = code(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn spans_end_at_a_run_of_the_same_length() {
        is("a `b` c `` d ` e `` f", &["`b`", "`` d ` e ``"]);
        is("``a`", &[]);
        is("`a`` b` c", &["`a`` b`"]);
        is("no code, only one ` and ``", &[]);
        is("```not a fence``` in a line", &["```not a fence```"]);
    }

    #[test]
    fn fences_end_at_a_fence_that_is_at_least_as_long() {
        is("a\n```sh\ncurl `x`\n```\nb `c`", &["```sh\ncurl `x`\n```\n", "`c`"]);
        is("~~~~\n~~~\n```\n~~~~\nb", &["~~~~\n~~~\n```\n~~~~\n"]);
        is("- a\n  ```\n  b\n  ```\n", &["  ```\n  b\n  ```\n"]);
        is("> ```\n> b\n> ```\n", &["> ```\n> b\n> ```\n"]);
        is("```\nnever closed `a", &["```\nnever closed `a"]);
        is("```\n``` not closed by words\n```", &["```\n``` not closed by words\n```"]);
    }

    /// A model may write anything.
    #[test]
    fn long_texts_take_linear_time() {
        let many: String = (1..1_400).map(|n| format!("{} ", "`".repeat(n))).collect();
        assert!(code(&many).is_empty());
        assert_eq!(code(&"` ".repeat(400_001)).len(), 200_000);
    }
}
