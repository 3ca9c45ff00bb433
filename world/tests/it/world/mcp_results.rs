//! Results of tools as public reports describe them: what models read of each.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use shared::{Content, FaultKind, Response, Safety, ToolOutput};

use super::{Stage, live, mcp_misbehaviour::calling, perform, scripted_server, servers};

/// A result, and the parts of what the model reads, with the report that describes it.
struct Row {
    report: &'static str,
    answer: Value,
    expected: &'static str,
}

fn row(report: &'static str, result: Value, expected: &'static str) -> Row {
    Row { report, answer: json!({ "result": result }), expected }
}

fn text(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn structured() -> Vec<Row> {
    let compiled = json!({ "ok": false, "output": "main.c:121: expected ;" });
    let note = text("the full result is in structuredContent");
    vec![
        row(
            "NousResearch/hermes-agent#101330: an error whose cause is in structuredContent",
            json!({ "isError": true, "content": note, "structuredContent": compiled }),
            "error: the full result is in structuredContent\n{\"ok\":false,\"output\":\"main.c:121: expected ;\"}",
        ),
        row(
            "usememos/memos#6226: a summary as text, and the data in structuredContent",
            json!({ "content": text("Scraped 1 URL."), "structuredContent": { "chunks": ["a fact"] } }),
            "ok: Scraped 1 URL.\n{\"chunks\":[\"a fact\"]}",
        ),
        row(
            "the same data as text is not repeated",
            json!({ "content": text("{ \"n\": 1.0, \"s\": \"a\" }"), "structuredContent": { "s": "a", "n": 1.0 } }),
            "ok: { \"n\": 1.0, \"s\": \"a\" }",
        ),
        row(
            "a wrapped value that is the text is not repeated",
            json!({ "content": text("7"), "structuredContent": { "result": 7 } }),
            "ok: 7",
        ),
        row(
            "knowsuchagency/mcp2cli#87: structuredContent with an empty content",
            json!({ "content": [], "structuredContent": { "answer": 42 } }),
            "ok: {\"answer\":42}",
        ),
        row(
            "modelcontextprotocol/python-sdk#1796: structuredContent without content",
            json!({ "structuredContent": { "answer": 42 } }),
            "ok: {\"answer\":42}",
        ),
        row(
            "cloudflare/mcp-server-cloudflare#12: the result of the first protocol, toolResult",
            json!({ "toolResult": { "content": text("three workers"), "isError": false } }),
            "ok: three workers",
        ),
        row(
            "QuantGeekDev/mcp-framework#135: an object of the tool's own in place of a result",
            json!({ "temperature": 21, "city": "London" }),
            "ok: {\"city\":\"London\",\"temperature\":21}",
        ),
        row("aaif-goose/goose#6368: an empty content", json!({ "content": [], "isError": false }), "ok: "),
    ]
}

fn blocks() -> Vec<Row> {
    let link = json!({
        "type": "resource_link", "uri": "reports://q3", "name": "q3", "title": "Third quarter",
        "description": "Revenue by region", "mimeType": "application/pdf", "size": 12_000,
    });
    let resource = |resource: Value| json!({ "content": [{ "type": "resource", "resource": resource }] });
    let notes = STANDARD.encode("# Notes\nzwölf");
    vec![
        row(
            "agno-agi/agno#10009: a resource link with its description",
            json!({ "content": [link] }),
            "ok: [resource q3 reports://q3, application/pdf: Third quarter. Revenue by region]",
        ),
        row(
            "github/copilot-cli#4916: a text as a blob",
            resource(json!({ "uri": "file:///n.md", "mimeType": "text/markdown", "blob": notes })),
            "ok: [resource file:///n.md]\n# Notes\nzwölf",
        ),
        row(
            "anthropics/anthropic-sdk-python#1836: a blob without a type",
            resource(json!({ "uri": "file:///x", "blob": "/wD+" })),
            "ok: [resource file:///x, 3 B]",
        ),
        row(
            "cloudflare/mcp-server-cloudflare#252: a picture's base64 as the text of a resource",
            resource(json!({ "uri": "file:///p.png", "mimeType": "image/png", "text": PNG })),
            "ok: [resource file:///p.png, image/png, 72 B]",
        ),
        row(
            "nota/gyazo-mcp-server#129: a picture as a data: URL",
            json!({ "content": [{ "type": "image", "mimeType": "image/png", "data": format!("data:image/png;base64,{PNG}") }] }),
            "ok: [image image/png, 72 B]",
        ),
        row(
            "open-webui/open-webui#29665: a picture's data: URL as text",
            json!({ "content": text(&format!("data:image/png;base64,{PNG}")) }),
            "ok: [image image/png, 72 B]",
        ),
        row(
            "esengine/DeepSeek-Reasonix#1198: a text block whose text is no text",
            json!({ "content": [{ "type": "text", "text": 21.5 }, { "type": "text", "text": { "a": [1] } }] }),
            "ok: 21.5\n{\"a\":[1]}",
        ),
    ]
}

fn errors() -> Vec<Row> {
    let error = |report, code: i32, message: &str, expected| Row {
        report,
        answer: json!({ "error": { "code": code, "message": message } }),
        expected,
    };
    vec![
        error(
            "oculairmedia/Letta-MCP-server#102: a gateway withholds a result without structuredContent",
            -32600,
            "MCP error -32600: Tool book has an output schema but did not return structured content",
            "error: desk answered book, but its answer was withheld: MCP error -32600: Tool book has an output schema but did not return structured content; the call was carried out",
        ),
        error(
            "cyanheads/obsidian-mcp-server#87: a gateway withholds a result that does not match",
            -32602,
            "MCP error -32602: Structured content does not match the tool's output schema: data must be object",
            "error: desk answered book, but its answer was withheld: MCP error -32602: Structured content does not match the tool's output schema: data must be object; the call was carried out",
        ),
        row(
            "IBM/mcp-context-forge#4042: the same as a failed result",
            json!({ "isError": true, "content": text("Output validation error: outputSchema defined but no structured output returned") }),
            "error: Output validation error: outputSchema defined but no structured output returned; the call was carried out",
        ),
        row(
            "glazperle/kimai_mcp#18: an error that is not marked as one",
            json!({ "content": text("Error: 404 Not Found") }),
            "ok: Error: 404 Not Found",
        ),
        Row {
            report: "anthropics/claude-code#47765: progress after the answer, for a token that is no longer known",
            answer: json!([
                r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":1,"total":1}}"#,
            ]),
            expected: "ok: done",
        },
        Row {
            report: "twentyhq/twenty#24559: progress for a token that the server made up",
            answer: json!([
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tool-call-7","progress":0}}"#,
                r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}"#,
            ]),
            expected: "ok: done",
        },
    ]
}

