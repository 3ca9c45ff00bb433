//! The MCP servers, as published by their authors.

use std::{fs, path::Path, process::Command};

use serde_json::json;

/// Packages with pinned versions, and the descriptions that a planner receives: tests change only on purpose.
const NPM: [(&str, &str); 3] = [
    ("@modelcontextprotocol/server-everything", "2026.8.31"),
    ("@modelcontextprotocol/server-filesystem", "2026.8.31"),
    ("@modelcontextprotocol/server-memory", "2026.8.31"),
];
const PIP: [(&str, &str); 2] = [("mcp-server-time", "2026.10.19"), ("mcp-server-git", "2026.10.19")];

/// Returns the configuration of all five servers, with their files in `home`.
pub(super) fn servers(home: &Path) -> String {
    let (node, python) = (test_servers::npm(&NPM), test_servers::pip(&PIP));
    let node = |name: &str| {
        node.join("node_modules/@modelcontextprotocol").join(name).join("dist/index.js").display().to_string()
    };
    let python = |name: &str| python.join("bin").join(name).display().to_string();
    let at = |name: &str| home.join(name).display().to_string();
    fs::create_dir(home.join("files")).unwrap();
    repository(&home.join("repo"));
    let memory = json!(at("memory.jsonl"));
    [
        server(
            "everything",
            "Echoes, adds numbers, and keeps prompts",
            "node",
            &[&node("server-everything"), "stdio"],
        ),
        server("files", "Reads and writes files", "node", &[&node("server-filesystem"), &at("files")]),
        server("memory", "Remembers people and things", "node", &[&node("server-memory")]),
        format!("env = {{ MEMORY_FILE_PATH = {memory} }}\n"),
        server(
            "time",
            "Converts times between zones",
            &python("mcp-server-time"),
            &["--local-timezone", "UTC"],
        ),
        server("git", "Reads a git repository", &python("mcp-server-git"), &["--repository", &at("repo")]),
    ]
    .concat()
}

/// Returns the configuration of the two servers whose tools a small model can handle.
pub(crate) fn everything_and_time() -> String {
    let (node, python) = (test_servers::npm(&NPM), test_servers::pip(&PIP));
    let everything = node.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let time = python.join("bin/mcp-server-time");
    let everything = [&*everything.display().to_string(), "stdio"];
    let about = "Echoes, adds numbers, and keeps prompts";
    server("everything", about, "node", &everything)
        + &server(
            "time",
            "Converts times between zones",
            &time.display().to_string(),
            &["--local-timezone", "UTC"],
        )
}

/// Returns the section of a server in the configuration; text appended to it may add keys.
pub(super) fn server(name: &str, description: &str, command: &str, args: &[&str]) -> String {
    format!(
        "[mcp.{name}]\ndescription = {}\ncommand = {}\nargs = {}\nconnect_timeout_seconds = 60\n",
        json!(description),
        json!(command),
        json!(args)
    )
}

/// Creates a repository with one commit and one untracked file.
fn repository(folder: &Path) {
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("kept.txt"), "kept\n").unwrap();
    let git = |words: &[&str]| {
        let output = Command::new("git").current_dir(folder).args(words).output();
        let output = output.expect("`git` is missing: install it with `apt-get install -y git`");
        assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "--quiet", "--initial-branch", "trunk"]);
    git(&["add", "kept.txt"]);
    let author = ["-c", "user.name=Grace", "-c", "user.email=grace@example.org"];
    git(&[&author[..], &["commit", "--quiet", "--message", "Keep what is worth it"]].concat());
    fs::write(folder.join("stray.txt"), "stray\n").unwrap();
}
