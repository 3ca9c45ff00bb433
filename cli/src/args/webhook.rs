//! What may be said to `turnfold webhook`.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Webhook {
    /// Lists webhooks, without their secrets
    Ls,
    /// Adds a webhook, and shows its secret this once
    Add {
        /// Where it is told: a POST of JSON, signed as Standard Webhooks says
        #[arg(value_name = "URL")]
        at: String,
        /// Of what it is told, by names or patterns [default: all there is]
        #[arg(long, value_name = "TYPE", value_delimiter = ',')]
        types: Vec<String>,
    },
    /// Removes a webhook, with the log of what it was told
    Rm {
        /// Which
        id: String,
    },
    /// Lists what webhooks were told and are to be told, the newest first
    Deliveries {
        /// Only those of this webhook
        #[arg(long, value_name = "ID")]
        webhook: Option<String>,
        /// Only those that stand so
        #[arg(long, value_enum)]
        state: Option<DeliveryState>,
        /// At most so many
        #[arg(long, default_value_t = 20)]
        limit: u64,
    },
    /// Sends a delivery again, under the same webhook-id
    Redeliver {
        /// Which
        id: String,
    },
    /// Verifies what a receiver was sent: the body on stdin, and three of its headers
    Verify {
        /// Where the webhook's secret is: env:NAME or file:PATH
        #[arg(long, value_name = "PLACE")]
        secret: String,
        /// The header webhook-id
        #[arg(long)]
        id: String,
        /// The header webhook-timestamp; more than five minutes away from now it is refused
        #[arg(long, value_name = "SECONDS")]
        timestamp: String,
        /// The header webhook-signature
        #[arg(long)]
        signature: String,
    },
}

/// How far a delivery has come.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum DeliveryState {
    /// It is to be sent, for the first time or again
    Pending,
    /// It has arrived
    Delivered,
    /// Nobody tries any more
    Failed,
}
