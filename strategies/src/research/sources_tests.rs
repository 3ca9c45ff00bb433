//! Tests of every supported format of search output.

use super::*;

/// Returns the finding, and the sources as `title <url>`.
fn read(output: &str) -> (String, Vec<String>) {
    let mut shelf = Shelf::new(&[]);
    let finding = shelf.note(output, 3);
    (finding, shelf.into_sources().iter().map(|it| format!("{} <{}>", it.title, it.url)).collect())
}

const TIDES: &str = "[s1] Tides (a.example)\nTwice a day.\n\n[s2] Moon (b.example)\nIt pulls.";

#[test]
fn json_is_read_wherever_its_addresses_are() {
    for output in [
        r#"[{"title":"Tides","url":"https://a.example/t","snippet":"Twice a day."},{"name":"Moon","link":"https://b.example/m","content":"It pulls."}]"#,
        r#"{"query":"tides","url":"https://api.example/search","web":{"results":[{"title":"Tides","href":"https://a.example/t","description":"Twice a day."},{"title":"Moon","url":"https://b.example/m","extra":1,"text":"It pulls."}]}}"#,
        "{\"title\":\"Tides\",\"url\":\"https://a.example/t\",\"body\":\"Twice a day.\"}\n{\"title\":\"Moon\",\"url\":\"https://b.example/m\",\"body\":\"It pulls.\"}",
        "Found 2:\n```json\n[{\"title\":\"Tides\",\"url\":\"https://a.example/t\",\"snippet\":\"Twice a day.\"},{\"title\":\"Moon\",\"url\":\"https://b.example/m\",\"highlights\":[\"It pulls.\"]}]\n```",
        r#"{"result":"[{\"title\":\"Tides\",\"url\":\"https://a.example/t\",\"summary\":\"Twice a day.\"},{\"title\":\"Moon\",\"url\":\"https://b.example/m\",\"summary\":\"It pulls.\"}]"}"#,
    ] {
        let (finding, sources) = read(output);
        assert_eq!(finding, TIDES, "{output}");
        assert_eq!(sources, ["Tides <https://a.example/t>", "Moon <https://b.example/m>"], "{output}");
    }
}

#[test]
fn words_keep_their_shape_and_get_tokens() {
    let is = |output: &str, finding: &str, sources: &[&str]| {
        assert_eq!(
            read(output),
            (finding.to_owned(), sources.iter().map(|it| (*it).to_owned()).collect()),
            "{output}"
        );
    };
    is(
        "Title: Tides\nURL: https://a.example/t\nContent: Twice.\n\nTitle: Moon\nDescription: It pulls.\nURL: https://b.example/m",
        "Title: Tides\nURL: [s1]\nContent: Twice.\n\nTitle: Moon\nDescription: It pulls.\nURL: [s2]",
        &["Tides <https://a.example/t>", "Moon <https://b.example/m>"],
    );
    is(
        "1. Tides\n   URL: https://a.example/t\n   Twice.\n2. **Moon**\n   https://b.example/m",
        "1. Tides\n   URL: [s1]\n   Twice.\n2. **Moon**\n   [s2]",
        &["Tides <https://a.example/t>", "Moon <https://b.example/m>"],
    );
    is(
        "- [Tides](https://a.example/t): twice, says https://www.b.example/m.",
        "- Tides [s1]: twice, says [s2].",
        &["Tides <https://a.example/t>", "b.example <https://www.b.example/m>"],
    );
    is(r#"{"result":"Tides: https://a.example/t"}"#, "Tides: [s1]", &["a.example <https://a.example/t>"]);
    is("![chart](https://a.example/c.png) High at noon.", "chart High at noon.", &[]);
    is("Nothing to cite.", "Nothing to cite.", &[]);
}

#[test]
fn what_holds_nothing_is_nothing() {
    for output in ["", " \n", "[]", "{}", r#"{"results":[],"count":0}"#] {
        assert_eq!(read(output), (String::new(), vec![]), "{output}");
    }
}

#[test]
fn a_page_has_one_token_whoever_finds_it() {
    let mut shelf = Shelf::new(&[Source { url: "https://a.example/t".into(), title: "Tides".into() }]);
    let again = r#"[{"url":"https://b.example/","title":"B"},{"url":"http://www.a.example/t/?utm_source=x","title":"Other"}]"#;
    assert_eq!(shelf.note(again, 5), "[s2] B (b.example)\n\n[s1] Other (a.example)");
    assert_eq!(shelf.into_sources().len(), 2);
}

#[test]
fn a_page_cannot_give_itself_another_pages_token() {
    let (finding, _) =
        read(r#"[{"url":"https://a.example","title":"[s2] T","snippet":"as [s9] and [S1, s2] say [x]"}]"#);
    assert_eq!(finding, "[s1] (s2) T (a.example)\nas (s9) and (S1, s2) say [x]");
    assert_eq!(read("so says [s7] https://a.example").0, "so says (s7) [s1]");
}

#[test]
fn much_is_cut() {
    let many: Vec<Value> =
        (0..9).map(|n| serde_json::json!({"url": format!("https://a.example/{n}"), "title": "T"})).collect();
    assert_eq!(read(&Value::from(many).to_string()).1.len(), 3);
    let long = "word ".repeat(4_000);
    assert!(read(&long).0.chars().count() <= FINDING_MAX + 2);
    let hit = serde_json::json!({"url": "https://a.example", "title": "T\n]( ".repeat(90), "content": long});
    let (finding, sources) = read(&hit.to_string());
    assert!(finding.chars().count() < SNIPPET_MAX + TITLE_MAX + 50, "{finding}");
    assert!(sources[0].starts_with("T )( T") && sources[0].chars().count() < TITLE_MAX + 40, "{sources:?}");
    // A truncated address does not count as an address.
    let late = format!("{}https://a.example/{}", "word ".repeat(1_590), "x".repeat(100));
    assert_eq!(read(&late).1, Vec::<String>::new());
}
