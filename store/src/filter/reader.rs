//! Reads conditions, each a field, an operator and a value, joined by `and`.

/// Error in a filter, with its position and a hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {what}; hint: {hint}")]
pub struct FilterError {
    /// Position of the error in characters, from 1.
    pub at: usize,
    /// Description of the error.
    pub what: String,
    /// Hint for a correction.
    pub hint: String,
}

/// Reads conditions from a text, one after another.
pub struct ConditionReader<'a> {
    text: &'a str,
    /// Byte offset of the next character.
    at: usize,
}

impl<'a> ConditionReader<'a> {
    /// Creates a reader at the beginning of `text`.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the text that is not read yet.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips white space.
    pub fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Consumes and returns the longest prefix of characters that match.
    fn take(&mut self, such: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|char| !such(char)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// Returns an error at the current position.
    pub fn wrong(&self, what: impl Into<String>, hint: impl Into<String>) -> FilterError {
        let at = self.text[..self.at].chars().count() + 1;
        FilterError { at, what: what.into(), hint: hint.into() }
    }

    fn name(&mut self) -> &'a str {
        self.skip_blanks();
        self.take(|char| char.is_alphanumeric() || matches!(char, '.' | '_' | '-'))
    }

    /// Reads the `and` between two conditions.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if another word stands there.
    pub fn and(&mut self) -> Result<(), FilterError> {
        let here = Self { text: self.text, at: self.at };
        let word = self.name();
        if word.eq_ignore_ascii_case("and") {
            return Ok(());
        }
        if word.eq_ignore_ascii_case("or") || self.rest().starts_with('|') {
            let hint = "only `and` is supported; run the command once for each side of the `or`";
            return Err(here.wrong("`or` is not supported", hint));
        }
        let hint = "join conditions with `and`, and put a value of several words in quotes";
        Err(here.wrong("`and` is missing before another condition, or the value needs quotes", hint))
    }

    /// Parses the next condition into its parts; `fields` lists the valid fields for error messages.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if a part is missing or unknown.
    pub fn condition(&mut self, fields: &str) -> Result<ConditionText<'a>, FilterError> {
        self.skip_blanks();
        let at_field = Self { text: self.text, at: self.at };
        let field = self.name();
        if field.is_empty() && self.rest().starts_with(['(', ')']) {
            return Err(at_field.wrong("parentheses are not supported", "join conditions with `and` only"));
        }
        if field.is_empty() {
            let hint = format!("write FIELD = VALUE; fields are {fields}");
            return Err(at_field.wrong("a field is missing", hint));
        }
        self.skip_blanks();
        let at_operator = Self { text: self.text, at: self.at };
        let operator = self.take(|char| matches!(char, '=' | '!' | '~' | '<' | '>'));
        if !["=", "!=", "~", "<", ">"].contains(&operator) {
            let what = match operator {
                "" => format!("an operator is missing after {field}"),
                other => format!("{other} is not an operator"),
            };
            return Err(at_operator.wrong(what, "operators are = != ~ < and >"));
        }
        self.skip_blanks();
        let at_value = Self { text: self.text, at: self.at };
        let value = self.value()?;
        Ok(ConditionText { field, at_field, operator, at_operator, value, at_value })
    }

    /// Parses a value: one word, or a quoted text.
    fn value(&mut self) -> Result<String, FilterError> {
        if let Some(quote @ ('"' | '\'')) = self.rest().chars().next() {
            let inside = &self.rest()[1..];
            let Some(end) = inside.find(quote) else {
                return Err(self.wrong("the quote is not closed", format!("end the value with {quote}")));
            };
            self.at += end + 2;
            return Ok(inside[..end].to_owned());
        }
        let word = self.take(|char| !char.is_whitespace() && !matches!(char, '"' | '\'' | '(' | ')'));
        if word.is_empty() {
            return Err(self.wrong("a value is missing", "write a word, or any text in quotes"));
        }
        Ok(word.to_owned())
    }
}

/// Parts of a condition, as written.
pub struct ConditionText<'a> {
    /// Name of the field.
    pub field: &'a str,
    /// Position of the field.
    pub at_field: ConditionReader<'a>,
    /// One of `=`, `!=`, `~`, `<` and `>`.
    pub operator: &'a str,
    /// Position of the operator.
    pub at_operator: ConditionReader<'a>,
    /// The value, without quotes.
    pub value: String,
    /// Position of the value.
    pub at_value: ConditionReader<'a>,
}
