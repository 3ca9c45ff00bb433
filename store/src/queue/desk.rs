//! Where a consumer hands in the tokens that it ends, and is handed others: in one round trip, whoever comes.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::RedisResult;
use tokio::{sync::oneshot, time::Instant};

use super::{
    Job, LONGEST_WAIT, Room, Weights, When,
    keys::{GROUP, Keys},
    partition::{Entry, millis, most, told},
    scripts,
    wire::Control,
};
use crate::gather::{Gather, Lone};

/// How many come at once at most, so that Redis is never busy with them for long.
const MOST_SERVED: usize = 128;

/// How many delayed rings one script moves at most, for the same reason.
pub(super) const MOST_DUE: usize = 256;

/// Serves whoever comes, and all at once who came while the last were served.
///
/// ## Why one desk for both
///
/// Of a worker with many jobs some end at any time, and their slots take others: what ends tokens and what takes them goes
/// to Redis in one script, of which there is one a batch.
///
/// ## Why whoever takes stands there before there is room
///
/// Whoever ends tokens makes room, and wakes whoever waits for it: on a machine that is busy that is late by a moment, in
/// which the tokens are ended by one script, and it would take others by a second. So it stands there, and a script that ends
/// tokens takes as many for it as there is room by then.
pub(super) struct Desk {
    asks: Gather<Ask, RedisResult<bool>>,
    stands: Stands,
}

/// Who stands at the desk to take tokens, if somebody does.
type Stands = Arc<Mutex<Option<Taker>>>;

/// Why somebody comes.
enum Ask {
    /// To end a token, which may have a successor. Answered is whether it was held.
    End(Job, Option<When>),
    /// There is room for whoever stands there.
    Room,
}

/// Who takes tokens.
struct Taker {
    /// How many at most.
    room: Room,
    /// Until when it waits after, if there is none.
    until: Instant,
    /// How tenants take turns.
    weights: Weights,
    /// Where it waits. Nothing is taken for whoever has left.
    to: oneshot::Sender<RedisResult<Taken>>,
}

/// What was taken.
pub(super) struct Taken {
    /// In how many milliseconds to come for delayed rings; less than 0, if there are none.
    pub(super) next: i64,
    /// For how long a ticket is left, where there was nothing to take.
    pub(super) wait: Duration,
    /// The entries; none at all, if there is no group to take them for.
    pub(super) entries: Option<Vec<Entry>>,
}

/// What the script says instead of a time when there is no group.
const NO_GROUP: i64 = -2;

impl Desk {
    pub(super) fn new(keys: Keys, control: Control, consumer: &str, lease: Duration) -> Self {
        let (keys, consumer): (_, Arc<str>) = (Arc::new(keys), consumer.into());
        let stands = Stands::default();
        let who = Arc::clone(&stands);
        let asks = Gather::new(1, MOST_SERVED, Lone::Waits, move |asks| {
            let (keys, control, consumer) = (Arc::clone(&keys), control.clone(), Arc::clone(&consumer));
            let who = Arc::clone(&who);
            async move { serve(&keys, &control, &consumer, lease, asks, &who).await }
        });
        Self { asks, stands }
    }

    /// Ends a token, and says whether it was held; nothing, if the process is coming to its end.
    pub(super) async fn end(&self, job: Job, next: Option<When>) -> Option<RedisResult<bool>> {
        self.asks.bring(Ask::End(job, next)).await
    }

    /// Takes tokens; nothing, if there is no room until then or it is closed, or the process is coming to its end.
    ///
    /// **Invariant:** one at a time.
    pub(super) async fn take(
        &self,
        room: &Room,
        weights: &Weights,
        until: Instant,
    ) -> Option<RedisResult<Taken>> {
        let (to, mut taken) = oneshot::channel();
        *standing(&self.stands) = Some(Taker { room: room.clone(), until, weights: weights.clone(), to });
        tokio::select! {
            biased;
            taken = &mut taken => return taken.ok(),
            is_room = room.any_until(until) => {
                if is_room {
                    self.asks.bring(Ask::Room).await;
                }
                // Who stands there still is not served any more: there was no room, or it was closed on the way.
                drop(standing(&self.stands).take());
            }
        }
        taken.await.ok()
    }
}

fn standing(stands: &Stands) -> MutexGuard<'_, Option<Taker>> {
    // Nothing here panics half way through a change.
    stands.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(
    keys: &Keys,
    control: &Control,
    consumer: &str,
    lease: Duration,
    asks: Vec<Ask>,
    stands: &Stands,
) -> Vec<RedisResult<bool>> {
    let mut ends = Vec::new();
    let mut answers: Vec<RedisResult<bool>> = asks.iter().map(|_| Ok(false)).collect();
    for (nth, ask) in asks.into_iter().enumerate() {
        match ask {
            Ask::End(job, next) => ends.push((nth, job, next)),
            Ask::Room => {}
        }
    }
    let taker = standing(stands).take_if(|it| it.room.free() > 0).filter(|it| !it.to.is_closed());
    if ends.is_empty() && taker.is_none() {
        return answers;
    }
    let mut script = keys.prepare(&scripts::SERVE);
    script.arg(GROUP).arg(consumer).arg(millis(lease));
    script.arg(taker.as_ref().map_or(0, |it| most(&it.room))).arg(MOST_DUE);
    let wait =
        taker.as_ref().map(|it| it.until.saturating_duration_since(Instant::now())).unwrap_or_default();
    script.arg(millis(wait)).arg(millis(LONGEST_WAIT));
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
    let served = control.run::<(BTreeSet<usize>, i64, Vec<(String, String)>)>(&script).await;
    let (lost, taken) = match served {
        Ok((lost, next, entries)) => {
            let entries = entries.into_iter().map(|(token, says)| Entry { token, says });
            let entries = (next != NO_GROUP).then(|| entries.collect());
            (Ok(lost), Ok(Taken { next, wait, entries }))
        }
        Err(error) => (Err(error.clone()), Err(error)),
    };
    if let Some(it) = taker {
        // Whoever left just now leaves what was taken to its lease.
        let _ = it.to.send(taken);
    }
    for (place, (nth, ..)) in ends.iter().enumerate() {
        answers[*nth] = lost.as_ref().map(|it| !it.contains(&place)).map_err(Clone::clone);
    }
    answers
}
