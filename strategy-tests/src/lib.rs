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
//! | `settings`, `cases` | fixtures under a project's configuration, and all tests as a list for `turnfold fixture test` |
//! | `secrets`, `personal`, `placeholder`, `redact` | detection of secrets and personal data, and logs without them |
//! | `request_diff` | the first difference between two requests, and the nearest recorded request |
//! | `reproduce`, `mutate`, `capture` | conditions for a log to be a fixture: today's code reproduces it, and notices a flipped byte |
//! | `check` | problems in fixtures |
//! | `coverage`, `set_cover` | points of a strategy that fixtures cover; the fewest threads that cover the rest |

mod capture;
mod cases;
mod check;
mod coverage;
mod generic;
mod mutate;
mod personal;
mod placeholder;
mod redact;
mod reproduce;
mod request_diff;
mod secrets;
mod sent;
mod set_cover;
mod settings;
mod snapshot;
mod suite;

pub use capture::{Captured, Refusal, capture, fixture_lines, slug};
pub use cases::{Case, Verdict};
pub use check::{Finding, check, refreshed};
pub use coverage::{Aspect, Coverage, Point, Seen, known};
pub use insta;
pub use mutate::{Flips, flips};
pub use personal::NOT_FOUND;
pub use placeholder::Placeholder;
pub use redact::Redacted;
pub use request_diff::{Difference, difference, nearest};
pub use secrets::{Kind, Pattern, Secrets};
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
/// Takes the strategies, and the folder of their fixtures relative to the crate's `Cargo.toml`. While fixtures are still being
/// collected, `dashed = N` as a third argument says how many edges no fixture takes yet. The number can only be lowered.
#[macro_export]
macro_rules! tests {
    ($strategies:expr, $folder:literal) => {
        $crate::tests!($strategies, $folder, dashed = 0);
    };
    ($strategies:expr, $folder:literal, dashed = $dashed:literal) => {
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

        /// No fixture leaves the map, and together the fixtures take every edge of it, except a stated number.
        #[test]
        fn maps() {
            let mut dashed = Vec::new();
            for suite in suites() {
                hold($crate::must(suite.map()));
                dashed.extend($crate::must(suite.dashed()));
            }
            let count = dashed.len();
            assert!(
                count <= $dashed,
                "{count} edges that no fixture takes, {} are allowed: {dashed:#?}",
                $dashed
            );
            assert_eq!(count, $dashed, "fixtures take more edges now; hint: write dashed = {count}");
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
