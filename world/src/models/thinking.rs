//! Separates a model's reasoning from its answer, where both arrive as one text.

/// Marks around reasoning at the beginning of a reply.
const MARKS: [(&str, &str); 6] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
];

/// Reads a reply piece by piece and holds back what may be reasoning.
///
/// ## Why only the beginning of a reply counts
///
/// An answer may itself write about these marks.
pub(super) struct ThinkingFilter {
    state: State,
    /// Text that is not yet decided on.
    held: String,
    /// True if there was reasoning. White space between it and the answer belongs to neither.
    has_thought: bool,
    /// Reasoning so far.
    pub(super) reasoning: String,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Nothing but white space and reasoning so far.
    Start,
    /// Within reasoning that ends with this mark.
    Thinking(&'static str),
    /// Within reasoning whose opening mark the endpoint leaves out. It is an answer if the closing mark never comes.
    Unopened,
    /// Within the answer.
    Answer,
}

/// Closing mark of models whose template writes the opening mark, which is therefore in no reply.
const UNOPENED_END: &str = MARKS[0].1;

impl ThinkingFilter {
    /// Creates a filter. `unopened` is true for a model that was seen to begin in the middle of its reasoning.
    pub(super) fn new(unopened: bool) -> Self {
        let state = if unopened { State::Unopened } else { State::Start };
        Self { state, held: String::new(), has_thought: false, reasoning: String::new() }
    }

    /// Adds a piece of the reply and returns the text of the answer that is certain by now.
    pub(super) fn add(&mut self, piece: &str) -> String {
        if self.state == State::Answer {
            return piece.to_owned();
        }
        self.held.push_str(piece);
        loop {
            match self.state {
                State::Answer => return std::mem::take(&mut self.held),
                State::Start => {
                    let text = self.held.trim_start();
                    if let Some((open, close)) = MARKS.iter().find(|(open, _)| text.starts_with(open)) {
                        self.held = text[open.len()..].to_owned();
                        self.state = State::Thinking(close);
                    } else if MARKS.iter().any(|(open, _)| open.starts_with(text)) {
                        return String::new();
                    } else {
                        if self.has_thought {
                            self.held = text.to_owned();
                        }
                        self.state = State::Answer;
                    }
                }
                State::Unopened => {
                    let text = self.held.trim_start();
                    if MARKS.iter().any(|(open, _)| text.starts_with(open)) {
                        self.state = State::Start;
                    } else if self.held.contains(UNOPENED_END) {
                        self.state = State::Thinking(UNOPENED_END);
                    } else {
                        return String::new();
                    }
                }
                State::Thinking(close) => match self.held.split_once(close) {
                    Some((thought, rest)) => {
                        self.reasoning.push_str(thought);
                        self.held = rest.to_owned();
                        self.has_thought = true;
                        self.state = State::Start;
                    }
                    None => {
                        // The end of the text may be the beginning of the mark.
                        let keep = (1..close.len()).rev().find(|length| {
                            close.is_char_boundary(*length) && self.held.ends_with(&close[..*length])
                        });
                        let rest = self.held.split_off(self.held.len() - keep.unwrap_or(0));
                        self.reasoning.push_str(&std::mem::replace(&mut self.held, rest));
                        return String::new();
                    }
                },
            }
        }
    }

    /// Ends the reply and returns the text of the answer that was still held back.
    pub(super) fn end(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Thinking(_) => {
                self.reasoning.push_str(&held);
                String::new()
            }
            State::Start if self.has_thought => held.trim_start().to_owned(),
            State::Start | State::Unopened | State::Answer => held,
        }
    }
}

/// Removes reasoning without an opening mark from a whole reply, and returns the reasoning.
pub(super) fn take_unopened(content: &mut String) -> Option<String> {
    let (thought, answer) = content.split_once(UNOPENED_END)?;
    // A mark within a line is something that the answer is about.
    let is_line = (thought.is_empty() || thought.ends_with('\n'))
        && (answer.is_empty() || answer.starts_with(['\n', '\r']));
    if !is_line || thought.contains(MARKS[0].0) {
        return None;
    }
    let (thought, answer) = (thought.to_owned(), answer.trim_start().to_owned());
    *content = answer;
    Some(thought)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a text in pieces of `size` characters and returns the answer and the reasoning.
    fn filtered(text: &str, size: usize, unopened: bool) -> (String, String) {
        let mut filter = ThinkingFilter::new(unopened);
        let letters: Vec<char> = text.chars().collect();
        let mut answer: String =
            letters.chunks(size).map(|chunk| filter.add(&chunk.iter().collect::<String>())).collect();
        answer.push_str(&filter.end());
        (answer, filter.reasoning)
    }

    #[test]
    fn reasoning_is_removed_however_it_is_cut() {
        for (text, answer, reasoning) in [
            ("<think>{\"a\": 1} maybe</think>\n\n{\"a\": 2}", "{\"a\": 2}", "{\"a\": 1} maybe"),
            ("\n <think></think>Hi", "Hi", ""),
            ("<thought>one</thought><think>two</think> Hi <think>x</think>", "Hi <think>x</think>", "onetwo"),
            ("[THINK]a < b[/THINK]Yes", "Yes", "a < b"),
            ("◁think▷é◁/think▷ja", "ja", "é"),
            ("<think>never closed </thin", "", "never closed </thin"),
            ("The tag <think> is removed.", "The tag <think> is removed.", ""),
            ("<thin air", "<thin air", ""),
            ("<", "<", ""),
            ("  indented", "  indented", ""),
        ] {
            for size in [1, 2, 5, 100] {
                let expected = (answer.to_owned(), reasoning.to_owned());
                assert_eq!(filtered(text, size, false), expected, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn reasoning_may_lack_its_opening_mark() {
        for size in [1, 3, 100] {
            assert_eq!(filtered("so it is\n</think>\n\nHi", size, true), ("Hi".into(), "so it is\n".into()));
            assert_eq!(filtered("<think>so</think>Hi", size, true), ("Hi".into(), "so".into()));
            assert_eq!(filtered("no reasoning", size, true), ("no reasoning".into(), String::new()));
        }
        let mut content = "so it is\n</think>\n\nHi".to_owned();
        assert_eq!(take_unopened(&mut content).as_deref(), Some("so it is\n"));
        assert_eq!(content, "Hi");
        for about in [
            "Close it with `</think>`.",
            "Write </think> at its end.",
            "<think>\n</think>\n",
            "{\"a\": \"\\n</think>\\n\"}",
        ] {
            assert_eq!(take_unopened(&mut about.to_owned()), None, "{about}");
        }
    }
}
