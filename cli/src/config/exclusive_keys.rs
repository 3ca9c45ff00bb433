//! Keys of providers and MCP servers that exclude each other.

/// Keys that exclude each other: section, key, and the keys that it excludes.
///
/// A stronger layer that sets the key removes the excluded keys from weaker layers. A layer has no other way to unset a key.
pub(super) const EXCLUSIVE_KEYS: [(&str, &str, &[&str]); 4] = [
    ("providers", "base_url", &["script"]),
    (
        "providers",
        "script",
        &[
            "base_url",
            "api_key",
            "headers",
            "query",
            "stream",
            "timeout_seconds",
            "structured",
            "dialect",
            "prices",
            "accepts",
            "retry",
        ],
    ),
    ("mcp", "command", &["url", "headers"]),
    ("mcp", "url", &["command", "args", "env", "cwd", "sandbox", "user"]),
];
