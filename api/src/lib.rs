//! Stands empty for the moment.
