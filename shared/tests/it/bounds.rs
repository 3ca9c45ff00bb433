//! Every number of a configuration has bounds, and is refused outside of them.

use serde_json::{Value, json};
use shared::Budget;

/// Collects every number below a schema with its path.
fn numbers(schema: &Value, root: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    let target = schema["$ref"].as_str().and_then(|it| root.pointer(it.trim_start_matches('#')));
    let schema = target.unwrap_or(schema);
    let is = |it: &Value| it == "integer" || it == "number";
    if is(&schema["type"]) || schema["type"].as_array().is_some_and(|it| it.iter().any(is)) {
        found.push((path.to_owned(), schema.clone()));
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        numbers(field, root, &format!("{path}.{name}"), found);
    }
}

/// Builds a configuration in which only this key is set.
fn only(path: &str, value: &Value) -> Value {
    path.trim_start_matches('.').rsplit('.').fold(value.clone(), |inner, name| json!({ name: inner }))
}

#[test]
fn every_number_of_every_strategy_has_bounds() {
    let mut checked = 0;
    for graph in strategies::all() {
        let schema = graph.config_schema();
        let mut found = Vec::new();
        numbers(&schema, &schema, "", &mut found);
        for (path, number) in found {
            let name = format!("{}{path}", graph.name());
            let (Some(least), Some(most)) = (number["minimum"].as_f64(), number["maximum"].as_f64()) else {
                panic!("{name} needs a minimum and a maximum: {number}")
            };
            // A smaller integer would be a value of another type.
            let is_unsigned = number["format"].as_str().is_some_and(|it| it.starts_with("uint"));
            let outside = [Some(most + 1.0), (!is_unsigned || 0.0 < least).then_some(least - 1.0)];
            for value in outside.into_iter().flatten() {
                let value: Value = serde_json::from_str(&value.to_string()).unwrap();
                let refused = graph.check_config(&only(&path, &value));
                let key = path.rsplit('.').next().unwrap();
                assert!(refused.as_ref().is_err_and(|it| it.contains(key)), "{name} = {value}: {refused:?}");
            }
            checked += 1;
        }
    }
    assert!(checked > 20, "only {checked} numbers were found");
}

#[test]
fn every_limit_of_a_budget_has_bounds() {
    let check = |budget: Value| serde_json::from_value::<Budget>(budget).unwrap().check();
    for (budget, error) in [
        (json!({"turn": {"tokens": 0}}), "turn.tokens: it is 0, and must be from 1 to 1000000000000"),
        (
            json!({"thread": {"tokens": u64::MAX}}),
            "thread.tokens: it is 18446744073709551615, and must be from 1 to 1000000000000",
        ),
        (json!({"turn": {"usd": -1.0}}), "turn.usd: it is -1, and must be from 0.000001 to 1000000000"),
        (
            json!({"turn": {"seconds": 31_622_401}}),
            "turn.seconds: it is 31622401, and must be from 1 to 31622400",
        ),
    ] {
        assert_eq!(check(budget).unwrap_err(), error);
    }
    check(json!({"turn": {"tokens": 1, "usd": 0.5, "seconds": 31_622_400}})).unwrap();
}
