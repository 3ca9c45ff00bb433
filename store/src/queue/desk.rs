//! Where a consumer hands in the tokens that it ends, and is handed others: in one round trip, whoever comes.

use std::{sync::Arc, time::Duration};

use redis::{
    RedisError, RedisResult,
    streams::{StreamId, StreamRangeReply},
};
use tokio::sync::oneshot;

use super::{
    Job, LONGEST_WAIT, Room, Weights, When,
    keys::{GROUP, Keys},
    partition::{millis, most, told},
    scripts,
    wire::Control,
};
use crate::gather::{Gather, Lone};

/// How many come at once at most, so that Redis is never busy with them for long.
const MOST_SERVED: usize = 128;

/// How many delayed rings one script moves at most, for the same reason.
pub(super) const MOST_DUE: usize = 256;

/// Serves whoever comes, and all at once who came while the last were served. Answered is whether a token was held.
///
/// ## Why one desk for both
///
/// Of a worker with many jobs some end at any time, and their slots take others: what ends tokens and what takes them goes
/// to Redis in one script, of which there is one a batch. Also where one comes alone: whoever ends a token leaves a slot, and
/// wakes whoever takes another.
pub(super) type Desk = Gather<Ask, Result<bool, RedisError>>;

/// Why somebody comes.
pub(super) enum Ask {
    /// To end a token, which may have a successor.
    End(Job, Option<When>),
    /// To take tokens.
    Take(Taker),
}

/// Who takes tokens.
pub(super) struct Taker {
    /// How many at most.
    pub(super) room: Room,
    /// For how long it waits after, if there is none.
    pub(super) wait: Duration,
    /// How tenants take turns.
    pub(super) weights: Weights,
    /// Where it waits. Nothing is taken for whoever has left.
    pub(super) to: oneshot::Sender<RedisResult<Taken>>,
}

/// What was taken.
pub(super) struct Taken {
    /// In how many milliseconds to come for delayed rings; less than 0, if there are none.
    pub(super) next: i64,
    /// The entries; none at all, if there is no group to take them for.
    pub(super) entries: Option<Vec<StreamId>>,
}

/// What the script says instead of a time when there is no group.
const NO_GROUP: i64 = -2;

pub(super) fn desk(keys: Keys, control: Control, consumer: &str, lease: Duration) -> Desk {
    let (keys, consumer): (_, Arc<str>) = (Arc::new(keys), consumer.into());
    Gather::new(1, MOST_SERVED, Lone::Waits, move |asks| {
        let (keys, control, consumer) = (Arc::clone(&keys), control.clone(), Arc::clone(&consumer));
        async move { serve(&keys, &control, &consumer, lease, asks).await }
    })
}

async fn serve(
    keys: &Keys,
    control: &Control,
    consumer: &str,
    lease: Duration,
    asks: Vec<Ask>,
) -> Vec<Result<bool, RedisError>> {
    let (mut ends, mut taker) = (Vec::new(), None);
    // A taker is served by what it is told, and whatever stands here for it is nothing to it.
    let mut answers: Vec<Result<bool, RedisError>> = asks.iter().map(|_| Ok(false)).collect();
    for (nth, ask) in asks.into_iter().enumerate() {
        match ask {
            Ask::End(job, next) => ends.push((nth, job, next)),
            Ask::Take(it) if it.to.is_closed() => {}
            Ask::Take(it) => taker = Some(it),
        }
    }
    if ends.is_empty() && taker.is_none() {
        return answers;
    }
    let mut script = keys.prepare(&scripts::SERVE);
    script.arg(GROUP).arg(consumer).arg(millis(lease));
    script.arg(taker.as_ref().map_or(0, |it| most(&it.room))).arg(MOST_DUE);
    script.arg(millis(taker.as_ref().map_or(Duration::ZERO, |it| it.wait))).arg(millis(LONGEST_WAIT));
    let weights: Vec<(&str, u32)> = taker.iter().flat_map(|it| it.weights.iter()).collect();
    script.arg(weights.len());
    for (tenant, weight) in weights {
        script.arg(tenant).arg(weight);
    }
    for (_, job, next) in &ends {
        script.arg(&job.token).arg(job.lane.to_string());
        match next.as_ref().map(|it| told(job.thread, it)) {
            Some((delay, says)) => script.arg(delay).arg(says),
            None => script.arg("").arg(""),
        };
    }
    let served = control.run::<(Vec<u64>, i64, StreamRangeReply)>(&script).await;
    let (held, taken) = match served {
        Ok((held, next, entries)) => {
            let entries = Some(entries.ids).filter(|_| next != NO_GROUP);
            (Ok(held), Ok(Taken { next, entries }))
        }
        Err(error) => (Err(error.clone()), Err(error)),
    };
    if let Some(it) = taker {
        // Whoever left just now leaves what was taken to its lease.
        let _ = it.to.send(taken);
    }
    for (place, (nth, ..)) in ends.iter().enumerate() {
        answers[*nth] = held.as_ref().map(|it| it.get(place) == Some(&1)).map_err(Clone::clone);
    }
    answers
}
