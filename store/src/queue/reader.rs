//! How tokens are taken from Redis: leases that ran out, delays that came due, and then what waits.

use std::time::Duration;

use redis::{
    AsyncCommands, RedisError, RedisResult,
    aio::MultiplexedConnection,
    streams::{StreamAutoClaimReply, StreamReadOptions, StreamReadReply},
};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{
    Job, LONGEST_WAIT, QueueError, Room,
    desk::{MOST_DUE, Taken},
    keys::GROUP,
    partition::{Entry, Partition, millis},
    scripts,
};

/// How often a read is tried: a connection that broke long ago, and then a Redis that came back empty.
const TRIES: usize = 3;

/// Where a round over the leases starts, and what Redis returns at its end.
const START: &str = "0-0";

/// What one `take` leaves to the next.
pub(super) struct Reader {
    link: Option<MultiplexedConnection>,
    /// Where to go on claiming. **Invariant:** carried from call to call: starting anew each time, a few live
    /// leases at the front would hide the abandoned ones behind them for ever.
    cursor: String,
    claim_at: Instant,
    /// What Redis' clock said last, and when that was.
    clock: Option<(u64, Instant)>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { link: None, cursor: START.to_owned(), claim_at: Instant::now(), clock: None }
    }
}

impl Partition {
    /// Takes what waits as soon as there is room, after delayed rings that are due have come to wait too. If there is
    /// nothing, leaves a ticket for whoever rings until then, and says for how long. Says nothing, if there is no room
    /// until then.
    pub(super) async fn draw(
        &self,
        room: &Room,
        until: Instant,
    ) -> Result<Option<(Vec<Job>, Duration)>, QueueError> {
        for _ in 0..TRIES {
            self.look_again_later();
            let Some(taken) = self.desk.take(room, &self.weights, until).await else { break };
            let Taken { next, wait, entries } =
                taken.map_err(|error| self.wire.error("take tokens", &error))?;
            self.look_again_in(next);
            match entries {
                Some(entries) => return Ok(Some((self.jobs(entries.into_iter()).await, wait))),
                None => self.make_group().await?,
            }
        }
        Ok(None)
    }

    /// Has delayed rings that are due come to wait, if it is time to look.
    async fn fire_due(&self) -> Result<(), QueueError> {
        if Instant::now() < self.alarm.get() {
            return Ok(());
        }
        self.look_again_later();
        let mut script = self.keys.prepare(&scripts::DUE);
        script.arg(MOST_DUE);
        let next =
            self.control.run(&script).await.map_err(|error| self.wire.error("fire delayed rings", &error))?;
        self.look_again_in(next);
        Ok(())
    }

    /// Set before asking, so that a ring that is delayed meanwhile can bring it forward. Other processes delay rings
    /// too, hence never later than this.
    fn look_again_later(&self) {
        self.alarm.set(Instant::now() + LONGEST_WAIT);
    }

    /// As a script says: in so many milliseconds, or -1 if nothing is delayed.
    fn look_again_in(&self, next: i64) {
        if let Ok(next) = u64::try_from(next) {
            self.alarm.sooner(Instant::now() + Duration::from_millis(next));
        }
    }

    /// When tokens may be taken over next.
    ///
    /// ## Why not before Redis has answered for half a lease
    ///
    /// While Redis is away nobody can renew a lease, and all of them run out: on its return those tokens look abandoned whose
    /// workers are well, and who took them over would make calls that are under way a second time. Whoever lives renews
    /// within a third of a lease. Who has just connected does not know whether it was away.
    pub(super) fn claims_at(&self, reader: &Reader) -> Instant {
        let answers_since = self.control.answers_since().unwrap_or_else(Instant::now);
        reader.claim_at.max(answers_since + self.lease / 2)
    }