async fn seen(answer: &Value) -> (String, Vec<Content>) {
    let script = json!({ "tools/call": answer });
    let world = live([], servers([("desk", scripted_server::server(&script))]));
    let mut seen = (String::new(), Vec::new());
    // The second call shows that the connection is unharmed.
    for _ in 0..2 {
        let outcome = perform(&world, &Stage::default(), &calling("desk", "book", Safety::Write)).await.0;
        let (output, content) = match outcome {
            Ok((Response::Output(output), _)) => (output, Vec::new()),
            Ok((Response::OutputWithExtras { output, extras }, _)) => (output, extras.content),
            Ok(other) => return (format!("{other:?}"), Vec::new()),
            Err(fault) => {
                let doubt =
                    if matches!(fault.kind, FaultKind::InDoubt { .. }) { "in doubt" } else { "fault" };
                return (format!("{doubt}: {}", fault.error), Vec::new());
            }
        };
        let text = match output {
            ToolOutput::Ok(text) => format!("ok: {text}"),
            ToolOutput::Error(text) => format!("error: {text}"),
            ToolOutput::Refused(text) => format!("refused: {text}"),
        };
        seen = (text, content);
    }
    world.close().await;
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_public_reports_reach_the_model() {
    let rows: Vec<Row> = [structured(), blocks(), errors()].into_iter().flatten().collect();
    let all = futures::future::join_all(rows.iter().map(|row| seen(&row.answer))).await;
    let wrong: Vec<String> = rows
        .iter()
        .zip(all)
        .filter(|(row, (seen, _))| *seen != row.expected)
        .map(|(row, (seen, _))| format!("{}\n  expected {}\n  seen     {seen}", row.report, row.expected))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// Models are given a picture only if its data is plain base64.
#[tokio::test]
async fn the_data_of_a_picture_is_plain_base64() {
    let wrapped =
        PNG.as_bytes().chunks(60).map(|line| std::str::from_utf8(line).unwrap()).collect::<Vec<_>>();
    let url_safe = STANDARD.encode([0xFB, 0xEF, 0xBE, 0xFF]).replace('+', "-").replace('/', "_");
    for (data, expected) in [
        (format!("data:image/png;base64,{PNG}"), PNG.to_owned()),
        (wrapped.join("\r\n"), PNG.to_owned()),
        (url_safe.trim_end_matches('=').to_owned(), STANDARD.encode([0xFB, 0xEF, 0xBE, 0xFF])),
    ] {
        let block = json!({ "type": "image", "mimeType": "image/png", "data": data });
        let (_, content) = seen(&json!({ "result": { "content": [block] } })).await;
        assert_eq!(content, [Content::Image { mime_type: "image/png".to_owned(), data: expected }]);
    }
}
