//! Strategies held to recorded threads: what happened once becomes a test.
//!
//! A **fixture** is a log, captured from a store or written by hand. Only what came from outside is read from it; the rest
//! is decided anew, by today's code. A strategy in a crate of its own has its four tests with one dev-dependency and this:
//!
//! ```
//! #[cfg(test)]
//! mod fixtures {
//!     use shared::strategies::probe::Probe;
//!
//!     harness::tests!(&[&Probe], "fixtures");
//! }
//! ```
//!
//! Fixtures of the strategy `probe` then lie in `fixtures/probe/NAME.jsonl`, and beside each, as `NAME.snap`, what the code
//! made of it. [Snapshots](Snapshot) are insta's: `cargo insta review` is where they are accepted.
//!
//! | module | says |
//! |---|---|
//! | `suite`, `generic`, `snapshot` | the fixtures of a strategy, the four tests, what stands in a `.snap` |
//! | `secrets`, `redact` | what looks like a secret, and a log without any |
//! | `difference` | where two requests first differ, and which recorded one is nearest |
//! | `reproduce`, `flip`, `capture` | whether a log is a fixture: it is lived again, and one byte of each answer is flipped |
//! | `check` | what is wrong with fixtures |
//! | `coverage`, `cover` | what of a strategy fixtures have seen; the fewest threads that show the rest |

mod capture;
mod check;
mod cover;
mod coverage;
mod difference;
mod flip;
mod generic;
mod redact;
mod reproduce;
mod secrets;
mod snapshot;
mod suite;

pub use capture::{Captured, Refusal, capture};
pub use check::{Finding, check, refreshed};
pub use cover::{Candidate, Chosen, Cover};
pub use coverage::{Aspect, Coverage, Point, Seen, known};
pub use difference::{Difference, difference, nearest};
pub use flip::{Flips, flips};
pub use insta;
pub use redact::Redacted;
pub use secrets::{Pattern, Secrets};
pub use snapshot::{Snapshot, beside};
pub use suite::{Broken, Fixture, Suite};

/// What is there, or a panic in words that people read.
#[doc(hidden)]
#[track_caller]
pub fn must<T>(found: Result<T, Broken>) -> T {
    found.unwrap_or_else(|broken| panic!("{broken}"))
}

/// Declares the four tests of strategies: `transcripts`, `crash_anywhere`, `maps` and `prompts`.
///
/// It is given the strategies, and the folder of their fixtures beside the crate's `Cargo.toml`.
#[macro_export]
macro_rules! tests {
    ($strategies:expr, $folder:literal) => {
        /// What today's code makes of each fixture.
        #[test]
        fn transcripts() {
            for suite in suites() {
                $crate::must(suite.transcripts()).into_iter().for_each(hold);
            }
        }

        /// Whichever event a worker dies after, the next worker carries on as if nothing had happened.
        #[test]
        fn crash_anywhere() {
            for suite in suites() {
                $crate::must(suite.crash_anywhere());
            }
        }

        /// No thread leaves the map, and together the fixtures walk every edge of it.
        #[test]
        fn maps() {
            let mut dashed = Vec::new();
            for suite in suites() {
                hold($crate::must(suite.map()));
                dashed.extend($crate::must(suite.dashed()));
            }
            assert!(dashed.is_empty(), "edges that no fixture walks: {dashed:#?}");
        }

        /// Every distinct prompt in full, so that an edited prompt is a difference to review.
        #[test]
        fn prompts() {
            for suite in suites() {
                hold($crate::must(suite.prompts()));
            }
        }

        fn suites() -> Vec<$crate::Suite> {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/", $folder);
            $crate::must($crate::Suite::each_of($strategies, folder.as_ref()))
        }

        fn hold(snapshot: $crate::Snapshot) {
            let $crate::Snapshot { folder, name, contents } = snapshot;
            $crate::beside(&folder).bind(|| $crate::insta::assert_snapshot!(name, contents));
        }
    };
}
