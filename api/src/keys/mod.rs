//! Management of API keys.

pub(crate) mod routes;
mod view;
