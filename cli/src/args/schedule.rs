//! Arguments of `turnfold schedule`.

use std::path::PathBuf;

use clap::{
    Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use shared::{MissedFirings, Priority};

use super::values::{priority, reason};

#[derive(Subcommand)]
pub(crate) enum Schedule {
    /// Send a message to an agent, or run a file of turns, at the times of a cron expression
    ///
    /// Example: turnfold schedule add "30 7 * * MON-FRI" --timezone Europe/Berlin "Summarise my day"
    Add(Add),
    /// List schedules, oldest first
    #[command(name = "list", visible_alias = "ls")]
    List {
        /// Maximum number of schedules
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u64,
    },
    /// Show one schedule
    #[command(visible_alias = "get")]
    Show {
        /// Id of the schedule
        id: String,
    },
    /// Remove a schedule; what it has submitted continues
    #[command(name = "remove", visible_alias = "rm")]
    Remove {
        /// Id of the schedule
        id: String,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
    /// Let a schedule submit nothing until it is resumed
    Pause {
        /// Id of the schedule
        id: String,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
    /// Continue with the next time after now
    Resume {
        /// Id of the schedule
        id: String,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
}

/// A new schedule.
#[derive(clap::Args)]
pub(crate) struct Add {
    /// Times: minute, hour, day of the month, month and day of the week, or @hourly, @daily, @weekly, @monthly, @yearly
    pub(crate) cron: String,
    /// Message; - reads stdin
    #[arg(required_unless_present = "batch", conflicts_with = "batch")]
    pub(crate) text: Option<String>,
    /// Upload this file of turns, and run it as a batch every time, without results of earlier batches
    #[arg(long, value_name = "FILE")]
    pub(crate) batch: Option<PathBuf>,
    /// Time zone of the times, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// Firings that could not be submitted within a minute: skip, once (submit the last one) or all (at most 100)
    /// [default: skip]
    #[arg(long, value_parser = missed(), value_name = "POLICY", hide_possible_values = true)]
    pub(crate) missed: Option<MissedFirings>,
    /// Name of the schedule, for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) name: String,
    /// Strategy of a new thread for each turn [default: planner, or chat where no MCP server is configured]
    #[arg(short = 'g', long, value_name = "NAME", conflicts_with_all = ["thread", "batch"])]
    pub(crate) strategy: Option<String>,
    /// Continue this thread each time; `last` is the most recent one
    #[arg(short, long, value_name = "ID", conflicts_with = "batch")]
    pub(crate) thread: Option<String>,
    /// Attach metadata to each turn; a value that is not JSON is a text
    #[arg(long, value_name = "K=V", conflicts_with = "batch")]
    pub(crate) metadata: Vec<String>,
    /// Priority within the tenant: high, normal or low [default: normal, and low for a batch]
    #[arg(long, value_parser = priority(), value_name = "LEVEL", hide_possible_values = true)]
    pub(crate) priority: Option<Priority>,
}

fn missed() -> impl TypedValueParser<Value = MissedFirings> {
    let names = MissedFirings::ALL.map(MissedFirings::as_str);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<MissedFirings>())
}
