//! Checks the comments of the workspace's Rust files for plain English.
//!
//! Four rules, each with a limit in `tests/it.rs`: a doc comment does not open with a relative or interrogative word, neither
//! does a file's introduction, a doc comment has at least three words (enum variants are exempt), and no comment uses a word
//! of [`AVOIDED`].
//!
//! `cargo run -p prose -- PATH` prints the measures and the offending lines of a file or folder.

mod comments;
mod report;
mod rules;

pub use comments::{Comment, Kind, comments};
pub use report::{Report, Share};
pub use rules::{AVOIDED, Finding, Rule, findings};
