//! `turnfold strategy new`: a crate with a strategy of one's own, from the example `greeter`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::json;

use super::Context;
use crate::{
    exit::{CliError, Exit},
    output::{self, counted},
};

/// Files of the example, with their paths in a new crate, the code first. `greeter` and `Greeter` stand for the names of the
/// strategy.
const FILES: [(&str, &str); 6] = [
    ("src/main.rs", include_str!("../../../examples/greeter/src/main.rs")),
    ("src/tests.rs", include_str!("../../../examples/greeter/src/tests.rs")),
    ("fixtures/greeter/map.snap", include_str!("../../../examples/greeter/fixtures/greeter/map.snap")),
    (
        "fixtures/greeter/prompts.snap",
        include_str!("../../../examples/greeter/fixtures/greeter/prompts.snap"),
    ),
    (
        "fixtures/greeter/two_visits.jsonl",
        include_str!("../../../examples/greeter/fixtures/greeter/two_visits.jsonl"),
    ),
    (
        "fixtures/greeter/two_visits.snap",
        include_str!("../../../examples/greeter/fixtures/greeter/two_visits.snap"),
    ),
];

/// The checkout that this binary was built from. It may be gone.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Maximum length of a name, in characters.
const NAME_MAX: usize = 40;

/// Names that a crate or a module cannot have, or that the new crate's dependencies have.
const RESERVED: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "schemars",
    "self",
    "serde",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "turnfold",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

pub(super) fn run(
    ctx: &Context,
    name: &str,
    folder: &Path,
    checkout: Option<PathBuf>,
) -> anyhow::Result<Exit> {
    check_name(name, &ctx.strategies.names())?;
    if folder.exists() {
        let message = format!("{} already exists\nhint: choose another folder with --path", folder.display());
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    let checkout = find_checkout(checkout)?;
    let mut written = Vec::new();
    for (path, text) in crate_files(name, &checkout)? {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        written.push(path);
    }
    let thing = json!({"name": name, "folder": folder, "files": written});
    output::one(ctx.format, &thing, || {
        format!(
            "created {} ({})\n\nnext:\n  cd {}\n  cargo test\n  cargo run -- dev\n  cargo run -- turn send -g {name} Hello --wait",
            folder.display(),
            counted(written.len() as u64, "file"),
            folder.display(),
        )
    })?;
    Ok(Exit::Ok)
}

/// Fails if a crate and a strategy cannot both have this name.
fn check_name(name: &str, known: &[&str]) -> anyhow::Result<()> {
    let refused = |why: &str, hint: &str| {
        Err(CliError::with_exit(Exit::Usage, format!("{name:?} {why}\nhint: {hint}")))
    };
    let letters = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
    let is_name = name.starts_with(|char: char| char.is_ascii_lowercase()) && name.chars().all(letters);
    if !is_name || NAME_MAX < name.len() {
        let hint = format!(
            "start with a lower-case letter and use lower-case letters, digits and _, at most {NAME_MAX}, such as my_agent"
        );
        return refused("is not a valid name of a strategy", &hint);
    }
    if known.contains(&name) {
        return refused("is already a strategy of this binary", "choose another name");
    }
    let type_name = type_name(name);
    let mut types =
        FILES[0].1.split(|char: char| !char.is_ascii_alphanumeric()).filter(|word| *word != "Greeter");
    if RESERVED.contains(&name) || types.any(|word| word == type_name) {
        let why = "has a meaning in Rust or in the new crate";
        return refused(why, &format!("choose another name, such as {name}_agent"));
    }
    Ok(())
}

/// Returns the checkout of turnfold that the new crate depends on.
fn find_checkout(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let folder = given.as_deref().unwrap_or(Path::new(CHECKOUT));
    match folder.canonicalize() {
        Ok(path) if path.join("cli/Cargo.toml").is_file() => Ok(path),
        Ok(_) | Err(_) => {
            let message = format!(
                "{} is not a checkout of turnfold\nhint: clone its repository, and name the folder with --turnfold",
                folder.display()
            );
            Err(CliError::with_exit(Exit::Usage, message))
        }
    }
}

/// Returns the files of the new crate, with their paths.
fn crate_files(name: &str, checkout: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let renamed = |text: &str| {
        text.replace("examples/greeter/", "").replace("greeter", name).replace("Greeter", &type_name(name))
    };
    let mut files: Vec<_> = FILES.iter().map(|(path, text)| (renamed(path), renamed(text))).collect();
    files.push(("Cargo.toml".to_owned(), manifest(name, &checkout.join("cli"))));
    files.push((".gitignore".to_owned(), "/target\n/.turnfold\n".to_owned()));
    // The versions that turnfold is tested with; cargo removes those that the crate does not need.
    let lock = checkout.join("Cargo.lock");
    let locked = fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    files.push(("Cargo.lock".to_owned(), locked));
    Ok(files)
}

fn manifest(name: &str, turnfold: &Path) -> String {
    let path = turnfold.display().to_string();
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"

[dependencies]
# The derives of a strategy's types need these two.
schemars = "1.2"
serde = {{ version = "1", features = ["derive"] }}
# A checkout on this machine. To build elsewhere, name a repository: {{ git = "https://…" }}.
turnfold = {{ path = {path:?} }}

# A workspace of its own, also inside the folder of another one.
[workspace]

# As in turnfold itself: line tables are enough for a backtrace, and hashing and SQLite are too slow without optimisation.
[profile.dev]
debug = "line-tables-only"
[profile.dev.package."*"]
debug = false
[profile.dev.package.libsqlite3-sys]
opt-level = 1
[profile.dev.package.serde_json]
opt-level = 1
[profile.dev.package.sha2]
opt-level = 3
[profile.dev.package.shared]
opt-level = 1
"#
    )
}

/// Returns the name of the type: `MyAgent` for `my_agent`.
fn type_name(name: &str) -> String {
    let capitalized = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('_').map(capitalized).collect()
}
