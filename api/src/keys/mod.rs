//! Management of API keys, and sessions of browsers.

pub(crate) mod routes;
pub(crate) mod session;
mod view;
