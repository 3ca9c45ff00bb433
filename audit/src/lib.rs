//! Checks of recorded threads: replay, schema compatibility, signed checkpoints, and explanations of decisions.
//!
//! The crate reads logs and never calls a model or a tool.

#![warn(missing_docs)]

mod admin;
pub mod approvals;
mod bisect;
pub mod checkpoints;
pub mod cohort;
mod cost;
mod diff;
mod explain;
pub mod judge;
pub mod otel;
pub mod replay;
pub mod schema;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
mod transfer;
mod waits;
pub mod whatif;

pub use admin::admin_entry;
pub use bisect::{Condition, Found, Search};
pub use cost::{CostTotal, Price, Purpose, Share, Spending};
pub use diff::{Divergence, Row, Side, Sides, ThreadDiff, diff};
pub use explain::Explainer;
pub use transfer::{AttachmentLine, EventLine, LogExport};
pub use waits::waits;
