//! The name of the person at the command line.

use std::{env, fs, os::unix::fs::MetadataExt as _};

/// Longest user name that the API accepts, in characters.
const MAX_CHARS: usize = 200;

/// Returns the user's name: `USER`, else the account's name in `/etc/passwd`, else `operator`.
pub(crate) fn user_name() -> String {
    let from_env = || clean(&env::var("USER").ok()?);
    let from_passwd = || {
        let uid = fs::metadata("/proc/self").ok()?.uid().to_string();
        let accounts = fs::read_to_string("/etc/passwd").ok()?;
        let matching =
            |line: &str| (line.split(':').nth(2)? == uid).then(|| clean(line.split(':').next()?))?;
        accounts.lines().find_map(matching)
    };
    from_env().or_else(from_passwd).unwrap_or_else(|| "operator".to_owned())
}

/// Makes a name fit for an HTTP header: one line, trimmed, at most [`MAX_CHARS`]. Returns `None` if nothing remains.
fn clean(name: &str) -> Option<String> {
    let line: String = name.chars().filter(|char| !char.is_control()).collect();
    let name: String = line.trim().chars().take(MAX_CHARS).collect();
    let name = name.trim_end();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_name_is_cleaned_for_the_header() {
        assert_eq!(clean(" Zoë Ångström ").as_deref(), Some("Zoë Ångström"));
        assert_eq!(clean("a\r\nb\u{7f}").as_deref(), Some("ab"));
        assert_eq!(clean(&"ë".repeat(300)).map(|it| it.chars().count()), Some(MAX_CHARS));
        for empty in ["", "  ", "\n"] {
            assert_eq!(clean(empty), None);
        }
    }
}
