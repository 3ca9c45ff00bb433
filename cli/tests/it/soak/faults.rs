//! Faults injected into a deployment while it works.

use std::time::Duration;

use tokio::{task::block_in_place, time::sleep};

use test_servers::{Postgres, Proxy, Redis};

use super::dashboard::Dashboard;
use crate::engine::{Engine, Process, demo_config};

pub(super) const WORKERS: usize = 4;

/// The operator's key.
const KEY: &str = "the-key-of-the-soak-0123456789abcdef0123456789";

/// Limits that apply to every request and turn, and that the load does not reach.
const LIMITS: &str = "[tenants.default]\nmax_running_turns = 1000\nmax_waiting_turns = 100000\n\
    requests_per_minute = 1000000\ntokens_per_minute = 1000000000\n";

/// Lease of a job in the configuration of [`Engine`], in milliseconds.
const LEASE: u64 = 2_000;

/// Error of a worker's clock, in seconds.
const HOUR: i64 = 60 * 60;

/// One kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fault {
    KillWorker,
    /// A worker is replaced by one whose clock is an hour ahead or behind.
    StepClock,
    /// A worker is stopped with SIGSTOP for longer than its lease, then continued with SIGCONT.
    StallWorker,
    KillApi,
    /// Redis is killed and restarts with the content of its append-only file.
    KillRedis,
    /// Redis restarts empty.
    WipeRedis,
    KillPostgres,
    /// PostgreSQL's disk is full, which ends the server; when it restarts, there is space.
    FillDisk,
    /// The workers' connections break, and new ones fail for a while.
    CutRedis,
    CutPostgres,
    /// Data sent by the workers is held back without an error.
    SilenceRedis,
    SilencePostgres,
}

impl Fault {
    /// All faults; those that end soonest occur more often.
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

/// A deployment with four workers, whose connections to PostgreSQL and Redis can be cut.
pub(super) struct Deployment {
    pub(super) engine: Engine,
    postgres: Proxy,
    redis: Proxy,
    workers: Vec<(String, Process)>,
    started: usize,
    ended_by_themselves: Vec<String>,
    pub(super) dashboard: Dashboard,
    /// Contains the file with the key.
    _keys: tempfile::TempDir,
}

impl Deployment {
    pub(super) async fn start() -> Self {
        // Workers die at random here, so the deaths of one turn do not mean that it is to blame.
        let keys = tempfile::tempdir().unwrap();
        let key = keys.path().join("operator");
        std::fs::write(&key, KEY).unwrap();
        // The configuration that this is appended to ends in the table [api].
        let config = format!(
            "keys = ['file:{}']\n[worker]\nmax_deaths = 1000\n{LIMITS}{}",
            key.display(),
            demo_config()
        );
        let mut engine = Engine::over(Postgres::start(), Redis::durable(), &config).await;
        engine.http = client().build().unwrap();
        let (postgres, redis) = (Proxy::before(&engine.postgres.url()), Proxy::before(&engine.redis.url()));
        let (workers, ended_by_themselves) = (Vec::new(), Vec::new());
        let dashboard = Dashboard::default();
        let mut this = Self {
            engine,
            postgres,
            redis,
            workers,
            started: 0,
            ended_by_themselves,
            dashboard,
            _keys: keys,
        };
        for _ in 0..WORKERS {
            this.start_worker(None);
        }
        this
    }

    /// Starts a worker, with a clock that is wrong by this number of seconds if given.
    fn start_worker(&mut self, off: Option<i64>) {
        let name = format!("w{}", self.started);
        let set = [
            format!("store.url={}", self.postgres.url()),
            format!("queue.url={}", self.redis.url()),
            self.dashboard.watch(&name),
        ];
        let worker = self.engine.worker_at(&name, &set, off);
        self.workers.push((name, worker));
        self.started += 1;
    }

    async fn kill_worker(&mut self, nth: usize) {
        let (name, worker) = self.workers.remove(nth);
        self.dashboard.leave(&name).await;
        worker.kill();
    }

    /// Injects a fault and waits until it is over.
    pub(super) async fn inject(&mut self, fault: Fault, random: &mut fastrand::Rng) {
        let lasting = Duration::from_millis(random.u64(100..3_000));
        let Engine { redis, postgres, .. } = &mut self.engine;
        match fault {
            Fault::KillWorker => {
                self.kill_worker(random.usize(..WORKERS)).await;
                self.start_worker(None);
            }
            Fault::StepClock => {
                self.kill_worker(random.usize(..WORKERS)).await;
                self.start_worker(Some(if random.bool() { HOUR } else { -HOUR }));
            }
            Fault::StallWorker => {
                let worker = &self.workers[random.usize(..WORKERS)].1;
                worker.signal("STOP");
                sleep(Duration::from_millis(LEASE) + lasting).await;
                worker.signal("CONT");
            }
            Fault::KillApi => self.engine.kill_api().await,
            Fault::KillRedis => {
                redis.kill();
                sleep(lasting).await;
                block_in_place(|| redis.restart());
            }
            Fault::WipeRedis => {
                redis.flush_all();
                block_in_place(|| redis.restart());
            }
            Fault::KillPostgres => {
                block_in_place(|| postgres.kill());
                sleep(lasting).await;
                block_in_place(|| postgres.restart());
            }
            Fault::FillDisk => {
                postgres.fill_disk();
                sleep(lasting).await;
                block_in_place(|| postgres.restart());
            }
            Fault::CutRedis | Fault::CutPostgres => {
                let wire = if fault == Fault::CutRedis { &self.redis } else { &self.postgres };
                wire.cut();
                sleep(lasting).await;
                wire.mend();
            }
            Fault::SilenceRedis | Fault::SilencePostgres => {
                let wire = if fault == Fault::SilenceRedis { &self.redis } else { &self.postgres };
                wire.silence();
                sleep(Duration::from_millis(LEASE) + lasting).await;
                wire.mend();
            }
        }
        self.replace_ended_workers(fault);
    }

    /// Records processes that ended without being killed, and starts other workers in their place.
    fn replace_ended_workers(&mut self, fault: Fault) {
        if !self.engine.api_lives() {
            self.ended_by_themselves
                .push(format!("after {fault:?} the api: {}", self.engine.stderr_of("api")));
        }
        for nth in (0..self.workers.len()).rev() {
            if !self.workers[nth].1.lives() {
                let (name, _) = self.workers.remove(nth);
                let stderr = self.engine.stderr_of(&name);
                let last: Vec<&str> = stderr.lines().rev().take(5).collect();
                self.ended_by_themselves.push(format!("after {fault:?} {name}: {last:#?}"));
                self.start_worker(None);
            }
        }
    }

    /// Returns the processes that ended without being killed, with the end of their logs.
    pub(super) fn ended_by_themselves(&self) -> &[String] {
        &self.ended_by_themselves
    }
}

/// Returns a client that sends the key.
pub(super) fn client() -> reqwest::ClientBuilder {
    let key = reqwest::header::HeaderValue::from_str(&format!("Bearer {KEY}")).unwrap();
    let headers = [(reqwest::header::AUTHORIZATION, key)].into_iter().collect();
    reqwest::Client::builder().default_headers(headers)
}
