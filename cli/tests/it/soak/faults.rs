//! What is done to a deployment while it works.

use std::time::Duration;

use tokio::{task::block_in_place, time::sleep};

use testing::{Postgres, Proxy, Redis};

use crate::engine::{Engine, Process, demo_config};

const WORKERS: usize = 4;

/// What the configuration of [`Engine`] says, in milliseconds.
const LEASE: u64 = 2_000;

/// How far a clock is off, in seconds.
const HOUR: i64 = 60 * 60;

/// One thing that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fault {
    KillWorker,
    /// Its successor's clock is an hour ahead or behind.
    StepClock,
    /// SIGSTOP for longer than its lease, then SIGCONT.
    StallWorker,
    KillApi,
    /// It comes back with what its append-only file holds.
    KillRedis,
    /// It comes back empty.
    WipeRedis,
    KillPostgres,
    /// Its disk is full, and it ends by that; when it comes back, there is room.
    FillDisk,
    /// The workers' connections break, and for a while there are no others.
    CutRedis,
    CutPostgres,
    /// What the workers send is held back, and nobody is told.
    SilenceRedis,
    SilencePostgres,
}

impl Fault {
    /// All of them, the cheapest more often.
    pub(super) const DECK: [Fault; 16] = [
        Fault::KillWorker,
        Fault::KillWorker,
        Fault::KillWorker,
        Fault::StepClock,
        Fault::StepClock,
        Fault::StallWorker,
        Fault::StallWorker,
        Fault::KillApi,
        Fault::KillRedis,
        Fault::WipeRedis,
        Fault::KillPostgres,
        Fault::FillDisk,
        Fault::CutRedis,
        Fault::CutPostgres,
        Fault::SilenceRedis,
        Fault::SilencePostgres,
    ];
}

/// An engine with four workers, whose wires to PostgreSQL and Redis can be cut.
pub(super) struct Deployment {
    pub(super) engine: Engine,
    postgres: Proxy,
    redis: Proxy,
    workers: Vec<(String, Process)>,
    started: usize,
    ended_by_themselves: Vec<String>,
}

impl Deployment {
    pub(super) async fn start() -> Self {
        let engine = Engine::over(Postgres::start(), Redis::durable(), &demo_config()).await;
        let (postgres, redis) = (Proxy::before(&engine.postgres.url()), Proxy::before(&engine.redis.url()));
        let (workers, ended_by_themselves) = (Vec::new(), Vec::new());
        let mut this = Self { engine, postgres, redis, workers, started: 0, ended_by_themselves };
        for _ in 0..WORKERS {
            this.start_worker(None);
        }
        this
    }

    /// One more, with a clock that is so many seconds off, if it is.
    fn start_worker(&mut self, off: Option<i64>) {
        let name = format!("w{}", self.started);
        let urls = [format!("store.url={}", self.postgres.url()), format!("queue.url={}", self.redis.url())];
        let worker = self.engine.worker_at(&name, &urls, off);
        self.workers.push((name, worker));
        self.started += 1;
    }

    /// Lets it happen, and be over.
    pub(super) async fn strike(&mut self, fault: Fault, dice: &mut fastrand::Rng) {
        let while_ = Duration::from_millis(dice.u64(100..3_000));
        let Engine { redis, postgres, .. } = &mut self.engine;
        match fault {
            Fault::KillWorker => {
                self.workers.remove(dice.usize(..WORKERS)).1.kill();
                self.start_worker(None);
            }
            Fault::StepClock => {
                self.workers.remove(dice.usize(..WORKERS)).1.kill();
                self.start_worker(Some(if dice.bool() { HOUR } else { -HOUR }));
            }
            Fault::StallWorker => {
                let worker = &self.workers[dice.usize(..WORKERS)].1;
                worker.signal("STOP");
                sleep(Duration::from_millis(LEASE) + while_).await;
                worker.signal("CONT");
            }
            Fault::KillApi => self.engine.kill_api().await,
            Fault::KillRedis => {
                redis.kill();
                sleep(while_).await;
                block_in_place(|| redis.restart());
            }
            Fault::WipeRedis => {
                redis.flush_all();
                block_in_place(|| redis.restart());
            }
            Fault::KillPostgres => {
                block_in_place(|| postgres.kill());
                sleep(while_).await;
                block_in_place(|| postgres.restart());
            }
            Fault::FillDisk => {
                postgres.fill_disk();
                sleep(while_).await;
                block_in_place(|| postgres.restart());
            }
            Fault::CutRedis | Fault::CutPostgres => {
                let wire = if fault == Fault::CutRedis { &self.redis } else { &self.postgres };
                wire.cut();
                sleep(while_).await;
                wire.mend();
            }
            Fault::SilenceRedis | Fault::SilencePostgres => {
                let wire = if fault == Fault::SilenceRedis { &self.redis } else { &self.postgres };
                wire.silence();
                sleep(Duration::from_millis(LEASE) + while_).await;
                wire.mend();
            }
        }
        self.look_after(fault);
    }

    /// Takes note of who ended without being killed, and starts another.
    fn look_after(&mut self, fault: Fault) {
        if !self.engine.api_lives() {
            self.ended_by_themselves.push(format!("after {fault:?} the api: {}", self.engine.told("api")));
        }
        for nth in (0..self.workers.len()).rev() {
            if !self.workers[nth].1.lives() {
                let (name, _) = self.workers.remove(nth);
                let words = self.engine.told(&name);
                let last: Vec<&str> = words.lines().rev().take(5).collect();
                self.ended_by_themselves.push(format!("after {fault:?} {name}: {last:#?}"));
                self.start_worker(None);
            }
        }
    }

    /// Who ended though nobody had killed them, and their last words.
    pub(super) fn ended_by_themselves(&self) -> &[String] {
        &self.ended_by_themselves
    }
}
