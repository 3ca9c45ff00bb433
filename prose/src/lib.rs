//! Checks the comments of the workspace's Rust files for plain English, their identifiers for the product's words, and their
//! imports for circles.
//!
//! Six rules, each with a limit in `tests/it.rs`: a doc comment does not open with a relative or interrogative word, neither
//! does a file's introduction, a doc comment has at least three words (enum variants are exempt), no comment uses a word
//! of [`AVOIDED`], the parameter of a closure names the element, and tests use no identifier of [`RENAMED`].
//!
//! No [`Circle`] of files that import from each other has more than [`Circle::MAX_FILES`].
//!
//! `cargo run -p prose -- PATH` prints the circles, the measures and the offending lines of a file or folder.

mod circles;
mod comments;
mod identifiers;
mod modules;
mod report;
mod rules;

pub use circles::Circle;
pub use comments::{Comment, Kind, code, comments};
pub use identifiers::{Parameter, RENAMED, RENAMED_FILES, Word, parameters, renamed_file, words};
pub use report::{Report, Share};
pub use rules::{AVOIDED, Finding, Rule, findings};
