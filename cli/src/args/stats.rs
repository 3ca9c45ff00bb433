//! Arguments of `turnfold stats`.

use clap::ValueEnum;

/// Period of the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsRange {
    /// The last hour, by minute
    Hour,
    /// Since midnight in UTC, by quarter of an hour
    Today,
    /// The last 24 hours, by quarter of an hour
    #[default]
    Day,
    /// The last seven days, by hour
    Week,
}

impl From<StatsRange> for api_types::StatsRange {
    fn from(range: StatsRange) -> Self {
        match range {
            StatsRange::Hour => Self::Hour,
            StatsRange::Today => Self::Today,
            StatsRange::Day => Self::Day,
            StatsRange::Week => Self::Week,
        }
    }
}
