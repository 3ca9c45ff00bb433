//! Purity of the core: nothing in its dependency tree can open a socket, run a task or access a database.

use std::process::Command;

#[test]
fn no_dependency_does_io() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let tree = Command::new(cargo)
        .args([
            "tree",
            "--package",
            "shared",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--locked",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).expect("cargo speaks UTF-8");
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"serde_json"), "this is the tree: {tree}");
    for banned in
        ["tokio", "sea-orm", "sqlx", "redis", "reqwest", "hyper", "rmcp", "async-openai", "rand", "getrandom"]
    {
        assert!(!names.contains(&banned), "shared must not depend on {banned}:\n{tree}");
    }
}
