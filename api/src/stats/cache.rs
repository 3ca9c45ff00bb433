//! Statistics, computed at most every few seconds.

use std::{collections::BTreeMap, time::Duration};

use api_types::{EndedTurns, ModelUsage, OpenTurns, Stats, StatsCause, StatsInterval, StatsRange, TurnEnd};
use queue::clock::{self, rfc3339};
use shared::usd;
use store::{CountedEnd, Resolution, Store};
use tokio::{sync::Mutex, time::Instant};

use crate::server::problem::ApiError;

/// Minimum time between two computations of the same statistics.
const INTERVAL: Duration = Duration::from_secs(5);

/// Part of the time that one computation may take.
const MAX_PART: u32 = 20;

/// Maximum statistics that are kept, each of one tenant and period.
const KEPT_MAX: usize = 256;

/// Maximum causes, and maximum pairs of strategy and model.
const LISTED_MAX: u64 = 50;

const SECOND: i64 = 1_000_000;

/// Statistics that were computed recently, by period and tenant.
#[derive(Default)]
pub(crate) struct StatsCache(Mutex<BTreeMap<(&'static str, Option<String>), Kept>>);

struct Kept {
    stats: Stats,
    /// Time of the next computation.
    next: Instant,
}

impl StatsCache {
    /// Returns the statistics of a period, computed now or a few seconds ago.
    pub(crate) async fn get(
        &self,
        store: &Store,
        range: StatsRange,
        tenant: Option<&str>,
    ) -> Result<Stats, ApiError> {
        let key = (range.as_str(), tenant.map(str::to_owned));
        let mut kept = self.0.lock().await;
        let began = Instant::now();
        kept.retain(|_, entry| began < entry.next);
        if let Some(entry) = kept.get(&key) {
            return Ok(entry.stats.clone());
        }
        let stats = compute(store, range, tenant, clock::now()).await?;
        if kept.len() < KEPT_MAX {
            let next = Instant::now() + INTERVAL.max(began.elapsed() * MAX_PART);
            kept.insert(key, Kept { stats: stats.clone(), next });
        }
        Ok(stats)
    }
}

/// Returns the length of the intervals of a period, and the start of the first.
fn period(range: StatsRange, now: i64) -> (Resolution, i64) {
    let (resolution, intervals) = match range {
        StatsRange::Hour => (Resolution::Minute, 60),
        StatsRange::Day => (Resolution::Quarter, 24 * 4),
        StatsRange::Week => (Resolution::Hour, 7 * 24),
        StatsRange::Today => return (Resolution::Quarter, now - now.rem_euclid(24 * 60 * 60 * SECOND)),
    };
    (resolution, resolution.start(now) - (intervals - 1) * resolution.seconds() * SECOND)
}

async fn compute(
    store: &Store,
    range: StatsRange,
    tenant: Option<&str>,
    now: i64,
) -> Result<Stats, ApiError> {
    let (resolution, since) = period(range, now);
    let counts = store.stats(resolution, since, tenant, LISTED_MAX).await?;
    let mut ended = EndedTurns::default();
    let mut series: BTreeMap<i64, StatsInterval> = BTreeMap::new();
    for row in &counts.ended {
        *part(&mut ended, row.ended) += row.turns;
        *part(&mut interval(&mut series, row.start).ended, row.ended) += row.turns;
    }
    for row in &counts.usage {
        let interval = interval(&mut series, row.start);
        (interval.tokens, interval.usd) = (row.tokens, usd(row.micro_usd));
    }
    let store::OpenTurns { queued, running, interrupted } = counts.open;
    Ok(Stats {
        range,
        since: rfc3339(since),
        until: rfc3339(now),
        interval_seconds: u32::try_from(resolution.seconds()).unwrap_or(u32::MAX),
        open: OpenTurns { queued, running, interrupted },
        ended,
        series: series.into_values().collect(),
        causes: counts.causes.into_iter().filter_map(cause).collect(),
        usage: counts.shares.into_iter().map(usage).collect(),
        incomplete_since: counts.missing_since.map(rfc3339),
    })
}

/// Returns the interval that starts here.
fn interval(series: &mut BTreeMap<i64, StatsInterval>, start: i64) -> &mut StatsInterval {
    series.entry(start).or_insert_with(|| StatsInterval {
        at: rfc3339(start),
        ended: EndedTurns::default(),
        tokens: 0,
        usd: 0.0,
    })
}

fn part(turns: &mut EndedTurns, ended: CountedEnd) -> &mut u64 {
    match ended {
        CountedEnd::Answered => &mut turns.answered,
        CountedEnd::Partial => &mut turns.partial,
        CountedEnd::Declined => &mut turns.declined,
        CountedEnd::Interrupted => &mut turns.interrupted,
        CountedEnd::InDoubt => &mut turns.in_doubt,
        CountedEnd::Failed => &mut turns.failed,
        CountedEnd::Cancelled => &mut turns.cancelled,
    }
}

fn cause(row: store::CauseCount) -> Option<StatsCause> {
    let ended = match row.ended {
        CountedEnd::Failed => TurnEnd::Failed,
        CountedEnd::Partial => TurnEnd::Partial,
        CountedEnd::Declined => TurnEnd::Declined,
        CountedEnd::Answered | CountedEnd::Interrupted | CountedEnd::InDoubt | CountedEnd::Cancelled => {
            return None;
        }
    };
    Some(StatsCause { ended, cause: row.cause, turns: row.turns })
}

fn usage(row: store::UsageShare) -> ModelUsage {
    ModelUsage {
        strategy: row.strategy,
        model: row.model,
        responses: row.responses,
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        usd: usd(row.micro_usd),
        responses_without_usage: row.without_usage,
        responses_without_price: row.without_price,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_begins_with_whole_intervals_and_ends_with_the_current_one() {
        let now = clock::parse_rfc3339("2026-11-27T16:07:30Z").unwrap();
        let since = |range| rfc3339(period(range, now).1);
        assert!(since(StatsRange::Hour).starts_with("2026-11-27T15:08:00"), "{}", since(StatsRange::Hour));
        assert!(since(StatsRange::Today).starts_with("2026-11-27T00:00:00"));
        assert!(since(StatsRange::Day).starts_with("2026-11-26T16:15:00"), "{}", since(StatsRange::Day));
        assert!(since(StatsRange::Week).starts_with("2026-11-20T17:00:00"), "{}", since(StatsRange::Week));
    }
}
