//! Modules of a source file: the names that they define and import. Reads the layout that rustfmt writes.

use std::{collections::BTreeSet, path::Path};

use crate::code;

/// Words before the name of an item.
const KEYWORDS: [&str; 14] = [
    "async",
    "auto",
    "const",
    "enum",
    "fn",
    "macro_rules!",
    "mod",
    "mut",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
];

/// Spaces of one level of indentation.
const LEVEL: usize = 4;

/// Names of a module, without those that only its tests have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Module {
    /// Names of the modules around it, from the outermost, and its own. The root of the crate has none.
    pub(crate) path: Vec<String>,
    /// Names of its own items. Modules are not among them.
    pub(crate) definitions: BTreeSet<String>,
    /// Names from elsewhere, including those imported inside functions.
    pub(crate) imports: Vec<Import>,
}

/// A name that a `use` declaration brings into a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// Name inside the module; `*` for every name of a module.
    pub(crate) name: String,
    /// Segments as written, without `*` and `self` at the end.
    pub(crate) path: Vec<String>,
    /// True for `pub use`, with any visibility.
    pub(crate) is_reexport: bool,
}

/// The module of a file, by its path within `src`, and the modules with a body in it.
pub(crate) fn modules(file: &Path, source: &str) -> Vec<Module> {
    let file = Module { path: module_path(file), ..Module::default() };
    let mut reader = Reader { modules: vec![file], open: vec![0], skipped: None, declaration: String::new() };
    code(source).lines().for_each(|line| reader.line(line));
    reader.modules
}

fn module_path(file: &Path) -> Vec<String> {
    let mut path: Vec<_> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_root = path == ["lib"] || path == ["main"];
    if is_root || path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}

struct Reader {
    modules: Vec<Module>,
    /// Positions of the modules around the line, from the outermost.
    open: Vec<usize>,
    /// Indentation of the item of tests that the line is in.
    skipped: Option<usize>,
    /// Earlier lines of an unfinished `use` declaration.
    declaration: String,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let text = line.trim();
        let indentation = line.len() - line.trim_start().len();
        if let Some(start) = self.skipped {
            let is_last = indentation == start && text.ends_with([';', '}', ',']);
            self.skipped = (!is_last).then_some(start);
        } else if text == "#[cfg(test)]" {
            self.skipped = Some(indentation);
        } else if !self.declaration.is_empty() || without_visibility(text).starts_with("use ") {
            self.declaration.push_str(text);
            if text.ends_with(';') {
                self.finish_declaration();
            }
        } else {
            self.item(text, indentation);
        }
    }

    fn finish_declaration(&mut self) {
        let declaration = std::mem::take(&mut self.declaration);
        let tree = without_visibility(&declaration).trim_start_matches("use ").trim_end_matches(';');
        let is_reexport = declaration.starts_with("pub");
        add_imports(tree, &[], is_reexport, &mut self.module().imports);
    }

    fn item(&mut self, text: &str, indentation: usize) {
        let level = LEVEL * (self.open.len() - 1);
        if text == "}" && indentation + LEVEL == level {
            self.open.pop();
        }
        if indentation != level {
            return;
        }
        match item(text) {
            Some(("mod", name)) if text.ends_with('{') => {
                let mut path = self.module().path.clone();
                path.push(name.to_owned());
                self.open.push(self.modules.len());
                self.modules.push(Module { path, ..Module::default() });
            }
            Some(("mod", _)) | None => {}
            Some((_, name)) => {
                self.module().definitions.insert(name.to_owned());
            }
        }
    }

    /// The innermost module around the line.
    fn module(&mut self) -> &mut Module {
        &mut self.modules[self.open[self.open.len() - 1]]
    }
}

/// Last keyword and name of an item that begins on this line.
fn item(text: &str) -> Option<(&str, &str)> {
    let mut keyword = None;
    for word in without_visibility(text).split_whitespace() {
        if !KEYWORDS.contains(&word) {
            let end = word.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            return keyword.map(|keyword| (keyword, &word[..end.unwrap_or(word.len())]));
        }
        keyword = Some(word);
    }
    None
}

fn without_visibility(text: &str) -> &str {
    match text.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(text, |(_, item)| item),
        Some(rest) if rest.starts_with(' ') => &rest[1..],
        _ => text,
    }
}

/// Adds the names of a `use` tree such as `a::{b, c as d}` behind the segments of its parents.
fn add_imports(tree: &str, parents: &[String], is_reexport: bool, found: &mut Vec<Import>) {
    let segments = |path: &str| {
        let path = path.split("::").filter(|_| !path.is_empty()).map(|segment| segment.trim().to_owned());
        parents.iter().cloned().chain(path).collect::<Vec<_>>()
    };
    if let Some((head, branches)) = tree.split_once('{') {
        let path = segments(head.trim().trim_end_matches("::"));
        let branches = branches.trim_end().strip_suffix('}').unwrap_or(branches);
        split_branches(branches).for_each(|branch| add_imports(branch, &path, is_reexport, found));
        return;
    }
    let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias)));
    let mut path = segments(path.trim());
    let is_glob = path.last().is_some_and(|last| last == "*");
    if is_glob || path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let Some(last) = path.last() else { return };
    let name = if is_glob { "*" } else { alias.map_or(&**last, str::trim) };
    found.push(Import { name: name.to_owned(), path, is_reexport });
}

/// Branches of a `use` tree between its braces.
fn split_branches(branches: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let parts = branches.split(move |letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    });
    parts.map(str::trim).filter(|branch| !branch.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Vec<Module> {
        modules(Path::new("a/mod.rs"), source)
    }

    #[track_caller]
    fn assert_imports(source: &str, expected: &[(&str, &str)]) {
        let found = read(source).remove(0).imports;
        let found: Vec<_> = found.iter().map(|import| (&*import.name, import.path.join("::"))).collect();
        let expected: Vec<_> = expected.iter().map(|(name, path)| (*name, (*path).to_owned())).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn use_trees_are_lists_of_names() {
        assert_imports(
            "use super::{\n    b::{self, C as D},\n    E, // why\n};",
            &[("b", "super::b"), ("D", "super::b::C"), ("E", "super::E")],
        );
        assert_imports("use ::b::{C, D};\nuse e;", &[("C", "::b::C"), ("D", "::b::D"), ("e", "e")]);
        assert_imports("pub(crate) use self::b::*;", &[("*", "self::b")]);
        assert_imports("fn f() {\n    use b::C;\n}\n// use b::D;", &[("C", "b::C")]);
    }

    #[test]
    fn items_of_tests_are_left_out() {
        let source =
            "#[cfg(test)]\nuse a::{\n    b,\n};\n#[cfg(test)]\nmod tests {\n    use c::d;\n}\nuse e::f;";
        assert_imports(source, &[("f", "e::f")]);
    }

    #[test]
    fn modules_with_a_body_have_their_own_names() {
        let found = read(
            "pub struct A;\npub mod b {\n    use c::D;\n\n    pub const fn e() {}\n}\nmod g;\ntype F = A;",
        );
        let paths: Vec<_> = found.iter().map(|module| module.path.join("::")).collect();
        assert_eq!(paths, ["a", "a::b"]);
        assert_eq!(found[0].definitions, BTreeSet::from(["A".to_owned(), "F".to_owned()]));
        assert_eq!(found[1].definitions, BTreeSet::from(["e".to_owned()]));
        assert_eq!((found[0].imports.len(), found[1].imports.len()), (0, 1));
    }
}
