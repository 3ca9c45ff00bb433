//! How many turns may wait before the door lets no more in: those that come through it, not those that batches have fed.
//!
//! What waits is counted at most once a second, by a count that stops a little above what may wait, and in between the
//! door adds what it lets in itself. So several doors together may let in a second's worth too many, and no more.

use std::{collections::BTreeMap, time::Duration};

use store::Store;
use tokio::{sync::Mutex, time::Instant};

use crate::problem::{Kind, Problem};

/// How long a count is good.
const FRESH: Duration = Duration::from_secs(1);

/// The longest that somebody is told to wait, in seconds.
const LONGEST: u16 = 60;

/// How many queued turns there may be, but for those that batches have fed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingMax {
    /// Of all tenants.
    pub all: u64,
    /// Of single tenants, besides.
    pub tenants: BTreeMap<String, u64>,
}

impl Default for WaitingMax {
    fn default() -> Self {
        Self { all: 1_000_000, tenants: BTreeMap::new() }
    }
}

/// The threshold: who comes in is counted, and who would be too many is sent away.
pub(crate) struct Threshold {
    max: WaitingMax,
    /// By tenant; what is known of all stands under none.
    known: Mutex<BTreeMap<Option<String>, Known>>,
}

/// What is known of those that wait.
#[derive(Clone, Copy, Debug)]
struct Known {
    at: Instant,
    /// As it was counted.
    turns: u64,
    /// Let in since.
    more: u64,
    /// By how much the number had fallen since it was counted before, and in what time.
    fell: Option<(u64, Duration)>,
}

impl Threshold {
    pub(crate) fn new(max: WaitingMax) -> Self {
        Self { max, known: Mutex::default() }
    }

    /// Lets one more turn of a tenant in.
    ///
    /// # Errors
    ///
    /// The problem that tells when to come again, if too many wait.
    pub(crate) async fn pass(&self, store: &Store, tenant: &str) -> Result<(), Problem> {
        let own = self.max.tenants.get(tenant).map(|max| (Some(tenant), *max));
        let bounds: Vec<_> = [Some((None, self.max.all)), own].into_iter().flatten().collect();
        // Held while it is counted: the others wait for the same count.
        let mut known = self.known.lock().await;
        for (whose, max) in &bounds {
            let key = whose.map(str::to_owned);
            let now = Self::look(store, *whose, *max, known.get(&key).copied()).await?;
            known.insert(key, now);
            if *max <= now.waiting() {
                return Err(full(*whose, *max, &now));
            }
        }
        for (whose, _) in &bounds {
            if let Some(it) = known.get_mut(&whose.map(str::to_owned)) {
                it.more += 1;
            }
        }
        Ok(())
    }

    async fn look(
        store: &Store,
        whose: Option<&str>,
        max: u64,
        before: Option<Known>,
    ) -> Result<Known, Problem> {
        if let Some(it) = before.filter(|it| it.at.elapsed() < FRESH) {
            return Ok(it);
        }
        // A little above, so that it is seen to fall.
        let enough = max.saturating_add(max / 10).saturating_add(1_000);
        let turns = store.queued(whose, enough).await?;
        let fell = before.map(|it| (it.turns.saturating_sub(turns), it.at.elapsed()));
        Ok(Known { at: Instant::now(), turns, more: 0, fell })
    }
}

impl Known {
    fn waiting(&self) -> u64 {
        self.turns.saturating_add(self.more)
    }

    /// In how many seconds there should be room again, as fast as the number falls.
    fn come_again(&self, max: u64) -> u16 {
        let over = self.waiting().saturating_sub(max).saturating_add(1);
        match self.fell {
            // Whoever comes again soon finds out.
            None => 1,
            Some((0, _)) => LONGEST,
            Some((fell, within)) => {
                let ms = u128::from(over) * within.as_millis() / u128::from(fell);
                u16::try_from(ms.div_ceil(1_000)).unwrap_or(LONGEST).clamp(1, LONGEST)
            }
        }
    }
}

fn full(whose: Option<&str>, max: u64, known: &Known) -> Problem {
    let seconds = known.come_again(max);
    let words = match whose {
        Some(tenant) => format!("{max} turns of tenant {tenant} wait already"),
        None => format!("{max} turns wait already"),
    };
    let why = match known.fell {
        None => "; by then it is known how fast they get fewer",
        Some((0, _)) => {
            ", as they got no fewer of late: GET /v1/queue (`turnfold queue ls`) tells what they wait for"
        }
        Some(_) => "",
    };
    let mend = format!("send it again in {seconds} s{why}; an operator may raise `waiting_max`");
    Kind::TooManyWait.because(words).mend(mend).retry_after(seconds)
}

#[test]
fn who_is_sent_away_hears_when_to_come_again() {
    let known = |turns, fell| Known { at: Instant::now(), turns, more: 5, fell };
    let second = Duration::from_secs(1);
    for (turns, fell, seconds) in [
        (95, None, 1),
        (95, Some((0, second)), 60),
        (95, Some((10, second)), 1),
        (194, Some((10, second)), 10),
        (194, Some((10, 2 * second)), 20),
        (100_000, Some((1, second)), 60),
    ] {
        assert_eq!(known(turns, fell).come_again(100), seconds, "{turns} {fell:?}");
    }
    for (fell, words) in [
        (None, "in 1 s; by then it is known how fast they get fewer;"),
        (Some((0, second)), "in 60 s, as they got no fewer of late: GET /v1/queue"),
        (Some((10, second)), "in 1 s; an operator"),
    ] {
        let told = full(None, 100, &known(95, fell)).words();
        assert!(told.contains(words), "{told}");
    }
}
