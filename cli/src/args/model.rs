//! Arguments of `turnfold model`.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Model {
    /// Check with tiny requests which capabilities a model has, and which ones turnfold works around
    ///
    /// Sends about eight requests of a few words each. Exits with 5 if a capability is missing, and with 4 if the model cannot
    /// be used.
    Check {
        /// Model, as provider/model
        #[arg(value_name = "PROVIDER/MODEL")]
        model: String,
    },
    /// List what was learned about models: windows, refused parameters and schemas, through the API
    ///
    /// Shows what the workers that run learned from refusals; a worker reports every ten seconds. Rates of throttles stand in
    /// `turnfold queue ls`.
    #[command(name = "list", visible_alias = "ls")]
    List,
    /// Show what was learned about one model
    Show {
        /// Model, as provider/model
        #[arg(value_name = "PROVIDER/MODEL")]
        model: String,
    },
    /// Forget what was learned about a model: context window, refused parameters and schemas, number of images, rate
    ///
    /// Use it after the endpoint behind the name has changed. All workers forget at once. A thread forgets when its next turn
    /// starts, or when a failed turn is retried.
    Forget {
        /// Model, as provider/model
        #[arg(value_name = "PROVIDER/MODEL")]
        model: String,
    },
}
