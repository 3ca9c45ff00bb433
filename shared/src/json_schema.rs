//! Checks values against JSON Schemas: arguments of a call before a person is asked to approve them, and replies in the form that a
//! client asked for.
//!
//! ## Why a checker of our own, with a limit on its steps
//!
//! The core draws no random numbers, and validators of the whole of JSON Schema do. References and alternatives also let a short
//! schema take for ever: the steps of one check are counted, so neither a schema nor a value can stop a worker. The worker
//! validates every call with one of them again before it is sent.

use regex::RegexBuilder;
use serde_json::{Map, Value};

/// Maximum number of problems in a description. A model corrects a few at a time.
const PROBLEMS_MAX: usize = 5;

/// Maximum length of a value in a description, in characters.
const SHOWN_MAX: usize = 200;

/// Maximum number of schemas applied in one check.
const STEPS_MAX: usize = 100_000;

/// Maximum depth of schemas applied within each other.
const DEPTH_MAX: usize = 200;

/// Steps that a search with a pattern counts for.
const PATTERN_STEPS: usize = 100;

/// Maximum size of a compiled pattern, in bytes.
const PATTERN_BYTES: usize = 1 << 18;

/// Keywords that change what fits and are not checked here.
pub(crate) const UNCHECKED: [&str; 6] = [
    "$dynamicRef",
    "$recursiveRef",
    "dependencies",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Value that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// Arguments of a call. The schema is a server's, and what cannot be checked fits.
    Arguments,
    /// Reply of a model. What cannot be checked does not fit.
    Reply,
}

/// Returns the reasons that `arguments` do not fit `schema`, or `None` if none was found.
pub fn argument_mismatch(schema: &Value, arguments: &Map<String, Value>) -> Option<String> {
    mismatch(Subject::Arguments, schema, &Value::Object(arguments.clone()))
}

/// Returns the reasons that `reply` does not fit `schema`, or `None` if it does.
pub(crate) fn misfit(schema: &Value, reply: &Value) -> Option<String> {
    mismatch(Subject::Reply, schema, reply)
}

fn mismatch(subject: Subject, schema: &Value, value: &Value) -> Option<String> {
    let mut checker = Checker { subject, root: schema, steps: STEPS_MAX, problems: Vec::new() };
    checker.check(schema, value, "", 0);
    let mut problems = checker.problems;
    if checker.steps == 0 {
        problems = match subject {
            Subject::Arguments => Vec::new(),
            Subject::Reply => vec!["it takes too many steps to check it against its schema".to_owned()],
        };
    }
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    let tail = if more == 0 { String::new() } else { format!("; and {more} more") };
    problems.truncate(PROBLEMS_MAX);
    (!problems.is_empty()).then(|| format!("{}{tail}", problems.join("; ")))
}

struct Checker<'a> {
    subject: Subject,
    root: &'a Value,
    /// Number of steps that are left.
    steps: usize,
    problems: Vec<String>,
}

impl<'a> Checker<'a> {
    /// Takes steps. Returns false if too few are left.
    fn take(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_sub(steps);
        self.steps != 0
    }

    fn report(&mut self, path: &str, why: &str) {
        let at = match (path, self.subject) {
            ("", Subject::Arguments) => "the payload",
            ("", Subject::Reply) => "the reply",
            _ => path,
        };
        self.problems.push(format!("{at} {why}"));
    }

