//! Keys of the configuration, such as `limits.models."openai/gpt-4o"`.

/// Joins a section and a name to a key. A name that is not a bare TOML key is quoted.
pub(super) fn join(section: &str, name: &str) -> String {
    let bare = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    let name = if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { format!("{name:?}") };
    if section.is_empty() { name } else { format!("{section}.{name}") }
}
