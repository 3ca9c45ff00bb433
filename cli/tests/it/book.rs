//! The generated parts of the book in `docs/`: strategy maps and the references of configuration, command line and HTTP API.
//!
//! A part that differs from the code fails its test. `UPDATE_BOOK=1 cargo nextest run -p turnfold book::` writes all parts.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf};

use serde_json::Value;
use test_servers::free_port;
use turnfold::config::MANUAL;
use world::{DIALECTS, DialectRow};

use crate::{
    engine::{Process, fixtures, log, turnfold},
    first_minutes::line_of,
};

const GENERATED: &str = "<!-- Generated from the code: change it there, then run `UPDATE_BOOK=1 cargo nextest run -p turnfold book::`. -->\n\n";

fn page(name: &str) -> PathBuf {
    fixtures().join("../docs").join(name)
}

/// Compares a page with its generated content, or writes the page if `UPDATE_BOOK` is set.
fn check(name: &str, expected: &str) {
    let file = page(name);
    if std::env::var_os("UPDATE_BOOK").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, expected).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    let first = written.lines().zip(expected.lines()).position(|(a, b)| a != b);
    assert!(
        written == expected,
        "docs/{name} is stale, first at line {}: run `UPDATE_BOOK=1 cargo nextest run -p turnfold book::`",
        first.map_or(written.lines().count().min(expected.lines().count()), |it| it) + 1
    );
}

/// Replaces the text between `<!-- begin NAME -->` and `<!-- end NAME -->`.
fn with_part(page: &str, name: &str, part: &str) -> String {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let from = page.find(&begin).unwrap_or_else(|| panic!("the page has no {begin:?}")) + begin.len();
    let to = from + page[from..].find(&end).unwrap_or_else(|| panic!("the page has no {end:?}"));
    format!("{}{part}{}", &page[..from], &page[to..])
}

#[test]
fn the_page_of_operation_lists_every_metric() {
    let mut table = "| metric | kind | labels | means |\n|---|---|---|---|\n".to_owned();
    for it in metrics::metrics().descriptions() {
        let labels: Vec<String> = it.labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(table, "| `{}` | {} | {} | {} |", it.name(), it.kind, labels.join(", "), it.help);
    }
    let text = fs::read_to_string(page("operating.md")).unwrap();
    check("operating.md", &with_part(&text, "metrics", &table));
}

#[test]
fn the_page_of_strategies_has_the_map_of_each() {
    let mut text = fs::read_to_string(page("strategies.md")).unwrap();
    for graph in strategies::all() {
        let map = shared::map(&graph.topology(), None);
        text = with_part(
            &text,
            &format!("map {}", graph.name()),
            &format!("```mermaid\n{}\n```\n", map.trim_end()),
        );
    }
    check("strategies.md", &text);
}

#[test]
fn the_page_of_models_has_the_table_of_dialects() {
    let text = fs::read_to_string(page("models-and-mcp.md")).unwrap();
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head = DialectRow::COLUMNS.map(str::to_owned);
    let mut table = line(&head) + &line(&head.clone().map(|_| "---".to_owned()));
    table.extend(DIALECTS.iter().map(|row| {
        let mut cells = row.cells();
        cells[0] = format!("`{}`", cells[0]);
        line(&cells)
    }));
    check("models-and-mcp.md", &with_part(&text, "dialects", &table));
}

/// One comment block or key of the configuration file.
enum Entry {
    Text(String),
    Section(String),
    Key(String),
}

/// Reads `turnfold.default.toml` as a sequence of comments, sections and keys; commented-out keys count as keys.
fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut comment = String::new();
    let flush = |comment: &mut String, entries: &mut Vec<Entry>| {
        let text = std::mem::take(comment);
        if !text.trim().is_empty() {
            entries.push(Entry::Text(text));
        }
    };
    for line in MANUAL.lines() {
        let code = line.strip_prefix('#').unwrap_or(line);
        if line.starts_with("# ---") || line.is_empty() {
            flush(&mut comment, &mut entries);
        } else if line == "#" || line.starts_with("# ") {
            comment += line.strip_prefix("# ").unwrap_or("");
            comment += "\n";
        } else {
            flush(&mut comment, &mut entries);
            entries.push(match code.starts_with('[') {
                true => Entry::Section(code.to_owned()),
                false => Entry::Key(code.to_owned()),
            });
        }
    }
    flush(&mut comment, &mut entries);
    entries
}

