use serde_json::json;

use super::*;

#[test]
fn each_keyword_refuses_what_does_not_fit() {
    let node = json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
        "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"]}}});
    for (schema, fits, not, why) in [
        (
            node,
            json!({"next": {"next": null}}),
            json!({"next": {}}),
            "next fits none of the alternatives of its schema",
        ),
        (
            json!({"properties": {"a": {"pattern": "^[a-z]+$"}}}),
            json!({"a": "abc"}),
            json!({"a": "A"}),
            "a must match ^[a-z]+$",
        ),
        (json!({"properties": {"a": {"pattern": "(?=x)"}}}), json!({"a": "not checked"}), json!([]), ""),
        (
            json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({"a": 1}),
            json!({"a": 1, "b": 1}),
            "the reply fits several of the alternatives of its schema, and must fit one",
        ),
        (
            json!({"not": {"required": ["a"]}}),
            json!({}),
            json!({"a": 1}),
            "the reply is of a form that its schema excludes",
        ),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}),
            json!({"c": 1}),
            json!({"a": 1}),
            "b is missing",
        ),
        (
            json!({"properties": {"a": {"exclusiveMinimum": 1, "exclusiveMaximum": 2}}}),
            json!({"a": 1.5}),
            json!({"a": 1}),
            "a must be more than 1",
        ),
        (
            json!({"properties": {"a": {"multipleOf": 0.1}}}),
            json!({"a": 0.3}),
            json!({"a": 0.35}),
            "a must be a multiple of 0.1",
        ),
        (
            json!({"properties": {"a": {"prefixItems": [{"type": "string"}], "items": false}}}),
            json!({"a": ["x"]}),
            json!({"a": ["x", 1]}),
            "a[1] may not be there",
        ),
        (
            json!({"properties": {"a": {"contains": {"const": 1}, "uniqueItems": true}}}),
            json!({"a": [1, 2]}),
            json!({"a": [1, 1]}),
            "a has a value twice",
        ),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"a": 1}),
            json!({"ab": 1}),
            "ab must be at most 1 characters",
        ),
        (
            json!({"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": false}),
            json!({"xa": ""}),
            json!({"y": ""}),
            "y is not a field of the schema",
        ),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({"b": 1}),
            json!({"a": 1}),
            "b is missing beside a",
        ),
        (
            json!({"properties": {"a": {"enum": ["x", "y"], "type": "string"}}}),
            json!({"a": "x"}),
            json!({"a": "z"}),
            "a must be one of \"x\", \"y\"",
        ),
        (
            json!({"allOf": [{"required": ["a"]}, {"properties": {"a": {"const": 1}}}]}),
            json!({"a": 1.0}),
            json!({"a": 2}),
            "a must be 1",
        ),
    ] {
        assert_eq!(misfit(&schema, &fits), None, "{schema}");
        assert_eq!(misfit(&schema, &not).unwrap_or_default(), why, "{schema}");
    }
}

#[test]
fn a_schema_that_multiplies_itself_is_given_up() {
    let mut defs = Map::new();
    for nth in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", nth + 1)});
        defs.insert(format!("d{nth}"), json!({"allOf": [next, next]}));
    }
    defs.insert("d60".to_owned(), json!({}));
    let schema = json!({"$ref": "#/$defs/d0", "$defs": defs});
    assert!(misfit(&schema, &json!({})).unwrap().contains("too many steps"));
    assert!(misfit(&json!({"$ref": "#"}), &json!({})).unwrap().contains("too many steps"));
}

fn told(schema: Value, arguments: Value) -> String {
    argument_mismatch(&schema, arguments.as_object().unwrap()).unwrap_or_default()
}

#[test]
fn invalid_arguments_are_named_with_their_path() {
    let schema = json!({
        "type": "object",
        "properties": {
            "day": {"type": "string", "minLength": 1, "maxLength": 3},
            "hour": {"type": "integer", "minimum": 0, "maximum": 23},
            "kind": {"enum": ["a", "b", 1]},
            "who": {"type": "array", "items": {"type": "object", "required": ["name"]}, "minItems": 1, "maxItems": 2},
            "note": {"type": ["string", "null"]},
            "size": {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 2}]},
            "fix": {"const": 7},
            "both": {"allOf": [{"minimum": 1}, {"maximum": 2}]},
        },
        "required": ["day"],
        "additionalProperties": false,
    });
    let fits = json!({"day": "Fri", "hour": 23, "kind": 1.0, "who": [{"name": "Ann"}, {"name": 1}], "note": null,
        "size": "XL", "fix": 7, "both": 2});
    assert_eq!(told(schema.clone(), fits), "");
    for (arguments, why) in [
        (json!({}), "day is missing"),
        (json!({"day": 5}), "day must be string"),
        (json!({"day": ""}), "day must be at least 1 characters"),
        (json!({"day": "Frid"}), "day must be at most 3 characters"),
        (json!({"day": "F", "hour": 24}), "hour must be at most 23"),
        (json!({"day": "F", "hour": -1}), "hour must be at least 0"),
        (json!({"day": "F", "hour": 1.5}), "hour must be integer"),
        (json!({"day": "F", "hour": "1"}), "hour must be integer"),
        (json!({"day": "F", "kind": "c"}), "kind must be one of \"a\", \"b\", 1"),
        (json!({"day": "F", "who": [{}]}), "who[0].name is missing"),
        (json!({"day": "F", "who": []}), "who must be at least 1 values"),
        (json!({"day": "F", "who": {}}), "who must be array"),
        (json!({"day": "F", "note": 1}), "note must be string or null"),
        (json!({"day": "F", "size": "X"}), "size fits none of the alternatives of its schema"),
        (json!({"day": "F", "fix": 8}), "fix must be 7"),
        (json!({"day": "F", "both": 3}), "both must be at most 2"),
        (json!({"day": "F", "hidden": 1}), "hidden is not a parameter"),
    ] {
        assert_eq!(told(schema.clone(), arguments), why);
    }
}

#[test]
fn additional_fields_are_checked_by_their_schema() {
    let map = json!({"additionalProperties": {"type": "boolean"}});
    assert_eq!(told(map.clone(), json!({"a": true})), "");
    assert_eq!(told(map, json!({"a": 1})), "a must be boolean");
    assert_eq!(told(Value::Null, json!({"a": 1})), "");
    assert_eq!(
        told(json!({"additionalProperties": false, "patternProperties": {"^a": {}}}), json!({"a": 1})),
        ""
    );
    let many = json!({"additionalProperties": false});
    let six = json!({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1});
    assert!(told(many, six).ends_with("e is not a parameter; and 1 more"));
}

#[test]
fn a_recursive_schema_is_followed_to_a_limit() {
    let (mut schema, mut value) = (json!({"type": "string"}), json!(1));
    for _ in 0..300 {
        schema = json!({"properties": {"a": schema}});
        value = json!({"a": value});
    }
    assert_eq!(told(schema, value), "");
}
