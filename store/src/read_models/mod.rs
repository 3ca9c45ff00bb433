//! Read models: the rows of threads and turns, compared with what the log says, and put right.

mod difference;
pub(crate) mod differences;
mod expected;

pub use difference::{Difference, Differs};
pub use expected::{ExpectedThread, ExpectedTurn};