#[test]
fn the_reference_of_the_configuration_is_current() {
    let mut text = format!(
        "# Configuration reference\n\n{GENERATED}\
         `turnfold config default` prints this reference as a TOML file; `turnfold config show --origin` prints the effective\n\
         values and where each comes from.\n\n"
    );
    let entries = entries();
    let mut entries = entries.iter().peekable();
    let mut in_code = false;
    while let Some(entry) = entries.next() {
        if in_code && !matches!(entry, Entry::Key(_)) {
            text += "```\n\n";
            in_code = false;
        }
        match entry {
            // A comment directly above a section describes the section.
            Entry::Text(comment) => {
                if let Some(Entry::Section(name)) = entries.peek() {
                    let _ = writeln!(text, "## `{name}`\n");
                    entries.next();
                }
                let _ = writeln!(text, "{}", comment.replace("<env>", "ENV"));
            }
            Entry::Section(name) => {
                let _ = writeln!(text, "## `{name}`\n");
            }
            Entry::Key(line) => {
                if !in_code {
                    text += "```toml\n";
                    in_code = true;
                }
                let _ = writeln!(text, "{line}");
            }
        }
    }
    if in_code {
        text += "```\n";
    }
    check("reference/configuration.md", &text);
}

/// The help of a command, without the options that every command has, and its subcommands.
fn help(path: &[String]) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = turnfold(folder.path());
    command
        .args(path)
        .arg("--help")
        .env_remove("TURNFOLD_URL")
        .env_remove("TURNFOLD_TENANT")
        .env("COLUMNS", "100");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{path:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let section = |title: &str| {
        let from = text.lines().position(|it| it == title)?;
        Some(
            text.lines()
                .skip(from + 1)
                .take_while(|it| it.starts_with("  "))
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    let names = section("Commands:").unwrap_or_default();
    let names =
        names.iter().filter(|it| !it.starts_with("   ")).filter_map(|it| it.split_whitespace().next());
    let names = names.filter(|it| *it != "help").map(str::to_owned).collect();
    let shown = match text.find("\nGlobal options:") {
        Some(at) if !path.is_empty() => text[..at].to_owned(),
        Some(_) | None => text,
    };
    (shown, names)
}

#[test]
fn the_reference_of_the_command_line_is_current() {
    let mut text = format!(
        "# Command reference\n\n{GENERATED}\
         The output of `--help` for every command. The global options are listed once, at the top.\n"
    );
    let mut pending = vec![Vec::<String>::new()];
    while let Some(path) = pending.pop() {
        let (help, names) = help(&path);
        let title = [&["turnfold".to_owned()][..], &path].concat().join(" ");
        let level = "#".repeat((path.len() + 2).min(4));
        let _ = write!(text, "\n{level} {title}\n\n```text\n{}\n```\n", help.trim_end());
        pending.extend(names.into_iter().rev().map(|it| [&path[..], &[it]].concat()));
    }
    check("reference/cli.md", &text);
}

/// The name of the type that a JSON Schema refers to.
fn type_of(schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        return format!("`{}`", target.rsplit('/').next().unwrap());
    }
    match (schema["type"].as_str(), &schema["items"]) {
        (Some("array"), items) => format!("list of {}", type_of(items)),
        (Some(name), _) => name.to_owned(),
        (None, _) => match &schema["type"] {
            Value::Array(names) => names
                .iter()
                .filter_map(Value::as_str)
                .filter(|it| *it != "null")
                .collect::<Vec<_>>()
                .join(" or "),
            _ => "any".to_owned(),
        },
    }
}

/// A description on one line, usable in a Markdown table.
fn cell(text: &Value) -> String {
    text.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn operation(text: &mut String, method: &str, path: &str, it: &Value) {
    let _ = writeln!(text, "### `{} {path}`\n", method.to_uppercase());
    for key in ["summary", "description"] {
        if it[key].as_str().is_some_and(|it| !it.is_empty()) {
            let _ = writeln!(text, "{}\n", it[key].as_str().unwrap().trim());
        }
    }
    if let Some(scope) = it["security"][0]["bearer"][0].as_str() {
        let _ = writeln!(text, "Scope: `{scope}`\n");
    }
    let parameters = it["parameters"].as_array().into_iter().flatten().collect::<Vec<_>>();
    if !parameters.is_empty() {
        text.push_str("| parameter | in | type | meaning |\n|---|---|---|---|\n");
        for it in parameters {
            let (name, place) = (cell(&it["name"]), cell(&it["in"]));
            let _ = writeln!(
                text,
                "| `{name}` | {place} | {} | {} |",
                type_of(&it["schema"]),
                cell(&it["description"])
            );
        }
        text.push('\n');
    }
    let body = it["requestBody"]["content"].as_object().into_iter().flatten();
    let bodies: BTreeSet<String> =
        body.map(|(kind, it)| format!("{} as `{kind}`", type_of(&it["schema"]))).collect();
    if !bodies.is_empty() {
        let _ = writeln!(text, "Body: {}\n", bodies.into_iter().collect::<Vec<_>>().join("; "));
    }
    text.push_str("| status | meaning |\n|---|---|\n");
    for (status, it) in it["responses"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "| {status} | {} |", cell(&it["description"]));
    }
    text.push('\n');
}

#[test]
fn the_reference_of_the_http_api_is_current() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut dev = turnfold(folder.path());
    let _dev = Process::start(dev.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
    line_of(&folder.path().join("dev.log"), "turnfold is ready at ");
    let url = format!("http://{listen}/openapi.json");
    // A second call in the same process is no error: the first provider stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let get = async move { reqwest::get(url).await.unwrap().json::<Value>().await.unwrap() };
    let document = tokio::runtime::Runtime::new().unwrap().block_on(get);
    let mut text = format!(
        "# HTTP reference\n\n{GENERATED}\
         Every route of the API. The complete OpenAPI document, with all types, is at `/openapi.json` of a running API; `/docs` shows\n\
         it as an interactive page. Errors are problem details (RFC 9457); routes of the OpenAI dialect answer in OpenAI's shape.\n\n"
    );
    let paths = document["paths"].as_object().unwrap();
    let mut areas: Vec<&str> = Vec::new();
    for path in paths.keys() {
        let name = path.trim_start_matches("/v1").split('/').nth(1).unwrap_or_default();
        if !areas.contains(&name) {
            areas.push(name);
        }
    }
    for area in areas {
        let _ = writeln!(text, "## {area}\n");
        for (path, methods) in paths {
            if path.trim_start_matches("/v1").split('/').nth(1) != Some(area) {
                continue;
            }
            for (method, it) in methods.as_object().unwrap() {
                operation(&mut text, method, path, it);
            }
        }
    }
    check("reference/http.md", &(text.trim_end().to_owned() + "\n"));
}

/// Every page is in the table of contents, and every relative link leads to a file.
#[test]
fn no_page_is_lost_and_no_link_is_broken() {
    let docs = page("");
    let summary = fs::read_to_string(page("SUMMARY.md")).unwrap();
    let root = docs.join("..");
    let mut pages = vec![
        root.join("README.md"),
        root.join("ARCHITECTURE.md"),
        root.join("CONTRIBUTING.md"),
        root.join("AGENTS.md"),
    ];
    for folder in [docs.clone(), docs.join("reference")] {
        for entry in fs::read_dir(&folder).unwrap() {
            let file = entry.unwrap().path();
            if file.extension().is_some_and(|it| it == "md") {
                let name = file.strip_prefix(&docs).unwrap().display().to_string();
                assert!(
                    name == "SUMMARY.md" || summary.contains(&format!("({name})")),
                    "{name} is not in SUMMARY.md"
                );
                pages.push(file);
            }
        }
    }
    let mut broken = Vec::new();
    for file in pages {
        let text = fs::read_to_string(&file).unwrap();
        for link in text.split("](").skip(1).filter_map(|it| it.split(')').next()) {
            let target = link.split('#').next().unwrap();
            let is_file = !target.is_empty() && !target.contains("://") && !target.contains(['(', '<', ' ']);
            if is_file && !file.parent().unwrap().join(target).exists() {
                broken.push(format!("{}: {link}", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Every test and fixture that the page names exists.
#[test]
fn the_tests_of_the_source_documents_configuration_exist() {
    let text = fs::read_to_string(page("seed-configuration.md")).unwrap();
    let root = fixtures().join("..");
    let words: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    let mut tests = 0;
    for (nth, word) in words.iter().enumerate() {
        if word.ends_with(".jsonl") && !word.contains("STRATEGY") {
            assert!(root.join(word).is_file(), "{word}");
            tests += 1;
        }
        if word.ends_with(".rs") {
            let code = fs::read_to_string(root.join(word)).unwrap_or_else(|err| panic!("{word}: {err}"));
            let test = words[nth + 1];
            assert!(code.contains(&format!("fn {test}(")), "{word} has no {test}");
            tests += 1;
        }
    }
    assert!(tests > 30, "{tests}");
    for strategy in ["planner", "planner_with_prompts", "retriever", "research", "action_plan"] {
        assert!(root.join(format!("fixtures/{strategy}/nodes_are_configured.jsonl")).is_file());
    }
}
