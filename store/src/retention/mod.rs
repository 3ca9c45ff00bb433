//! Retention: deletion of old threads and batches, and legal holds that prevent it.

mod batches;
pub(crate) mod holds;
pub(crate) mod threads;

pub use holds::Hold;
pub use threads::{Prune, Pruned};
pub(crate) use threads::{list, listed};
