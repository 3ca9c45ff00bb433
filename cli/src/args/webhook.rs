//! Arguments of `turnfold webhook`.

use clap::Subcommand;

use super::values::reason;

#[derive(Subcommand)]
pub(crate) enum Webhook {
    /// List webhooks, without their secrets
    #[command(name = "list", visible_alias = "ls")]
    List,
    /// Add a webhook and print its secret, which is not shown again
    Add {
        /// URL that receives signed POST requests (Standard Webhooks)
        #[arg(value_name = "URL")]
        at: String,
        /// Event types to send, as names or patterns such as turn.*; * is all [default: batch.*]
        ///
        /// Types: batch.completed, batch.completed_with_errors, batch.expired, batch.cancelled, batch.failed, turn.completed,
        /// turn.failed, turn.waiting, approval.requested, budget.exceeded and pin.changed.
        #[arg(long, visible_alias = "event", value_name = "TYPE", value_delimiter = ',')]
        types: Vec<String>,
        /// Only events of turns of this strategy
        #[arg(long, value_name = "NAME")]
        strategy: Option<String>,
        /// Only events of turns and batches whose metadata has this value; may be repeated
        #[arg(long = "where", value_name = "K=V", value_parser = pair)]
        metadata: Vec<(String, String)>,
    },
    /// Remove a webhook and its delivery log
    #[command(name = "remove", visible_alias = "rm")]
    Remove {
        /// Id of the webhook
        id: String,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
    /// List deliveries, newest first
    Deliveries {
        /// Only deliveries of this webhook
        #[arg(long, value_name = "ID")]
        webhook: Option<String>,
        /// Only deliveries in this state
        #[arg(long, value_enum)]
        state: Option<DeliveryState>,
        /// Maximum number of deliveries
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u64,
    },
    /// Send a delivery again, with the same webhook-id
    Redeliver {
        /// Id of the delivery
        id: String,
    },
    /// Verify the signature of a delivery that you received; its body is read from stdin
    Verify {
        /// The webhook's secret: env:NAME or file:PATH
        #[arg(long, value_name = "REFERENCE")]
        secret: String,
        /// Value of the header webhook-id
        #[arg(long)]
        id: String,
        /// Value of the header webhook-timestamp; refused if more than five minutes from now
        #[arg(long, value_name = "SECONDS")]
        timestamp: String,
        /// Value of the header webhook-signature
        #[arg(long)]
        signature: String,
    },
}

/// Splits `K=V`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must have the form KEY=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// State of a delivery.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum DeliveryState {
    /// Waiting for its first attempt, or for a retry
    Pending,
    /// Accepted by the receiver
    Delivered,
    /// Given up after the last attempt
    Failed,
}
