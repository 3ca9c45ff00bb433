//! Extracts comments from Rust source. Text inside string literals is never taken for a comment.

/// Position and purpose of a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `//!` at the start of a file.
    File,
    /// `//!` inside a module or function.
    Inner,
    /// `///` above an enum variant.
    Variant,
    /// `///` above any other item.
    Outer,
    /// `//` or `/* */`.
    Plain,
}

/// Consecutive comment lines of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Kind of the first line; all lines agree.
    pub kind: Kind,
    /// Line number of the first line, counted from 1.
    pub line: usize,
    /// Lines without their comment markers.
    pub lines: Vec<String>,
}

impl Comment {
    /// The lines joined by single spaces, without code blocks.
    pub fn text(&self) -> String {
        let mut in_code = false;
        let prose = self.lines.iter().map(|line| line.trim()).filter(|line| {
            let fence = line.starts_with("```");
            in_code ^= fence;
            !in_code && !fence
        });
        prose.collect::<Vec<_>>().join(" ").trim().to_owned()
    }
}

/// Comments of a source file, in order.
pub fn comments(source: &str) -> Vec<Comment> {
    scan(source).found
}

/// Code of a source file: every comment is left out, and every literal is replaced by a quotation mark. Lines keep their numbers.
pub fn code(source: &str) -> String {
    scan(source).code
}

fn scan(source: &str) -> Scanner<'_> {
    let mut scanner = Scanner {
        rest: source,
        line: 1,
        scopes: Vec::new(),
        enum_ahead: false,
        seen_code: false,
        found: Vec::new(),
        code: String::new(),
    };
    while scanner.step() {}
    scanner
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
    /// One entry per open brace: true if it opened an enum.
    scopes: Vec<bool>,
    /// True between the keyword `enum` and its opening brace.
    enum_ahead: bool,
    seen_code: bool,
    found: Vec<Comment>,
    code: String,
}

impl<'a> Scanner<'a> {
    /// Consumes one token. Returns false at the end of the source.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        let (before, line) = (self.rest, self.line);
        let mut is_code = false;
        if self.rest.starts_with("//") {
            self.line_comment();
        } else if self.rest.starts_with("/*") {
            self.block_comment();
        } else if let Some(hashes) = raw_string_hashes(self.rest) {
            self.raw_string(hashes);
        } else if first == '"' {
            self.string();
        } else if first == '\'' {
            self.char_or_lifetime();
        } else if first.is_alphanumeric() || first == '_' {
            self.word();
            is_code = true;
        } else {
            self.brace(first);
            self.seen_code |= !first.is_whitespace();
            self.take(first.len_utf8());
            is_code = true;
        }
        if is_code {
            self.code.push_str(&before[..before.len() - self.rest.len()]);
        } else {
            self.code.extend((!before.starts_with('/')).then_some('"'));
            self.code.extend((line..self.line).map(|_| '\n'));
        }
        true
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn take_until(&mut self, end: &str) -> &'a str {
        let bytes = self.rest.find(end).map_or(self.rest.len(), |at| at + end.len());
        self.take(bytes)
    }

    fn brace(&mut self, character: char) {
        match character {
            '{' => self.scopes.push(std::mem::take(&mut self.enum_ahead)),
            '}' => {
                self.scopes.pop();
            }
            _ => {}
        }
    }

    fn word(&mut self) {
        let end =
            self.rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(self.rest.len());
        let word = self.take(end);
        self.enum_ahead |= word == "enum";
        self.seen_code = true;
    }

    fn string(&mut self) {
        self.take(1);
        loop {
            let special = self.rest.find(['"', '\\']).unwrap_or(self.rest.len());
            self.take(special);
            if self.rest.is_empty() || self.take(1) == "\"" {
                return;
            }
            self.take(self.rest.chars().next().map_or(0, char::len_utf8));
        }
    }

    fn raw_string(&mut self, hashes: usize) {
        self.take_until("\"");
        self.take_until(&format!("\"{}", "#".repeat(hashes)));
    }

    fn char_or_lifetime(&mut self) {
        let mut ahead = self.rest.char_indices().skip(1);
        match (ahead.next(), ahead.next()) {
            (Some((_, '\\')), Some((at, escaped))) => {
                self.take(at + escaped.len_utf8());
                self.take_until("'");
            }
            (Some(_), Some((at, '\''))) => {
                self.take(at + 1);
            }
            _ => {
                self.take(1);
            }
        }
    }

    fn block_comment(&mut self) {
        let line = self.line;
        let text = self.take_until("*/");
        let lines = text.trim_start_matches("/*").trim_end_matches("*/").lines().map(str::to_owned).collect();
        self.found.push(Comment { kind: Kind::Plain, line, lines });
    }

    fn line_comment(&mut self) {
        let line = self.line;
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let text = self.take(end);
        let kind = match text {
            _ if text.starts_with("//!") && self.seen_code => Kind::Inner,
            _ if text.starts_with("//!") => Kind::File,
            _ if text.starts_with("///") && !text.starts_with("////") => self.outer(),
            _ => Kind::Plain,
        };
        let marker = if kind == Kind::Plain { 2 } else { 3 };
        let text = text[marker..].to_owned();
        match self.found.last_mut() {
            Some(last) if last.kind == kind && last.line + last.lines.len() == line => last.lines.push(text),
            _ => self.found.push(Comment { kind, line, lines: vec![text] }),
        }
    }

    fn outer(&self) -> Kind {
        if self.scopes.last() == Some(&true) { Kind::Variant } else { Kind::Outer }
    }
}

/// Number of `#` if a raw string literal starts here.
fn raw_string_hashes(rest: &str) -> Option<usize> {
    let after =
        rest.strip_prefix("br").or_else(|| rest.strip_prefix("cr")).or_else(|| rest.strip_prefix('r'))?;
    let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
    after[hashes..].starts_with('"').then_some(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_kinds(source: &str, expected: &[(Kind, usize)]) {
        let found: Vec<_> = comments(source).iter().map(|comment| (comment.kind, comment.line)).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn consecutive_lines_form_one_comment() {
        assert_kinds(
            "//! A.\n//! B.\n\n/// C.\nfn f() {} // D.\n",
            &[(Kind::File, 1), (Kind::Outer, 4), (Kind::Plain, 5)],
        );
    }

    #[test]
    fn variants_are_told_from_their_fields() {
        let source = "enum E {\n  /// A.\n  A { /// B.\n b: u8 },\n  /// C.\n  C,\n}\nstruct S {\n  /// D.\n d: u8 }\n";
        assert_kinds(source, &[(Kind::Variant, 2), (Kind::Outer, 3), (Kind::Variant, 5), (Kind::Outer, 9)]);
    }

    #[test]
    fn literals_hold_no_comments() {
        let source = "const A: &str = \"// a \\\" // b\";\nconst B: &str = r#\"\n\" // c\"#;\nconst C: [char; 3] = ['\"', '\\'', '/'];\nfn f<'a>() {}\n// D";
        assert_kinds(source, &[(Kind::Plain, 6)]);
    }

    #[test]
    fn code_has_neither_comments_nor_literals() {
        let source = "let a = \"b | c\"; // d\nlet e = r#\"f\ng\"#;\n'h'";
        assert_eq!(code(source), "let a = \"; \nlet e = \"\n;\n\"");
    }

    #[test]
    fn code_blocks_are_no_prose() {
        let comment = &comments("/// A.\n///\n/// ```\n/// let whoever = 1;\n/// ```\n/// B.\n")[0];
        assert_eq!(comment.text(), "A.  B.");
    }
}
