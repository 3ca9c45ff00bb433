//! Submissions that create threads, batched.

use queue::{Batcher, WhenAlone};

use crate::{
    Error,
    log::{
        database::Database,
        submit::{
            insert::{insert_all, lost},
            new_turn::{NewTurn, Submitted},
        },
    },
};

/// Maximum useful number of turns per [`Store::submit_many`](crate::Store::submit_many): larger calls save nothing per turn and block other
/// writers longer.
pub const MOST_SUBMITTED: usize = 500;

/// Batches submissions that create threads.
pub(crate) type Arrivals = Batcher<NewTurn, Result<Submitted, Error>>;

/// Maximum transactions in flight.
const HANDS: usize = 2;

pub(crate) fn arrivals(database: &Database) -> Arrivals {
    let database = database.clone();
    Batcher::new(HANDS, MOST_SUBMITTED, WhenAlone::SendNow, move |new| {
        let database = database.clone();
        async move { arrive(&database, new).await }
    })
}

/// Queues a batch, falling back to one transaction per turn if it fails.
///
/// ## Why some turns are not retried
///
/// If the connection breaks during the transaction, its outcome is unknown. A turn with a key is recognized by it; a
/// turn without one could be queued twice, so its client gets the error and decides.
async fn arrive(database: &Database, new: Vec<NewTurn>) -> Vec<Result<Submitted, Error>> {
    let (mut in_doubt, mut away) = (None, None);
    if new.len() > 1 {
        match insert_all(database, new.clone()).await {
            Ok(outcomes) => return outcomes,
            Err(error @ Error::Unavailable(_)) => in_doubt = Some(error),
            // A fault of one turn must not fail the others.
            Err(_) => {}
        }
    }
    let mut outcomes = Vec::with_capacity(new.len());
    for new in new {
        let in_doubt = in_doubt.as_ref().filter(|_| new.idempotency.is_none());
        let outcome = match away.as_ref().or(in_doubt) {
            Some(error) => Err(Error::again(error)),
            None => write_one(database, new).await,
        };
        if let Err(error @ Error::Unavailable(_)) = &outcome
            && in_doubt.is_none()
        {
            away = Some(error.again());
        }
        outcomes.push(outcome);
    }
    outcomes
}

/// Queues one turn.
pub(crate) async fn write_one(database: &Database, new: NewTurn) -> Result<Submitted, Error> {
    insert_all(database, vec![new]).await?.pop().ok_or_else(lost)?
}
