//! Who sits at the command line.

use std::{env, fs, os::unix::fs::MetadataExt as _};

/// The longest name that the api takes, in characters.
const LONGEST: usize = 200;

/// Who sits at the command line; where nobody said so, by the name that the machine knows them by.
pub(crate) fn person() -> String {
    let said = || plain(&env::var("USER").ok()?);
    let known = || {
        let id = fs::metadata("/proc/self").ok()?.uid().to_string();
        let users = fs::read_to_string("/etc/passwd").ok()?;
        let of = |line: &str| (line.split(':').nth(2)? == id).then(|| plain(line.split(':').next()?))?;
        users.lines().find_map(of)
    };
    said().or_else(known).unwrap_or_else(|| "operator".to_owned())
}

/// A name on one line, no longer than the api takes; none, if nothing is left of it.
fn plain(name: &str) -> Option<String> {
    let line: String = name.chars().filter(|it| !it.is_control()).collect();
    let name: String = line.trim().chars().take(LONGEST).collect();
    let name = name.trim_end();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_that_the_api_takes() {
        assert_eq!(plain(" Zoë Ångström ").as_deref(), Some("Zoë Ångström"));
        assert_eq!(plain("a\r\nb\u{7f}").as_deref(), Some("ab"));
        assert_eq!(plain(&"ë".repeat(300)).map(|it| it.chars().count()), Some(LONGEST));
        for nothing in ["", "  ", "\n"] {
            assert_eq!(plain(nothing), None);
        }
    }
}
