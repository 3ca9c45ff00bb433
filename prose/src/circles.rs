//! Circles of imports among the files of a crate: none of their files can be read, moved or tested without the others.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    path::{Path, PathBuf},
};

use crate::{
    modules::{Module, modules},
    report::entries,
};

/// Names by the importing file and the file that defines them.
type Imports = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Files of a crate that import from each other, directly or through others of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The folder `src` of the crate.
    pub src: PathBuf,
    /// At least two files, relative to `src`.
    pub files: BTreeSet<String>,
    imports: Imports,
}

impl Circle {
    /// Largest number of files of a circle.
    pub const MAX_FILES: usize = 8;

    /// Circles of every crate at or under a path, the largest first. Files of tests are left out.
    ///
    /// # Errors
    /// A file or folder cannot be read.
    pub fn read(path: &Path) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        let src = path.join("src");
        if path.join("Cargo.toml").is_file() && src.is_dir() {
            let mut sources = BTreeMap::new();
            add_sources(&src, &src, &mut sources)?;
            found.extend(Crate::new(&sources).circles(&src));
        }
        let folders = if path.is_dir() { entries(path)? } else { Vec::new() };
        for folder in folders.iter().filter(|entry| entry.is_dir() && **entry != src) {
            found.extend(Self::read(folder)?);
        }
        found.sort_by_key(|circle| Reverse(circle.files.len()));
        Ok(found)
    }

    /// True for a circle of more than [`MAX_FILES`](Self::MAX_FILES) files.
    pub fn is_too_large(&self) -> bool {
        self.files.len() > Self::MAX_FILES
    }
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} files in {} import from each other:", self.files.len(), self.src.display())?;
        self.files.iter().try_for_each(|file| writeln!(f, "  {file}"))?;
        let pairs = self
            .imports
            .iter()
            .flat_map(|(from, others)| others.iter().map(move |(to, names)| (from, to, names)));
        for (from, to, names) in pairs {
            let names = names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
            writeln!(f, "    {from} -> {to}: {names}")?;
        }
        Ok(())
    }
}