    fn check(&mut self, schema: &'a Value, value: &Value, path: &str, depth: usize) {
        if !self.take(1) || DEPTH_MAX < depth {
            self.steps = 0;
            return;
        }
        if *schema == false {
            return self.report(path, "may not be there");
        }
        if let Some(target) = schema["$ref"].as_str() {
            match target.strip_prefix('#').and_then(|path| self.root.pointer(path)) {
                Some(target) => self.check(target, value, path, depth + 1),
                None if self.subject == Subject::Arguments => (),
                None => self.report(path, &format!("has a schema that is not there: {target}")),
            }
        }
        if !has_type(schema, value) {
            return self.report(path, &format!("must be {}", types(schema).join(" or ")));
        }
        if let Some(choices) =
            schema["enum"].as_array().filter(|all| !all.iter().any(|one| is_equal(one, value)))
        {
            let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
            self.report(path, &format!("must be one of {}", start(&choices.join(", "))));
        }
        if let Some(only) = schema.get("const").filter(|constant| !is_equal(constant, value)) {
            self.report(path, &format!("must be {}", start(&only.to_string())));
        }
        if let Some(why) = size_mismatch(schema, value).or_else(|| number_mismatch(schema, value)) {
            self.report(path, &why);
        }
        self.check_combinations(schema, value, path, depth);
        match value {
            Value::Object(fields) => self.check_object(schema, fields, path, depth),
            Value::Array(items) => self.check_array(schema, items, path, depth),
            Value::String(text) => {
                if schema["pattern"].as_str().is_some_and(|pattern| !self.matches(pattern, text)) {
                    let pattern = start(schema["pattern"].as_str().unwrap_or_default());
                    self.report(path, &format!("must match {pattern}"));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => (),
        }
    }

    fn check_combinations(&mut self, schema: &'a Value, value: &Value, path: &str, depth: usize) {
        for one in schema["allOf"].as_array().into_iter().flatten() {
            self.check(one, value, path, depth + 1);
        }
        if let Some(options) = schema["anyOf"].as_array()
            && !options.iter().any(|option| self.fits(option, value, depth))
        {
            self.report(path, "fits none of the alternatives of its schema");
        }
        if let Some(options) = schema["oneOf"].as_array() {
            match options.iter().filter(|option| self.fits(option, value, depth)).take(2).count() {
                0 => self.report(path, "fits none of the alternatives of its schema"),
                1 => (),
                _ => self.report(path, "fits several of the alternatives of its schema, and must fit one"),
            }
        }
        if schema.get("not").is_some_and(|not| self.fits(not, value, depth)) {
            self.report(path, "is of a form that its schema excludes");
        }
        if let Some(condition) = schema.get("if") {
            let branch = if self.fits(condition, value, depth) { "then" } else { "else" };
            if let Some(branch) = schema.get(branch) {
                self.check(branch, value, path, depth + 1);
            }
        }
    }

    fn check_object(&mut self, schema: &'a Value, fields: &Map<String, Value>, path: &str, depth: usize) {
        let place = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let unknown = match self.subject {
            Subject::Arguments => "is not a parameter",
            Subject::Reply => "is not a field of the schema",
        };
        let is_there = |name: &&str| fields.contains_key(*name);
        for name in texts(&schema["required"]).filter(|name| !is_there(name)) {
            self.report(&place(name), "is missing");
        }
        for (name, needed) in schema["dependentRequired"].as_object().into_iter().flatten() {
            for needed in texts(needed).filter(|needed| fields.contains_key(name) && !is_there(needed)) {
                self.report(&place(needed), &format!("is missing beside {name}"));
            }
        }
        let patterns = || schema["patternProperties"].as_object().into_iter().flatten();
        for (name, value) in fields {
            let path = place(name);
            if let Some(names) = schema.get("propertyNames") {
                self.check(names, &Value::from(name.as_str()), &path, depth + 1);
            }
            let own = schema["properties"].get(name);
            let mut is_known = own.is_some();
            if let Some(own) = own {
                self.check(own, value, &path, depth + 1);
            }
            for (pattern, of_pattern) in patterns() {
                if self.matches(pattern, name) {
                    is_known = true;
                    self.check(of_pattern, value, &path, depth + 1);
                }
            }
            match schema.get("additionalProperties").filter(|_| !is_known) {
                Some(Value::Bool(false)) => self.report(&path, unknown),
                Some(other) => self.check(other, value, &path, depth + 1),
                None => (),
            }
        }
    }

    fn check_array(&mut self, schema: &'a Value, items: &[Value], path: &str, depth: usize) {
        let first = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
        for (nth, item) in items.iter().enumerate() {
            if let Some(of_item) = first.get(nth).or_else(|| schema.get("items")) {
                self.check(of_item, item, &format!("{path}[{nth}]"), depth + 1);
            }
        }
        if let Some(one) = schema.get("contains") {
            let count = items.iter().filter(|item| self.fits(one, item, depth)).count() as u64;
            let least = schema["minContains"].as_u64().unwrap_or(1);
            if count < least || schema["maxContains"].as_u64().is_some_and(|most| most < count) {
                self.report(path, "has too few or too many values of one form");
            }
        }
        if schema["uniqueItems"] == true {
            let has_twin = |(nth, item): (usize, &Value)| {
                self.take(nth + 1) && items[..nth].iter().any(|other| is_equal(item, other))
            };
            if items.iter().enumerate().any(has_twin) {
                self.report(path, "has a value twice");
            }
        }
    }

    fn fits(&mut self, schema: &'a Value, value: &Value, depth: usize) -> bool {
        let before = std::mem::take(&mut self.problems);
        self.check(schema, value, "", depth + 1);
        std::mem::replace(&mut self.problems, before).is_empty()
    }

    /// Returns whether a text matches. A pattern that cannot be compiled, such as one that looks around, is not checked.
    fn matches(&mut self, pattern: &str, text: &str) -> bool {
        self.take(PATTERN_STEPS);
        let compiled = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
        compiled.map_or(true, |regex| regex.is_match(text))
    }
}

/// Returns the bound that a value exceeds, if it exceeds one.
pub(crate) fn size_mismatch(schema: &Value, value: &Value) -> Option<String> {
    let (size, least, most, unit) = match value {
        Value::Number(it) => (it.as_f64(), "minimum", "maximum", ""),
        Value::String(it) => (Some(it.chars().count() as f64), "minLength", "maxLength", " characters"),
        Value::Array(it) => (Some(it.len() as f64), "minItems", "maxItems", " values"),
        Value::Object(it) => (Some(it.len() as f64), "minProperties", "maxProperties", " fields"),
        Value::Null | Value::Bool(_) => return None,
    };
    let size = size?;
    let least = schema[least].as_f64().filter(|least| size < *least);
    let most = schema[most].as_f64().filter(|most| *most < size);
    let too_small = least.map(|least| format!("must be at least {least}{unit}"));
    too_small.or_else(|| most.map(|most| format!("must be at most {most}{unit}")))
}

fn number_mismatch(schema: &Value, value: &Value) -> Option<String> {
    let number = value.as_f64().filter(|_| value.is_number())?;
    let bound = |keyword: &str| schema[keyword].as_f64();
    if let Some(bound) = bound("exclusiveMinimum").filter(|bound| number <= *bound) {
        return Some(format!("must be more than {bound}"));
    }
    if let Some(bound) = bound("exclusiveMaximum").filter(|bound| *bound <= number) {
        return Some(format!("must be less than {bound}"));
    }
    let step = bound("multipleOf").filter(|step| 0.0 < *step)?;
    let count = number / step;
    (1e-9 < (count - count.round()).abs()).then(|| format!("must be a multiple of {step}"))
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn start(text: &str) -> String {
    let more = if text.chars().nth(SHOWN_MAX).is_some() { " …" } else { "" };
    format!("{}{more}", text.chars().take(SHOWN_MAX).collect::<String>())
}

/// Returns the types that a schema allows. Empty means any.
pub(crate) fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

pub(crate) fn has_type(schema: &Value, value: &Value) -> bool {
    let types = types(schema);
    let is = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    types.is_empty() || types.iter().any(is)
}

/// Returns whether two values are equal as JSON Schema counts: 1 and 1.0 are.
pub(crate) fn is_equal(one: &Value, other: &Value) -> bool {
    one == other || one.is_number() && other.is_number() && one.as_f64() == other.as_f64()
}

#[cfg(test)]
#[path = "json_schema_tests.rs"]
mod tests;
