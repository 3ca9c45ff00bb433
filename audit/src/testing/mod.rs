//! Generated threads and faulty strategies, for tests and benchmarks only.

mod corpus;
mod mutant;

pub use corpus::{Corpus, CorpusError};
pub use mutant::Mutant;
