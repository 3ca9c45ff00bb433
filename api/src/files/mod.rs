//! Files in OpenAI's API: lines of batches and their results.
//!
//! **Invariant:** no file is ever held in memory as a whole. Uploads and downloads pass through in pieces.

pub(crate) mod lookup;
mod multipart;
pub(crate) mod routes;
