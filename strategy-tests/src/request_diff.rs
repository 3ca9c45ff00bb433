//! The first difference between two requests, and the recorded request nearest to one without an answer.

use serde::Serialize;
use serde_json::Value;
use shared::Request;

/// The first place at which two values differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Path of the value, as in `arguments.day`; empty for the whole value.
    pub path: String,
    /// The recorded value.
    pub then: String,
    /// The value today.
    pub today: String,
}

/// Characters shown of a text around its first difference.
const SHOWN: usize = 30;

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, then, today } = self;
        let path = if path.is_empty() { "all of it" } else { path };
        write!(f, "{path}: then {then}, today {today}")
    }
}

/// Finds the first difference between two values.
pub fn difference(then: &Value, today: &Value) -> Option<Difference> {
    let mut found = Vec::new();
    differ(then, today, "", &mut found);
    found.into_iter().next()
}

/// Finds the recorded request that differs least from `wanted`, with the first difference.
pub fn nearest<'a>(
    wanted: &Request,
    recorded: impl IntoIterator<Item = &'a Request>,
) -> Option<(&'a Request, Difference)> {
    let today = serde_json::to_value(wanted).ok()?;
    let far = |request: &'a Request| {
        let mut found = Vec::new();
        differ(&serde_json::to_value(request).ok()?, &today, "", &mut found);
        let kind = found.iter().any(|difference| difference.path.starts_with("request,"));
        Some(((kind, found.len()), request, found.into_iter().next()?))
    };
    let all = recorded.into_iter().filter_map(far);
    all.min_by_key(|(far, ..)| *far).map(|(_, request, first)| (request, first))
}

fn differ(then: &Value, today: &Value, path: &str, found: &mut Vec<Difference>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (then, today) {
        (Value::Object(then), Value::Object(today)) => {
            for (name, value) in then {
                differ(value, today.get(name).unwrap_or(&Value::Null), &below(name), found);
            }
            for (name, value) in today.iter().filter(|(name, _)| !then.contains_key(*name)) {
                differ(&Value::Null, value, &below(name), found);
            }
        }
        (Value::Array(then), Value::Array(today)) => {
            for n in 0..then.len().max(today.len()) {
                let at = |list: &[Value]| list.get(n).cloned().unwrap_or(Value::Null);
                differ(&at(then), &at(today), &format!("{path}[{n}]"), found);
            }
        }
        _ if then == today => {}
        (Value::String(then), Value::String(today)) => {
            let same = then.chars().zip(today.chars()).take_while(|(a, b)| a == b).count();
            let path = format!("{path}, character {}", same + 1);
            found.push(Difference { path, then: around(then, same), today: around(today, same) });
        }
        _ => {
            let told = |value: &Value| {
                if value.is_null() { "nothing".to_owned() } else { around(&value.to_string(), 0) }
            };
            found.push(Difference { path: path.to_owned(), then: told(then), today: told(today) });
        }
    }
}

/// Excerpt of a text around a character.
fn around(text: &str, at: usize) -> String {
    let from = at.saturating_sub(SHOWN / 3);
    let shown: String = text.chars().skip(from).take(SHOWN).collect();
    let cut = |is: bool| if is { "…" } else { "" };
    let after = text.chars().nth(from + SHOWN).is_some();
    format!("“{}{}{}”", cut(0 < from), shown.replace('\n', " ⏎ "), cut(after))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(then: Value, today: Value) -> Option<String> {
        difference(&then, &today).map(|it| it.to_string())
    }

    #[test]
    fn the_first_difference_is_named_by_its_path() {
        assert_eq!(told(json!({"a": [1, {"b": "x"}]}), json!({"a": [1, {"b": "x"}]})), None);
        assert_eq!(
            told(json!({"a": [1, {"b": "one day"}]}), json!({"a": [1, {"b": "one night"}]})).as_deref(),
            Some("a[1].b, character 5: then “one day”, today “one night”")
        );
        assert_eq!(told(json!({"a": 1}), json!({})).as_deref(), Some("a: then “1”, today nothing"));
        assert_eq!(told(json!([1]), json!([1, 2])).as_deref(), Some("[1]: then nothing, today “2”"));
        let long = "y".repeat(50);
        let told = told(json!(format!("{long}a{long}")), json!(format!("{long}b{long}"))).unwrap();
        assert!(told.starts_with(", character 51: then “…yyyyyyyyyya"), "{told}");
    }

    #[test]
    fn the_nearest_recording_is_of_the_same_kind() {
        let request = |it: Value| serde_json::from_value::<Request>(it).unwrap();
        let list = request(json!({"request": "list_tools", "server": "calendar"}));
        let other = request(json!({"request": "list_tools", "server": "contacts"}));
        let describe = request(json!({"request": "describe", "server": "calendar"}));
        let (found, difference) = nearest(&list, [&describe, &other]).unwrap();
        assert_eq!((found, difference.path.as_str()), (&other, "server, character 2"));
        assert_eq!(nearest(&list, []), None);
    }
}
