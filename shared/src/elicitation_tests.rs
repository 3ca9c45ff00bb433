use serde_json::{Value, json};

use super::{Elicitation, InputResponse};

fn form(fields: Value, required: &[&str]) -> Elicitation {
    let schema = json!({ "type": "object", "properties": fields, "required": required });
    Elicitation { question: "Well?".to_owned(), schema, url: None }
}

fn accepted(content: Value) -> InputResponse {
    InputResponse::Accept(content)
}

#[test]
fn a_text_is_the_value_of_the_only_required_field() {
    let colour = form(
        json!({ "colour": { "type": "string", "enum": ["red", "green"] }, "why": { "type": "string" } }),
        &["colour"],
    );
    for words in ["green", " GREEN ", "2"] {
        assert_eq!(colour.read(words), Ok(accepted(json!({ "colour": "green" }))), "{words}");
    }
    let refused = colour.read("blue").unwrap_err().to_string();
    assert!(refused.contains("colour must be red | green"), "{refused}");
    assert!(refused.contains("why (text, may be left out)"), "{refused}");
    let number = form(json!({ "n": { "type": "integer", "minimum": 1, "maximum": 9 } }), &[]);
    assert_eq!(number.read("7"), Ok(accepted(json!({ "n": 7 }))));
    for (words, why) in [
        ("seven", "n must be integer"),
        ("1.5", "n must be integer"),
        ("0", "at least 1"),
        ("10", "at most 9"),
    ] {
        assert!(number.read(words).unwrap_err().to_string().contains(why), "{words}");
    }
    let sure = form(json!({ "sure": { "type": "boolean" } }), &["sure"]);
    assert_eq!(sure.read("yes"), Ok(accepted(json!({ "sure": true }))));
    assert_eq!(sure.read("FALSE"), Ok(accepted(json!({ "sure": false }))));
    assert_eq!(sure.read("lieber nicht"), Ok(accepted(json!({ "sure": false }))));
    assert!(sure.read("perhaps").is_err());
    let days = json!({ "days": { "type": "array", "maxItems": 2, "items": { "anyOf": [{ "const": "mon", "title": "Monday" }, { "const": "tue" }, { "const": "wed" }] } } });
    let days = form(days, &["days"]);
    assert_eq!(days.read("mon, 2"), Ok(accepted(json!({ "days": ["mon", "tue"] }))));
    assert!(days.read("mon, sun").unwrap_err().to_string().contains("must be mon | tue | wed"));
    assert!(days.read("mon,tue,wed").unwrap_err().to_string().contains("at most 2 values"));
}

#[test]
fn a_number_is_a_choice_before_it_counts_one() {
    let guests = form(json!({ "guests": { "type": "string", "enum": ["2", "3", "4"] } }), &["guests"]);
    assert_eq!(guests.read("2"), Ok(accepted(json!({ "guests": "2" }))));
    assert_eq!(guests.read("3."), Ok(accepted(json!({ "guests": "3" }))));
    let refused = guests.read("1").unwrap_err().to_string();
    assert!(
        refused.contains("may mean several choices: say or give as JSON guests (2 | 3 | 4)"),
        "{refused}"
    );
    let numbers = form(json!({ "guests": { "type": "integer", "enum": [2, 3, 4] } }), &["guests"]);
    assert_eq!(numbers.read("2"), Ok(accepted(json!({ "guests": 2 }))));
    assert!(numbers.accept(json!({ "guests": 5 })).is_err());
    let many = json!({ "n": { "type": "array", "items": { "enum": ["2", "3", "4"] } } });
    assert_eq!(form(many, &["n"]).read("2, 4"), Ok(accepted(json!({ "n": ["2", "4"] }))));
    let sizes = json!({ "n": { "type": "array", "items": { "type": "integer" } } });
    assert_eq!(form(sizes.clone(), &["n"]).read("2, 4"), Ok(accepted(json!({ "n": [2, 4] }))));
    assert_eq!(form(sizes, &["n"]).read("[2, 4]"), Ok(accepted(json!({ "n": [2, 4] }))));
}

#[test]
fn a_title_names_its_choice() {
    let crossed = json!([{ "const": "1", "title": "2" }, { "const": "2", "title": "1" }, { "const": "x", "title": "Monday" }]);
    let form_of = |field: Value| form(json!({ "a": field }), &["a"]);
    let titled = form_of(json!({ "oneOf": crossed }));
    assert_eq!(titled.read("monday"), Ok(accepted(json!({ "a": "x" }))));
    assert!(titled.read("1").unwrap_err().to_string().contains("several"), "it may mean both");
    let older = form_of(json!({ "enum": ["a", "b"], "enumNames": ["2", "1"] }));
    assert_eq!(older.read("2"), Ok(accepted(json!({ "a": "a" }))));
    let places =
        json!([{ "const": "p", "title": "Paris, France" }, { "const": "r", "title": "Rome, Italy" }]);
    let cities = form_of(json!({ "type": "array", "items": { "anyOf": places } }));
    assert_eq!(cities.read("Paris, France, Rome, Italy"), Ok(accepted(json!({ "a": ["p", "r"] }))));
    assert_eq!(cities.read("r,p"), Ok(accepted(json!({ "a": ["r", "p"] }))));
}