fn add_sources(src: &Path, folder: &Path, sources: &mut BTreeMap<String, String>) -> io::Result<()> {
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            add_sources(src, &path, sources)?;
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            let file = path.strip_prefix(src).unwrap_or(&path).to_string_lossy();
            sources.insert(file.into_owned(), fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// Modules of a crate by their paths, each with its file.
struct Crate(BTreeMap<Vec<String>, (String, Module)>);

impl Crate {
    /// Reads files by their paths within `src`. Beside a `lib.rs`, a `main.rs` is another crate, and left out.
    fn new(sources: &BTreeMap<String, String>) -> Self {
        let has_library = sources.contains_key("lib.rs");
        let sources = sources.iter().filter(|(file, _)| !has_library || *file != "main.rs");
        let modules = sources.flat_map(|(file, source)| {
            let found = modules(Path::new(file), source).into_iter();
            found.map(|module| (module.path.clone(), (file.clone(), module)))
        });
        Self(modules.collect())
    }

    fn circles(&self, src: &Path) -> Vec<Circle> {
        let imports = self.imports();
        let reached: BTreeMap<_, _> = imports.keys().map(|file| (file, reached(file, &imports))).collect();
        let circles: BTreeSet<BTreeSet<String>> = reached
            .iter()
            .filter(|(file, others)| others.contains(**file))
            .map(|(file, others)| {
                let leads_back =
                    |other: &&&String| reached.get(**other).is_some_and(|back| back.contains(*file));
                others.iter().filter(leads_back).map(|other| (*other).clone()).collect()
            })
            .collect();
        let circles = circles.into_iter().map(|files| {
            let mut imports = imports.clone();
            imports.retain(|from, _| files.contains(from));
            imports.values_mut().for_each(|others| others.retain(|to, _| files.contains(to)));
            Circle { src: src.to_owned(), files, imports }
        });
        circles.collect()
    }

    /// Names that files import from each other. A re-export alone does not need the other file.
    fn imports(&self) -> Imports {
        let mut found = Imports::new();
        for (file, module) in self.0.values() {
            let needed = module.imports.iter().filter(|import| !import.is_reexport);
            for (origin, name) in
                needed.filter_map(|import| self.origin(&module.path, &import.path, MAX_HOPS))
            {
                if origin != file {
                    let names = found.entry(file.clone()).or_default().entry(origin.clone()).or_default();
                    names.insert(name);
                }
            }
        }
        found
    }

    /// File and name of the item or module that a path means in a module; none if it is in another crate.
    fn origin(&self, module: &[String], path: &[String], hops: usize) -> Option<(&String, String)> {
        let mut at = module.to_vec();
        for (nth, segment) in path.iter().enumerate() {
            match &**segment {
                "crate" => at.clear(),
                "self" => {}
                "super" => at.truncate(at.len().saturating_sub(1)),
                name => {
                    at.push(name.to_owned());
                    if !self.0.contains_key(&at) {
                        at.pop();
                        return self.item(&at, &path[nth..], nth == 0, hops.checked_sub(1)?);
                    }
                }
            }
        }
        let (file, _) = self.0.get(&at)?;
        Some((file, MODULE.to_owned()))
    }

    /// File and name of an item of a module, or of another module that re-exports or imports it.
    fn item(
        &self,
        at: &[String],
        path: &[String],
        may_be_crate: bool,
        hops: usize,
    ) -> Option<(&String, String)> {
        let (file, module) = self.0.get(at)?;
        let (name, rest) = path.split_first()?;
        if module.definitions.contains(name) {
            return Some((file, name.clone()));
        }
        if let Some(import) = module.imports.iter().find(|import| import.name == *name) {
            return self.origin(at, &[&*import.path, rest].concat(), hops);
        }
        let globs = module.imports.iter().filter(|import| import.name == "*" && import.is_reexport);
        let behind = globs.filter_map(|import| self.origin(at, &[&*import.path, path].concat(), hops));
        let mut behind = behind.filter(|(_, found)| found != MODULE);
        behind.next().or_else(|| (!may_be_crate).then(|| (file, MODULE.to_owned())))
    }
}

/// Imports that are followed from one to the next.
const MAX_HOPS: usize = 8;

/// Name in the place of an item's: the whole module, or an item of it that is not found.
const MODULE: &str = "(module)";

/// Files that a file imports from, directly or through others.
fn reached<'a>(file: &'a String, imports: &'a Imports) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut ahead = vec![file];
    while let Some(next) = ahead.pop() {
        let targets = imports.get(next).into_iter().flat_map(BTreeMap::keys);
        ahead.extend(targets.filter(|target| found.insert(*target)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(sources: &[(&str, &str)]) -> Vec<Circle> {
        let sources = sources.iter().map(|(file, source)| ((*file).to_owned(), (*source).to_owned()));
        Crate::new(&sources.collect()).circles(Path::new("src"))
    }

    #[test]
    fn a_circle_is_found_through_a_reexport() {
        let found = circles(&[
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::*;"),
            ("a/mod.rs", "use crate::B;\npub struct A(B);"),
            ("b.rs", "use crate::{A as Other, c::C};\npub struct B(Box<Other>);"),
            ("c.rs", "pub struct C;"),
        ]);
        let printed: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            printed,
            ["2 files in src import from each other:\n  a/mod.rs\n  b.rs\n    \
                              a/mod.rs -> b.rs: B\n    b.rs -> a/mod.rs: A\n"]
        );
        assert!(!found[0].is_too_large());
    }

    #[test]
    fn reexports_alone_make_no_circle() {
        let found = circles(&[
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;\npub struct Root;"),
            ("a.rs", "use crate::{B, Root};\npub struct A(B, Root);"),
            ("b.rs", "use serde::A;\npub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::A;\n}"),
        ]);
        assert_eq!(found, []);
    }

    #[test]
    fn a_circle_of_nine_files_is_too_large() {
        let of_size = |size: usize| {
            let files = (0..size).map(|nth| {
                let source = format!("use crate::m{0}::T{0};\npub struct T{nth};", (nth + 1) % size);
                (format!("m{nth}.rs"), source)
            });
            let found = Crate::new(&files.chain([("lib.rs".to_owned(), String::new())]).collect());
            found.circles(Path::new("src")).remove(0)
        };
        assert_eq!((of_size(8).files.len(), of_size(8).is_too_large()), (8, false));
        assert_eq!((of_size(9).files.len(), of_size(9).is_too_large()), (9, true));
    }
}
