//! JSON texts whose values would not survive being read: refused, or changed visibly.
//!
//! Numbers are read into 64 bits, strings into UTF-8, and logs by a parser that gives up at 128 levels. A value that does
//! not fit would be changed silently, or make a log unreadable. Requests of clients and arguments of models are refused by
//! name, before anything is stored. The result of a call that was carried out cannot be refused, so it is changed.

mod depth;
mod number;
mod scan;
#[cfg(test)]
mod tests;
mod unfaithful;

pub use self::{
    depth::{check_json_depth, is_readable_event},
    scan::{check_json, keepable_json},
    unfaithful::{JSON_DEPTH_MAX, UnfaithfulJson, UnfaithfulKind},
};
