//! Checks the comments of the workspace's Rust files for plain English, and their identifiers for the product's words.
//!
//! Six rules, each with a limit in `tests/it.rs`: a doc comment does not open with a relative or interrogative word, neither
//! does a file's introduction, a doc comment has at least three words (enum variants are exempt), no comment uses a word
//! of [`AVOIDED`], the parameter of a closure names the element, and tests use no identifier of [`RENAMED`].
//!
//! `cargo run -p prose -- PATH` prints the measures and the offending lines of a file or folder.

mod comments;
mod identifiers;
mod report;
mod rules;

pub use comments::{Comment, Kind, code, comments};
pub use identifiers::{Parameter, RENAMED, RENAMED_FILES, Word, parameters, renamed_file, words};
pub use report::{Report, Share};
pub use rules::{AVOIDED, Finding, Rule, findings};