    /// Takes over tokens whose lease ran out, when that may be. A round over all leases takes as many calls as it needs, and
    /// the next one begins a third of a lease later.
    pub(super) async fn claim(&self, reader: &mut Reader, room: usize) -> Result<Vec<Job>, QueueError> {
        if !self.is_clock_steady(reader).await? {
            reader.claim_at = Instant::now() + self.lease / 2;
        }
        // Its answer may also have told that Redis had been away.
        if Instant::now() < self.claims_at(reader) {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("XAUTOCLAIM");
        command
            .arg(&self.keys.stream)
            .arg(GROUP)
            .arg(&self.consumer)
            .arg(millis(self.lease))
            .arg(&reader.cursor);
        command.arg("COUNT").arg(room);
        // Not again on a new connection: Redis may have been away.
        match self.control.ask_once::<StreamAutoClaimReply>(&command).await {
            Ok(reply) => {
                if reply.next_stream_id == START {
                    reader.claim_at = Instant::now() + self.lease / 3;
                }
                reader.cursor = reply.next_stream_id;
                Ok(self.jobs(reply.claimed.into_iter().map(Entry::from)).await)
            }
            Err(error) if group_is_gone(&error) => self.make_group().await.map(|()| Vec::new()),
            Err(error) if error.is_connection_dropped() => Ok(Vec::new()),
            Err(error) => Err(self.wire.error("claim expired tokens", &error)),
        }
    }

    /// Whether Redis' clock has gained less on ours than a third of a lease since this was last asked. Asked first, nobody
    /// knows.
    ///
    /// ## Why tokens are not taken over otherwise
    ///
    /// Leases run out by Redis' clock. Where that is set forward, or a replica takes over whose clock is ahead, all of them
    /// may look abandoned as after an absence, and their workers are well.
    pub(super) async fn is_clock_steady(&self, reader: &mut Reader) -> Result<bool, QueueError> {
        let now = self.control.run(&self.keys.prepare(&scripts::NOW)).await;
        let now = now.map_err(|error| self.wire.error("ask for the time", &error))?;
        let Some((before, asked)) = reader.clock.replace((now, Instant::now())) else { return Ok(false) };
        let gained = now.saturating_sub(before).saturating_sub(millis(asked.elapsed()));
        if gained > millis(self.lease / 3) {
            warn!(
                gained_ms = gained,
                "Redis' clock was set forward; no tokens are taken over before their workers could renew"
            );
            return Ok(false);
        }
        Ok(true)
    }

    /// Waits for tokens that are handed over, no longer than so and no shorter than the ticket says that was left. While
    /// it waits, delayed rings fire.
    pub(super) async fn read(
        &self,
        reader: &mut Reader,
        room: usize,
        wait: Duration,
    ) -> Result<Vec<Job>, QueueError> {
        let read = self.read_stream(&mut reader.link, room, wait);
        tokio::pin!(read);
        loop {
            tokio::select! {
                jobs = &mut read => return jobs,
                () = self.alarm.rings() => {
                    // The read may have tokens already, so it goes on; if Redis is gone, it fails by itself.
                    if let Err(error) = self.fire_due().await {
                        debug!(%error, "delayed rings wait");
                    }
                }
            }
        }
    }

    async fn read_stream(
        &self,
        link: &mut Option<MultiplexedConnection>,
        room: usize,
        wait: Duration,
    ) -> Result<Vec<Job>, QueueError> {
        let until = Instant::now() + wait;
        let error = |error: &RedisError| self.wire.error("wait for tokens", error);
        let mut tries_left = TRIES;
        loop {
            tries_left -= 1;
            // Taken out, so that a connection that still waits for an answer is closed and not used again.
            let mut connection = match link.take() {
                Some(connection) => connection,
                None => self.wire.patient(&self.control, &self.keys.stream).await.map_err(|it| error(&it))?,
            };
            // 0 would be for ever.
            let wait = millis(until.saturating_duration_since(Instant::now())).max(1);
            let options = StreamReadOptions::default().group(GROUP, &self.consumer).count(room);
            let options = options.block(usize::try_from(wait).unwrap_or(usize::MAX));
            let read: RedisResult<Option<StreamReadReply>> =
                connection.xread_options(&[&self.keys.stream], &[">"], &options).await;
            match read {
                Ok(reply) => {
                    *link = Some(connection);
                    let entries = reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids);
                    return Ok(self.jobs(entries.map(Entry::from)).await);
                }
                Err(it) if tries_left == 0 => return Err(error(&it)),
                Err(it) if group_is_gone(&it) => {
                    self.make_group().await?;
                    *link = Some(connection);
                }
                // Broken, perhaps long ago, or the partition has moved: a new one tells whether Redis is there, and where.
                Err(it) if it.is_connection_dropped() || it.redirect_node().is_some() => {}
                Err(it) => return Err(error(&it)),
            }
        }
    }

    /// Reads entries as jobs. What is no token of ours would come back for ever, so it is removed.
    async fn jobs(&self, entries: impl Iterator<Item = Entry>) -> Vec<Job> {
        let mut jobs = Vec::with_capacity(entries.size_hint().0);
        for entry in entries {
            match entry.job() {
                Some(job) => jobs.push(job),
                None => {
                    warn!(entry = entry.token, "removed an entry of the job stream that names no thread");
                    let mut remove = redis::pipe();
                    remove
                        .atomic()
                        .xack(&self.keys.stream, GROUP, &[&entry.token])
                        .ignore()
                        .xdel(&self.keys.stream, &[&entry.token])
                        .ignore();
                    if let Err(error) = self.control.ask_all(&remove).await {
                        debug!(error = self.wire.without_password(&error), "it will come again");
                    }
                }
            }
        }
        jobs
    }
}

/// Whether somebody emptied Redis: the group is unknown, or the stream went away while a read waited in it.
fn group_is_gone(error: &RedisError) -> bool {
    matches!(error.code(), Some("NOGROUP" | "UNBLOCKED"))
}
