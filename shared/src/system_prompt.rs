//! System prompts: a template, and the texts for its placeholders.

use std::borrow::Cow;

use crate::prompt_name::kept_template_hash;

/// System prompt of a request: a template with placeholders such as `{task}`, and the text for each.
///
/// The engine fills it in, so that a configured template can replace the node's own and use the same placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemPrompt {
    template: Cow<'static, str>,
    /// The template as its strategy declares it; `None` for a text that was made without one.
    source: Option<&'static str>,
    texts: Vec<(&'static str, String)>,
}

/// Placeholder of a configured prompt that stands for the node's own prompt, filled in.
const BUILT_IN: &str = "prompt";

impl SystemPrompt {
    /// Creates the prompt `template` with a text for each placeholder, given without braces.
    ///
    /// `{{name}}` stands for the characters `{name}`.
    pub fn fill(template: &'static str, texts: &[(&'static str, &str)]) -> Self {
        let texts = texts.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        Self { template: template.trim_end().into(), source: Some(template), texts }
    }

    /// Returns the text of the prompt.
    pub fn text(&self) -> String {
        if self.texts.is_empty() {
            return self.template.clone().into_owned();
        }
        filled(&self.template, &|name| self.text_of(name))
    }

    /// Returns the text of `template`, a configured prompt that replaces this one.
    pub(crate) fn replaced_by(&self, template: &str) -> String {
        let built_in = self.text();
        filled(template, &|name| if name == BUILT_IN { Some(&*built_in) } else { self.text_of(name) })
    }

    /// Returns the name of the template. `None` for a text that was made without one: it may differ with every request.
    pub(crate) fn template_hash(&self) -> Option<String> {
        self.source.map(kept_template_hash)
    }

    fn text_of(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(part, _)| *part == name).map(|(_, text)| text.as_str())
    }
}

impl From<String> for SystemPrompt {
    fn from(text: String) -> Self {
        Self { template: text.into(), source: None, texts: Vec::new() }
    }
}

/// A text that is the same for every request is its own template.
impl From<&'static str> for SystemPrompt {
    fn from(text: &'static str) -> Self {
        Self { template: text.into(), source: Some(text), texts: Vec::new() }
    }
}

/// Returns the names that a configured prompt may use as placeholders: those of the node's own template, and `prompt`.
pub fn placeholders(template: &str) -> Vec<&str> {
    let mut names = vec![BUILT_IN];
    for part in parts(template) {
        if let Part::Placeholder(name) = part
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// Fills in every placeholder that has a text.
///
/// Works in one pass from left to right and never rescans inserted text, so a placeholder in the words of a person or a
/// model has no effect.
fn filled<'a>(template: &str, text_of: &dyn Fn(&str) -> Option<&'a str>) -> String {
    let mut out = String::with_capacity(template.len());
    for part in parts(template) {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Escaped(name) => out.extend(["{", name, "}"]),
            Part::Placeholder(name) => match text_of(name) {
                Some(text) => out.push_str(text),
                None => out.extend(["{", name, "}"]),
            },
        }
    }
    out.truncate(out.trim_end().len());
    out
}

enum Part<'a> {
    Text(&'a str),
    /// `{name}`.
    Placeholder(&'a str),
    /// `{{name}}`.
    Escaped(&'a str),
}

/// Splits a template at its placeholders: names of lower-case letters, digits and underscores in braces.
fn parts(template: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, after) = first_part(rest);
        rest = after;
        Some(part)
    })
}

fn first_part(text: &str) -> (Part<'_>, &str) {
    if let Some((name, after)) = text.strip_prefix("{{").and_then(|rest| named(rest, "}}")) {
        return (Part::Escaped(name), after);
    }
    if let Some((name, after)) = text.strip_prefix('{').and_then(|rest| named(rest, "}")) {
        return (Part::Placeholder(name), after);
    }
    let brace = |char: char| char == '{';
    let end = text.char_indices().skip(1).find(|(_, char)| brace(*char)).map_or(text.len(), |(at, _)| at);
    (Part::Text(&text[..end]), &text[end..])
}

fn named<'a>(text: &'a str, end: &str) -> Option<(&'a str, &'a str)> {
    let is_letter = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
    let (name, after) = text.split_at(text.find(|char| !is_letter(char))?);
    (!name.is_empty()).then_some(name).zip(after.strip_prefix(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_placeholders_are_not_expanded_again() {
        let texts = [("task", "{who}"), ("who", "Ann")];
        let prompt = SystemPrompt::fill("do {task} {json: 1} {\"a\": {}} for {who}\n{unknown}\n", &texts);
        assert_eq!(prompt.text(), "do {who} {json: 1} {\"a\": {}} for Ann\n{unknown}");
        assert_eq!(SystemPrompt::fill("ends {who}", &[("who", "")]).text(), "ends");
        assert_eq!(SystemPrompt::from("a {who} \n").text(), "a {who} \n", "a text is no template");
    }

    #[test]
    fn a_configured_prompt_uses_the_placeholders_of_the_built_in_one_and_the_whole_of_it() {
        let prompt = SystemPrompt::fill("Do {task}.", &[("task", "{prompt}")]);
        let text = prompt.replaced_by("Ä{{task}}: {task}. {prompt} {{prompt}} {{{task}}}\n");
        assert_eq!(text, "Ä{task}: {prompt}. Do {prompt}. {prompt} {{task}}");
        assert_eq!(SystemPrompt::from("Be {x}.").replaced_by("{prompt} Now."), "Be {x}. Now.");
    }

    #[test]
    fn the_placeholders_of_a_template_are_known() {
        let template = "{time} {task} {time} {{escaped}} {\"json\": {}} {Upper} {";
        assert_eq!(placeholders(template), ["prompt", "time", "task"]);
        assert_eq!(placeholders(""), ["prompt"]);
    }
}
