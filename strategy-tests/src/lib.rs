//! Tests of strategies against recorded threads.
//!
//! A **fixture** is a log, captured from a store or written by hand. Only external events are read from it; the rest is decided
//! anew by today's code. A strategy in a crate of its own gets four tests with one dev-dependency and this module:
//!
//! ```
//! #[cfg(test)]
//! mod fixtures {
//!     use strategies::probe::Probe;
//!
//!     strategy_tests::tests!(&[&Probe], "fixtures");
//! }
//! ```
//!
//! Fixtures of the strategy `probe` are then in `fixtures/probe/NAME.jsonl`, each with its output in `NAME.snap`.
//! [Snapshots](Snapshot) belong to insta: changes are reviewed with `cargo insta review`.
//!
//! | module | content |
//! |---|---|
//! | `suite`, `generic`, `sent`, `snapshot` | fixtures of a strategy, the four tests, parts of requests that no event shows, contents of a `.snap` |
//! | `secrets`, `redact` | detection of secrets, and logs without them |
//! | `request_diff` | the first difference between two requests, and the nearest recorded request |
//! | `reproduce`, `mutate`, `capture` | conditions for a log to be a fixture: today's code reproduces it, and notices a flipped byte |
//! | `check` | problems in fixtures |
//! | `coverage`, `set_cover` | points of a strategy that fixtures cover; the fewest threads that cover the rest |

mod capture;
mod check;
mod coverage;
mod generic;
mod mutate;
mod redact;
mod reproduce;
mod request_diff;
mod secrets;
mod sent;
mod set_cover;
mod snapshot;
mod suite;

pub use capture::{Captured, Refusal, capture, fixture_lines, slug, suggested_name};
pub use check::{Finding, check, refreshed};
pub use coverage::{Aspect, Coverage, Point, Seen, known};
pub use insta;
pub use mutate::{Flips, flips};
pub use redact::Redacted;
pub use request_diff::{Difference, difference, nearest};
pub use secrets::{Pattern, Secrets};
pub use set_cover::{Candidate, Chosen, Cover};
pub use snapshot::{Snapshot, beside};
pub use suite::{Broken, Fixture, Suite};

/// Returns the value, or panics with a readable message.
#[doc(hidden)]
#[track_caller]
pub fn must<T>(found: Result<T, Broken>) -> T {
    found.unwrap_or_else(|broken| panic!("{broken}"))
}

/// Declares the four tests of strategies: `transcripts`, `crash_anywhere`, `maps` and `prompts`.
///
/// Takes the strategies, and the folder of their fixtures relative to the crate's `Cargo.toml`.
#[macro_export]
macro_rules! tests {
    ($strategies:expr, $folder:literal) => {
        /// The transcript of each fixture is as accepted.
        #[test]
        fn transcripts() {
            for suite in suites() {
                $crate::must(suite.transcripts()).into_iter().for_each(hold);
            }
        }

        /// After a crash at any event, the next worker continues with the same step.
        #[test]
        fn crash_anywhere() {
            for suite in suites() {
                $crate::must(suite.crash_anywhere());
            }
        }

        /// No fixture leaves the map, and together the fixtures take every edge of it.
        #[test]
        fn maps() {
            let mut dashed = Vec::new();
            for suite in suites() {
                hold($crate::must(suite.map()));
                dashed.extend($crate::must(suite.dashed()));
            }
            assert!(dashed.is_empty(), "edges that no fixture walks: {dashed:#?}");
        }

        /// Every distinct prompt, tool description, schema and default is as accepted, so that an edited one must be
        /// reviewed; and so are the parts of requests that no event shows.
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
