//! Arguments of `turnfold key`.

use std::time::Duration;

use api_types::Scope;
use clap::Subcommand;
use shared::MultitaskStrategy;

use super::values::{duration, multitask_strategy, reason};

#[derive(Subcommand)]
pub(crate) enum Key {
    /// Create a key for the tenant of --tenant, or else for an operator, and print it; it is never shown again
    Create {
        /// Scopes of the key, which say what it permits: submit, read, answer, operate and admin
        #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', required = true)]
        scopes: Vec<Scope>,
        /// Time until the key expires, such as 90d [default: never]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        expires: Option<Duration>,
        /// Treatment of turns of the key on a busy thread that name none [default: that of the tenant or strategy]
        #[arg(long, value_name = "NAME", value_parser = multitask_strategy())]
        multitask_strategy: Option<MultitaskStrategy>,
        /// Name of the key, for people
        #[arg(long, value_name = "TEXT", default_value = "")]
        name: String,
    },
    /// List keys, oldest first, without their secrets
    #[command(name = "list", visible_alias = "ls")]
    List {
        /// Maximum number of keys
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u64,
    },
    /// Revoke a key; every API refuses it at once
    Revoke {
        /// Id of the key
        id: String,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
    /// Replace a key with a new one of the same tenant, name, scopes, settings and lifetime, and print the new one
    Rotate {
        /// Id of the key
        id: String,
        /// Time for which the old key remains valid, such as 1h
        #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
        overlap: Duration,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
}
