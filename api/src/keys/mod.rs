//! Management of API keys, and sessions of browsers.

pub(crate) mod routes;
pub(crate) mod session;
pub(crate) mod sign_in;
mod view;
