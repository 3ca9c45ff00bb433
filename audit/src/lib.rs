//! The second look: what an auditor asks of logs that were written long ago. It reads, and never asks the world anything.

mod bisect;
mod broken;
pub mod corpus;
mod cost;
mod diff;
pub mod replay;
pub mod schema;
mod why;
pub mod witness;

pub use bisect::{Found, Search, Sought};
pub use broken::Broken;
pub use cost::{Price, Share, Spending, Took};
pub use diff::{Diffed, Row, Side, Sides, Split, diff};
pub use why::{Decision, Explainer, Line, Why};
