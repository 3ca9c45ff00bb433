//! Measures of a file or folder, and its offending lines.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use crate::{Comment, Finding, Kind, Rule, comments, findings};

/// Offenders among a total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Number of offenders.
    pub offenders: usize,
    /// Number of comments that the rule applies to.
    pub total: usize,
}

impl Share {
    /// Offenders in per mille of the total, rounded up.
    pub fn per_mille(self) -> usize {
        (1000 * self.offenders).div_ceil(self.total.max(1))
    }
}

/// Findings of all Rust files under a path.
#[derive(Debug, Default)]
pub struct Report {
    findings: Vec<(PathBuf, Finding)>,
    docs: usize,
    files: usize,
    comments: usize,
}

impl Report {
    /// Reads every `.rs` file at or under a path, except in folders named `target` and hidden folders.
    ///
    /// # Errors
    /// A file or folder cannot be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut report = Self::default();
        report.visit(path)?;
        Ok(report)
    }

    /// Share of comments that break a rule.
    pub fn share(&self, rule: Rule) -> Share {
        let offenders = self.findings.iter().filter(|(_, finding)| finding.rule == rule).count();
        let total = match rule {
            Rule::Opening => self.docs - self.files,
            Rule::TooShort => self.docs,
            Rule::FileOpening => self.files,
            Rule::Avoided => self.comments,
        };
        Share { offenders, total }
    }

    /// Offending lines of one rule, as `file:line: words`.
    pub fn offenders(&self, rule: Rule) -> impl Iterator<Item = String> {
        let of_rule = self.findings.iter().filter(move |(_, finding)| finding.rule == rule);
        of_rule.map(|(path, finding)| format!("{}:{}: {}", path.display(), finding.line, finding.message))
    }

    fn visit(&mut self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            let mut entries: Vec<_> =
                fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
            entries.sort();
            return entries.iter().filter(|path| !is_skipped(path)).try_for_each(|path| self.visit(path));
        }
        if path.extension().is_some_and(|extension| extension == "rs") {
            comments(&fs::read_to_string(path)?).iter().for_each(|comment| self.add(path, comment));
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, comment: &Comment) {
        self.comments += 1;
        self.docs += usize::from(comment.kind != Kind::Plain);
        self.files += usize::from(comment.kind == Kind::File);
        self.findings.extend(findings(comment).into_iter().map(|finding| (path.to_owned(), finding)));
    }
}

fn is_skipped(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name == "target" || name.starts_with('.')
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles = [
            (Rule::Opening, "doc comments that open with a relative or interrogative word"),
            (Rule::FileOpening, "files that introduce themselves with one"),
            (Rule::TooShort, "doc comments of fewer than three words"),
            (Rule::Avoided, "avoided words"),
        ];
        for (rule, _) in titles {
            self.offenders(rule).try_for_each(|offender| writeln!(f, "{offender}"))?;
        }
        for (rule, title) in titles {
            let share = self.share(rule);
            let (whole, tenth) = (share.per_mille() / 10, share.per_mille() % 10);
            writeln!(f, "{whole:>3}.{tenth} %  {:>5} of {:>5}  {title}", share.offenders, share.total)?;
        }
        Ok(())
    }
}
