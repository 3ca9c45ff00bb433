//! Batches in OpenAI's API, with extensions: every line of a file is a turn on a thread of its own.
//!
//! ```text
//!   POST /v1/batches ─▶ row ─▶ BatchCoordinator: validate ─▶ submit ─▶ collect ─▶ write     one API process at a time,
//!                                           │          turns │     ▲ ended turns     │      under a lease
//!                                         items              └ workers              └ result files
//!
//!   validating    chunks of the file are validated one after another; items that exist already are submitted and collected
//!   in_progress   the whole file is validated; items are submitted and collected
//!   finalizing    all items have ended; the result files are written
//! ```
//!
//! **Invariant:** every step can be repeated. An item is submitted with an idempotency key made of its batch, its number and
//! its attempt, and it ends in one transaction with its result. If an API process dies, nothing is lost or done twice, and
//! the process that takes over its batches continues from their rows.
//!
//! ## Why lines run before the whole file is validated
//!
//! Validating a million lines takes minutes, and clients want the first result at once. Nothing that is known only after the
//! last line affects an earlier one: if several lines have the same `custom_id`, the first counts, so a valid line stays
//! valid; and a batch that fails because no line is valid has submitted nothing. Window, cost limit, pause, expiry and
//! cancellation apply to items, also while more of them are added. So does a change of the coordinator, because the position
//! in the file is in the row and changes together with the items. Only priority is applied late: a line with a high priority
//! goes before the lines that are not submitted when it is found.
//!
//! **Invariant:** a batch is `validating` until its last line is validated. `in_progress` therefore means that the total is
//! final. A batch ends only after that, unless it is cancelled.
//!
//! ## Why an invalid line does not fail the batch
//!
//! One line must not cost a night's work. Errors of single lines are in the error file, by line number. A batch fails as a
//! whole only if none of its lines can be run.
//!
//! ## Why the coordinator polls twice a second
//!
//! Workers are other processes and do not report the ends of turns. While a batch is open, its coordinator therefore polls
//! twice a second, sooner after it found something to do, and at once after it found a full page. It collects results and
//! submits items concurrently. A batch that is created or changed through the same process wakes the coordinator.
//!
//! ## Why a page is small compared with the window
//!
//! The turns of one page run while the next pages are prepared. With pages of half the window, workers and coordinator would
//! take turns waiting for each other.

pub(crate) mod coordinator;
mod endpoint;
mod envelope;
mod file_check;
mod line;
mod lines;
pub(crate) mod list;
mod lookup;
pub(crate) mod quote;
mod rerun;
pub(crate) mod results;
pub(crate) mod routes;
pub(crate) mod validation;
mod view;

pub use file_check::BatchFileCheck;