#[test]
fn a_choice_comes_before_a_word_that_cancels() {
    let booking = form(json!({ "then": { "enum": ["keep", "cancel", "decline"] } }), &["then"]);
    for word in ["cancel", "decline"] {
        assert_eq!(booking.read(word), Ok(accepted(json!({ "then": word }))));
    }
    assert_eq!(booking.cancelling(), "forget it");
    assert_eq!(booking.read(booking.cancelling()), Ok(InputResponse::Cancel));
    let refused = booking.read("change").unwrap_err().to_string();
    assert!(refused.ends_with("; or say `forget it`"), "{refused}");
    assert_eq!(form(json!({}), &[]).cancelling(), "cancel");
}

#[test]
fn fields_are_given_as_json_and_missing_ones_have_their_defaults() {
    let trip = form(
        json!({ "to": { "type": "string", "minLength": 2 }, "nights": { "type": "integer", "default": 1 }, "note": { "type": "string" } }),
        &["to", "nights"],
    );
    assert_eq!(trip.read(r#"{"to": "Rome"}"#), Ok(accepted(json!({ "to": "Rome", "nights": 1 }))));
    assert_eq!(
        trip.accept(json!({ "to": "Rome", "nights": 3 })),
        Ok(accepted(json!({ "to": "Rome", "nights": 3 })))
    );
    let wrong = trip.accept(json!({ "nights": "two", "with": "Ann" })).unwrap_err().to_string();
    for why in ["with is not a field of the form", "nights must be integer", "to is missing"] {
        assert!(wrong.contains(why), "{wrong}");
    }
    assert!(trip.accept(json!({ "to": "R" })).unwrap_err().to_string().contains("at least 2 characters"));
    assert!(trip.accept(json!(["Rome"])).is_err());
    assert!(trip.read("Rome").unwrap_err().to_string().contains("to (text)"), "two must be filled");
}

#[test]
fn a_person_can_decline_a_form() {
    let name = form(json!({ "name": { "type": "string" } }), &["name"]);
    assert_eq!(name.read("Decline"), Ok(InputResponse::Decline));
    assert_eq!(name.read("cancel "), Ok(InputResponse::Cancel));
    assert_eq!(name.accept(json!({ "name": "decline" })), Ok(accepted(json!({ "name": "decline" }))));
}

#[test]
fn a_dismissal_is_never_the_value_of_a_field() {
    let budget = form(json!({ "budget": { "type": "string" } }), &["budget"]);
    for words in ["forget it", "Never mind.", "Vergiss es!", "laisse tomber", "olvídalo", "stop"] {
        assert_eq!(budget.read(words), Ok(InputResponse::Cancel), "{words}");
    }
    assert_eq!(budget.read("no"), Ok(accepted(json!({ "budget": "no" }))));
    assert_eq!(budget.read("forget-me-nots"), Ok(accepted(json!({ "budget": "forget-me-nots" }))));
    let lever = form(json!({ "lever": { "enum": ["go", "stop"] } }), &["lever"]);
    assert_eq!(lever.read("stop"), Ok(accepted(json!({ "lever": "stop" }))), "it is a choice of the form");
    let two = form(json!({ "a": { "type": "string" }, "b": { "type": "string" } }), &["a", "b"]);
    assert_eq!(two.read("cancel it"), Ok(InputResponse::Cancel));
    let optional = form(json!({ "a": { "type": "string" }, "b": { "type": "string" } }), &[]);
    for words in ["yes", "no", "done"] {
        assert!(optional.read(words).is_err(), "{words} says nothing about the fields");
    }
}

#[test]
fn a_form_without_fields_and_a_url_are_confirmed() {
    let sure = form(json!({}), &[]);
    assert_eq!(sure.read("yes"), Ok(accepted(json!({}))));
    assert_eq!(sure.accept(Value::Null), Ok(accepted(json!({}))));
    assert_eq!(sure.read("Sí, por favor"), Ok(accepted(json!({}))));
    assert_eq!(sure.read("no, thanks"), Ok(InputResponse::Decline));
    assert_eq!(sure.read("stop"), Ok(InputResponse::Cancel));
    for words in ["perhaps", "yes?", "yеs"] {
        assert!(sure.read(words).is_err(), "{words}");
    }
    let page = Elicitation {
        question: "Sign in".to_owned(),
        schema: Value::Null,
        url: Some("https://example.org".to_owned()),
    };
    assert_eq!(page.read("done"), Ok(accepted(Value::Null)));
    assert!(page.read("what?").unwrap_err().to_string().contains("visit https://example.org"));
    assert!(page.accept(json!({ "secret": "no" })).is_err());
}
