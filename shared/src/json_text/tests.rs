//! JSON texts that are kept, refused and changed.

use serde_json::{Value, json};

use super::{JSON_DEPTH_MAX, check_json, check_json_depth, is_readable_event, keepable_json};

#[test]
fn numbers_that_round_trip_are_accepted() {
    for number in [
        "0",
        "-0",
        "-0.0",
        "1",
        "1.50",
        "100e-2",
        "1E+2",
        "18446744073709551615",
        "-9223372036854775808",
        "9007199254740993",
        "0.1",
        "0.30000000000000004",
        "3.141592653589793",
        "1.7976931348623157e308",
        "5e-324",
        "1e300",
        "0.000000000000000000001",
    ] {
        check_json(number.as_bytes()).unwrap_or_else(|error| panic!("{number}: {error}"));
        let written = serde_json::from_str::<Value>(number).unwrap().to_string();
        check_json(written.as_bytes()).unwrap_or_else(|error| panic!("{number} as {written}: {error}"));
    }
}

#[test]
fn numbers_that_would_change_are_named() {
    for number in [
        "18446744073709551616",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "1e400",
        "1e-400",
        "0.12345678901234567890",
        "3.14159265358979323846",
        "1e99999999999999999999999",
        "1e-99999999999999999999999",
    ] {
        let text = format!(r#"{{"plan": [0, {{"id": {number}}}], "x": 1}}"#);
        let error = check_json(text.as_bytes()).expect_err(number).to_string();
        let wanted =
            format!("plan[1].id: the number {number} cannot be kept exactly; hint: send it as a string");
        assert_eq!(error, wanted);
    }
    assert_eq!(check_json(br#"{"text": "18446744073709551616 and \"1e400\""}"#), Ok(()));
}

#[test]
fn a_lone_surrogate_is_named() {
    for half in [r"\ud83d", r"\ude00", r"\ud83d\ud83d", r"\uD83Dx"] {
        let text = format!(r#"{{"messages": [{{"content": "so {half}"}}]}}"#);
        let error = check_json(text.as_bytes()).expect_err(half).to_string();
        assert!(error.starts_with("messages[0].content: \\u"), "{error}");
        assert!(error.contains("half a character; hint: "), "{error}");
    }
    assert_eq!(check_json(br#"["\ud83d\ude00", "\\ud83d", "\u0000", "a\"b"]"#), Ok(()));
}

#[test]
fn values_that_must_be_kept_are_changed_visibly() {
    let deep = format!("{}{}", "[".repeat(JSON_DEPTH_MAX - 1), "]".repeat(JSON_DEPTH_MAX - 1));
    let text = format!(
        r#"{{"id": 123456789012345678901234, "k\ud83d": "a\ude00\\ud83d", "ok": [1, "é"], "x": [{deep}, 2]}}"#
    );
    let (changed, named) = keepable_json(&text).unwrap();
    check_json(changed.as_bytes()).unwrap();
    let value: Value = serde_json::from_str(&changed).unwrap();
    assert_eq!(value["id"], "123456789012345678901234", "no digit is lost");
    assert_eq!(value["k\u{fffd}"], "a\u{fffd}\\ud83d");
    assert_eq!(value["ok"], json!([1, "é"]));
    assert_eq!(value["x"][1], 2);
    assert!(changed.contains(r#""[]""#), "the innermost part is a text: {changed}");
    let named: Vec<String> = named.iter().map(|unfaithful| unfaithful.detail()).collect();
    assert_eq!(named.len(), 4, "{named:?}");
    assert_eq!(keepable_json(r#"{"a": [1, "\ud83d\ude00"]}"#), None);
    let many = format!("[{}]", vec!["1e400"; 1_000].join(","));
    let (changed, named) = keepable_json(&many).unwrap();
    assert_eq!((serde_json::from_str::<Vec<String>>(&changed).unwrap().len(), named.len()), (1_000, 8));
    for text in ["[[1e400", "{\"\\ud83d", "]]1e400", "1e400"] {
        keepable_json(text).unwrap_or_else(|| panic!("{text}"));
    }
    let open = "[".repeat(JSON_DEPTH_MAX + 5);
    check_json(keepable_json(&open).unwrap().0.as_bytes()).unwrap();
}

#[test]
fn the_depth_of_texts_and_values_is_limited() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let value = |levels: usize| serde_json::from_str::<Value>(&nested(levels)).unwrap();
    assert_eq!(check_json(nested(JSON_DEPTH_MAX).as_bytes()), Ok(()));
    assert_eq!(check_json_depth(&value(JSON_DEPTH_MAX)), Ok(()));
    let error = check_json(nested(JSON_DEPTH_MAX + 1).as_bytes()).expect_err("too deep");
    assert!(error.to_string().contains("nested deeper than 64 levels"), "{error}");
    check_json_depth(&value(JSON_DEPTH_MAX + 1)).expect_err("too deep");
    assert_eq!(check_json_depth(&json!({"a": [1, {"b": null}]})), Ok(()));
    for (text, wanted) in [
        (nested(120), true),
        (nested(121), false),
        (format!(r#"{{"a": "{}", "b": [{}]}}"#, r#"\"["#.repeat(300), vec!["[]"; 300].join(", ")), true),
    ] {
        assert_eq!(is_readable_event(&text), wanted, "{text}");
    }
    // Not JSON: left to the parser, without a panic.
    for text in ["", "]]]}", "{\"", "\"\\", "\"\\u12", "-", "1.2.3", "[1,", "{\"a\":1,,}", "\u{fffd}"] {
        assert_eq!(check_json(text.as_bytes()), Ok(()), "{text}");
    }
}
