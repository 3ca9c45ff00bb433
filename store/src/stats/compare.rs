//! Compares the counts in the tables with those of the logs.
//!
//! ## Why only counts that are too low are reported
//!
//! The log of a deleted thread is gone, and its turns remain counted.

use std::collections::BTreeMap;

use sea_orm::FromQueryResult;

use super::{
    Intervals, Resolution,
    tally::{Ends, ResponseSums, Responses},
    write::COMPLETE_AFTER,
};
use crate::{Error, Store};

/// Time after which another process has counted what a killed one did not write, in microseconds.
const LOST_AFTER: i64 = 4 * 60 * 1_000_000;

/// Number of counts that are below those of the logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowCounts {
    /// Counts of ended turns.
    pub ended_turns: u64,
    /// Counts of responses of models.
    pub model_responses: u64,
}

#[derive(FromQueryResult)]
struct EndsRow {
    seconds: i64,
    start: i64,
    tenant: String,
    strategy: String,
    ended: String,
    cause: String,
    turns: i64,
}

#[derive(FromQueryResult)]
struct ResponsesRow {
    seconds: i64,
    start: i64,
    tenant: String,
    strategy: String,
    model: String,
    responses: i64,
    input_tokens: i64,
    output_tokens: i64,
    micro_usd: i64,
    without_usage: i64,
    without_price: i64,
}

impl Store {
    /// Compares the counts of the intervals that were complete at `began` with those of all logs.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn low_counts(&self, logs: &Intervals, began: i64) -> Result<LowCounts, Error> {
        let is_complete = |resolution: &Resolution, start: &i64| {
            resolution.kept_since(began) <= *start
                && *start < resolution.start(began - COMPLETE_AFTER - LOST_AFTER)
        };
        let mut found = LowCounts::default();
        let sql = "SELECT seconds, start, tenant, strategy, ended, cause, turns FROM ended_turn_counts";
        let rows = self.readable_rows(sql, EndsRow::from_query_result).await?;
        let counted: BTreeMap<_, _> = rows.into_iter().map(EndsRow::count).collect();
        for ((resolution, start, Ends { tenant, strategy, ended, cause }), turns) in &logs.ends {
            let key = (
                resolution.seconds(),
                *start,
                tenant.clone(),
                strategy.clone(),
                ended.to_string(),
                cause.clone(),
            );
            let low = counted.get(&key).copied().unwrap_or_default() < *turns;
            found.ended_turns += u64::from(low && is_complete(resolution, start));
        }
        let rows = self
            .readable_rows("SELECT * FROM model_response_counts", ResponsesRow::from_query_result)
            .await?;
        let counted: BTreeMap<_, _> = rows.into_iter().map(ResponsesRow::count).collect();
        for ((resolution, start, Responses { tenant, strategy, model }), sums) in &logs.responses {
            let key = (resolution.seconds(), *start, tenant.clone(), strategy.clone(), model.clone());
            let has = counted.get(&key).copied().unwrap_or_default();
            let low = has.iter().zip(numbers(sums)).any(|(has, of_logs)| *has < of_logs);
            found.model_responses += u64::from(low && is_complete(resolution, start));
        }
        Ok(found)
    }
}

impl EndsRow {
    fn count(self) -> ((i64, i64, String, String, String, String), u64) {
        let Self { seconds, start, tenant, strategy, ended, cause, turns } = self;
        ((seconds, start, tenant, strategy, ended, cause), u64::try_from(turns).unwrap_or_default())
    }
}

impl ResponsesRow {
    fn count(self) -> ((i64, i64, String, String, String), [u64; 6]) {
        let Self { seconds, start, tenant, strategy, model, responses, input_tokens, output_tokens, .. } =
            self;
        let numbers =
            [responses, input_tokens, output_tokens, self.micro_usd, self.without_usage, self.without_price];
        let numbers = numbers.map(|number| u64::try_from(number).unwrap_or_default());
        ((seconds, start, tenant, strategy, model), numbers)
    }
}

fn numbers(ResponseSums { responses, usage }: &ResponseSums) -> [u64; 6] {
    [
        *responses,
        usage.input_tokens,
        usage.output_tokens,
        usage.micro_usd,
        usage.responses_without_usage,
        usage.responses_without_price,
    ]
}
