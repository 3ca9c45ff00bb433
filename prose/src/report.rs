//! Measures of a file or folder, and its offending lines.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use crate::{
    Comment, Finding, Kind, RENAMED, Rule, code, comments, findings, parameters, renamed_file, words,
};

/// Offenders among a total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Number of offenders.
    pub offenders: usize,
    /// Number of comments, closures or words that the rule applies to.
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
    closures: usize,
    words: usize,
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
            Rule::Element => self.closures,
            Rule::Identifier => self.words,
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
            return entries(path)?.iter().try_for_each(|entry| self.visit(entry));
        }
        if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(path)?;
            comments(&source).iter().for_each(|comment| self.add(path, comment));
            self.add_code(path, &code(&source));
        }
        Ok(())
    }

    fn add_code(&mut self, path: &Path, code: &str) {
        let mut add =
            |rule, line, message| self.findings.push((path.to_owned(), Finding { rule, line, message }));
        for parameter in parameters(code) {
            self.closures += 1;
            if parameter.name == "it" {
                add(Rule::Element, parameter.line, "|it| (use: the name of the element)".to_owned());
            }
        }
        if !path.components().any(|part| part.as_os_str() == "tests") {
            return;
        }
        if let Some(name) = path.file_stem().and_then(|stem| renamed_file(&stem.to_string_lossy())) {
            add(Rule::Identifier, 1, format!("the file {name} (use: what it tests)"));
        }
        for word in words(code) {
            self.words += 1;
            let renamed = RENAMED.iter().find(|(renamed, _)| word.word == *renamed);
            if let Some((renamed, instead)) = renamed {
                let message = format!("{renamed:?} in `{}` (use: {instead})", word.identifier);
                add(Rule::Identifier, word.line, message);
            }
        }
    }

    fn add(&mut self, path: &Path, comment: &Comment) {
        self.comments += 1;
        self.docs += usize::from(comment.kind != Kind::Plain);
        self.files += usize::from(comment.kind == Kind::File);
        self.findings.extend(findings(comment).into_iter().map(|finding| (path.to_owned(), finding)));
    }
}

/// Entries of a folder in order, without `target` and those that are hidden.
pub(crate) fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.retain(|entry| !is_skipped(entry));
    entries.sort();
    Ok(entries)
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
            (Rule::Element, "closures whose only parameter is `it`"),
            (Rule::Identifier, "identifiers of tests with a word of the old language"),
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
