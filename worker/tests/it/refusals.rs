//! Models and servers that refuse requests: what one worker learns, all know.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use queue::{
    ALL_WORKERS, BlockedBy, EntryState, Notification, RedisQueue,
    rate_limits::{MemoryRateLimiter, RateLimiter, RedisRateLimiter, Subject, Timing},
};
use serde_json::json;
use shared::TurnStatus;
use shared::{DynThread, Event, Fault, Request, Response};
use store::{MemoryIndex, Opening, ThreadId, Turn};
use test_servers::Redis;
use threads::Backends;
use tokio::sync::Notify;
use worker::{
    Backoff, RequestAdmission, RetryPolicies, RetryPolicy, Shutdown, StepOutcome, StepRunner, Worker,
    WorkerConfig,
    testing::{self, CONFIG, TIMEOUT, backends, start_turn, turn_over, until},
};
use world::{
    Commands, Index, LiveWorld, Models, NodeToolFilters, Outcome, Protocol, RequestContext, Server, Servers,
    Session, ToolFilter, Transport, World,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Short, because the sweeper leaves running threads without a job to their workers for half of it.
const LEASE: Duration = Duration::from_secs(4);

/// A model that refuses requests and asks for ten minutes of patience, until the test lets it answer.
#[derive(Default)]
struct Refusing {
    answers: AtomicBool,
    fault: Mutex<Option<Fault>>,
    /// Requests by worker.
    sent: Mutex<BTreeMap<String, usize>>,
}

/// The model as one worker sees it.
struct ModelOfWorker {
    by: &'static str,
    model: Arc<Refusing>,
}

#[async_trait]
impl World for ModelOfWorker {
    async fn perform(&self, _: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(simulation) = &context.due.request else { panic!("no simulated request") };
        *self.model.sent.lock().unwrap().entry(self.by.to_owned()).or_default() += 1;
        if self.model.answers.load(Ordering::SeqCst) {
            return Ok((Response::Echo { text: simulation.text.clone() }, None));
        }
        let fault = self.model.fault.lock().unwrap().clone();
        Err(fault.unwrap_or_else(|| Fault::unavailable("slow down", Some(600_000))))
    }

    fn subject(&self, _: &Request) -> Option<Subject> {
        Some(Subject::Model("sim/model".to_owned()))
    }
}

fn steps(backends: &Backends, world: Arc<dyn World>, limits: Arc<dyn RateLimiter>, name: &str) -> StepRunner {
    StepRunner { admission: RequestAdmission::new(limits, None), ..testing::steps(backends, world, name) }
}

async fn start(backends: &Backends, strategy: &str, message: &str) -> Turn {
    let opened = serde_json::from_value(json!({"strategy": strategy, "servers": {"dead": "is dead"}}));
    start_turn(backends, Opening::New(opened.unwrap()), message).await
}

async fn log(backends: &Backends, thread: ThreadId) -> Vec<Event> {
    backends.store.load(thread).await.unwrap().1.into_iter().map(|row| row.event).collect()
}

/// A failure of a provider, such as status 502, counts as an attempt. The delays between attempts grow, and both are
/// configured for the provider.
#[tokio::test]
async fn a_provider_that_fails_is_asked_again_with_growing_delays() {
    for attempts in [2, 4] {
        let (backends, model) = (backends().await, Arc::<Refusing>::default());
        *model.fault.lock().unwrap() = Some(Fault::transient("provider sim failed (http status 502)"));
        let limits: Arc<dyn RateLimiter> = Arc::new(MemoryRateLimiter::new(Timing::with_permit_ttl(MINUTE)));
        let backoff = Some(Backoff { base: Duration::from_millis(40), max: MINUTE });
        let policy = RetryPolicy { attempts, backoff, ..RetryPolicy::MODEL };
        let retries =
            RetryPolicies { providers: [("sim".to_owned(), policy)].into(), ..RetryPolicies::default() };
        let mut steps =
            steps(&backends, Arc::new(ModelOfWorker { by: "one", model: model.clone() }), limits, "one");
        steps.admission = steps.admission.with_retries(retries);
        let turn = start(&backends, "probe", "wait 0").await;
        let thread = turn.thread;
        loop {
            match steps.run_job(thread, &Notify::new()).await.unwrap() {
                StepOutcome::RetryLater { after, .. } => tokio::time::sleep(after).await,
                StepOutcome::Continue => (),
                StepOutcome::Idle => break,
                other => panic!("{other:?}"),
            }
        }
        let delays: Vec<u64> = log(&backends, thread)
            .await
            .iter()
            .filter_map(|event| match event {
                Event::AttemptFailed(failure) => failure.retry_after_ms,
                _ => None,
            })
            .collect();
        assert_eq!(delays.len(), attempts as usize, "{delays:?}");
        for (nth, delay) in delays.into_iter().enumerate() {
            let whole = 40 * 4_u64.pow(u32::try_from(nth).unwrap());
            assert!((whole / 2..=whole).contains(&delay), "attempt {nth}: {delay} ms");
        }
        assert_eq!(turn_over(&backends.store, &turn).await.status, TurnStatus::Failed);
    }
}

/// The second worker sends nothing to a model that refused the first one. After Redis has lost everything, both continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_over_redis_share_a_pause() {
    let redis = Redis::start();
    let (all, model) = (backends().await, Arc::<Refusing>::default());
    let stop = Shutdown::default();
    let start_worker = async |by: &'static str| {
        let queue = RedisQueue::connect(&queue::Prefix::default(), &redis.url(), LEASE, by).await.unwrap();
        let backends = Backends { queue: Arc::new(queue), ..all.clone() };
        let limits = RedisRateLimiter::connect(
            &queue::Prefix::default(),
            &redis.url(),
            Timing::with_permit_ttl(MINUTE),
        )
        .await
        .unwrap();
        let steps =
            steps(&backends, Arc::new(ModelOfWorker { by, model: model.clone() }), Arc::new(limits), by);
        let config = WorkerConfig { lease: LEASE, sweep_interval: Duration::from_millis(200), ..CONFIG };
        (backends, tokio::spawn(Worker::new(steps, config).run(stop.clone())))
    };
    let (backends, first) = start_worker("first").await;
    let refused = start(&backends, "probe", "wait 0").await;
    let is_blocked = async |threads: usize| {
        let entries = backends.queue.list(10).await.unwrap();
        let blocked = entries.iter().filter(|entry| match &entry.state {
            EntryState::Delayed { reason: Some(why), .. } => {
                why.by == BlockedBy::Provider && why.detail.ends_with("Z: slow down")
            }
            _ => false,
        });
        blocked.count() == threads
    };
    until("the wait of the first", async || is_blocked(1).await).await;
    assert_eq!(model.sent.lock().unwrap().get("first"), Some(&1));
    first.abort();
    let (_, second) = start_worker("second").await;
    let blocked = start(&backends, "probe", "wait 0").await;
    until("the wait of both", async || is_blocked(2).await).await;
    assert_eq!(model.sent.lock().unwrap().get("second"), None, "it asked a model that is paused");
    let waits = log(&backends, refused.thread)
        .await
        .iter()
        .filter(|event| matches!(event, Event::AttemptFailed(_)))
        .count();
    assert_eq!(waits, 1);
    assert_eq!(
        log(&backends, blocked.thread).await.last().unwrap().kind(),
        "asked",
        "a short wait leaves no trace"
    );

    model.answers.store(true, Ordering::SeqCst);
    redis.flush_all();
    for turn in [refused, blocked] {
        assert_eq!(turn_over(&backends.store, &turn).await.status, TurnStatus::Completed);
    }
    stop.drain();
    second.await.unwrap();
}

/// The model asks for ten minutes. A person does not wait for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_ends_the_wait_for_a_model() {
    let redis = Redis::start();
    let prefix = queue::Prefix::default();
    let timing = Timing::with_permit_ttl(MINUTE);
    let in_redis = RedisRateLimiter::connect(&prefix, &redis.url(), timing).await.unwrap();
    let limiters: [Arc<dyn RateLimiter>; 2] = [Arc::new(in_redis), Arc::new(MemoryRateLimiter::new(timing))];
    for limits in limiters {
        let (backends, model) = (backends().await, Arc::<Refusing>::default());
        let steps =
            steps(&backends, Arc::new(ModelOfWorker { by: "one", model: model.clone() }), limits, "one");
        let stop = Shutdown::default();
        let worker = tokio::spawn(Worker::new(steps, CONFIG).run(stop.clone()));
        let turn = start(&backends, "probe", "wait 0").await;
        let waits = async || backends.queue.depth().await.unwrap().delayed == 1;
        until("the turn waits", waits).await;
        let resumed = |model: &str| Notification::ModelResumed { model: model.to_owned() };
        backends.notifications.publish(ALL_WORKERS, resumed("sim/other")).await;
        assert_eq!(model.sent.lock().unwrap().get("one"), Some(&1));
        model.answers.store(true, Ordering::SeqCst);
        backends.notifications.publish(ALL_WORKERS, resumed("sim/model")).await;
        assert_eq!(turn_over(&backends.store, &turn).await.status, TurnStatus::Completed);
        stop.drain();
        worker.await.unwrap();
    }
}

/// A time-out is the request's own once others are answered: it counts as an attempt, and is given up after as many.
#[tokio::test]
async fn a_request_that_alone_gets_no_answer_uses_up_its_attempts() {
    let (backends, model) = (backends().await, Arc::<Refusing>::default());
    *model.fault.lock().unwrap() = Some(Fault::unanswered("no answer in time"));
    let limits: Arc<dyn RateLimiter> = Arc::new(MemoryRateLimiter::new(Timing::with_permit_ttl(MINUTE)));
    let policy = RetryPolicy { attempts: 2, ..RetryPolicy::MODEL };
    let providers = BTreeMap::from([("sim".to_owned(), policy)]);
    let admission = RequestAdmission::new(limits.clone(), None)
        .with_retries(RetryPolicies { providers, ..RetryPolicies::default() });
    let world = Arc::new(AnswersOthers(ModelOfWorker { by: "w", model }, limits.clone()));
    let steps = StepRunner { admission, ..steps(&backends, world, limits, "w") };
    let (thread, wake) = (start(&backends, "probe", "wait 0").await.thread, Notify::new());
    let began = Instant::now();
    loop {
        match steps.run_job(thread, &wake).await.unwrap() {
            StepOutcome::Idle => break,
            StepOutcome::Continue | StepOutcome::NextTurn(_) => (),
            StepOutcome::RetryLater { after, .. } | StepOutcome::Blocked { after, .. } => {
                tokio::time::sleep(after.min(Duration::from_millis(50))).await;
            }
        }
        assert!(began.elapsed() < TIMEOUT, "{:?}", log(&backends, thread).await);
    }
    let events = log(&backends, thread).await;
    let failed: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::AttemptFailed(failure) => Some((failure.waiting, failure.attempts_max)),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(false, Some(2)), (false, Some(2))], "{events:#?}");
    let Some(Event::Failed(failed)) = events.last() else { panic!("{events:#?}") };
    assert!(failed.reason.contains("no answer in time (tried 2 times)"), "{}", failed.reason);
}

/// The model answers another request while this one waits.
struct AnswersOthers(ModelOfWorker, Arc<dyn RateLimiter>);

#[async_trait]
impl World for AnswersOthers {
    async fn perform(&self, thread: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.1.answered(&Subject::Model("sim/model".to_owned()), Duration::ZERO);
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.0.perform(thread, context).await
    }

    fn subject(&self, request: &Request) -> Option<Subject> {
        self.0.subject(request)
    }
}

/// A server that starts and says nothing; it notes each start in a file.
fn dead(starts: &Path, hidden: bool) -> Servers {
    let script = format!("echo started >> {}; exec sleep 600", starts.display());
    let none = ToolFilter { allow: Some(Default::default()), ..ToolFilter::default() };
    let server = Server {
        description: "is dead".to_owned(),
        transport: Transport::Stdio {
            command: "sh".to_owned(),
            args: vec!["-c".to_owned(), script],
            env: BTreeMap::new(),
            cwd: None,
        },
        confinement: Default::default(),
        call_timeout: Duration::from_secs(1),
        connect_timeout: Duration::from_secs(1),
        idle_timeout: Duration::from_secs(600),
        // Otherwise each attempt would start a second child, which is asked the older way.
        protocol: Some(Protocol::Older),
        session: Session::Shared,
        concurrency: None,
        tools: BTreeMap::new(),
        tool_filter: if hidden { none } else { ToolFilter::default() },
        node_tool_filters: NodeToolFilters::new(),
    };
    Servers::new(BTreeMap::from([("dead".to_owned(), server)]))
}

fn live(servers: Servers) -> Arc<LiveWorld> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (models, commands) = (Models::new(BTreeMap::new()).unwrap(), Commands::new(BTreeMap::new()).unwrap());
    Arc::new(LiveWorld::new(
        Arc::new(models),
        servers,
        commands,
        Index::lexical(Arc::new(MemoryIndex::default())),
    ))
}

fn started(starts: &Path) -> usize {
    std::fs::read_to_string(starts).unwrap_or_default().lines().count()
}

/// The first turn finds out that the server is dead; a turn in another worker does not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_server_is_remembered_by_all_workers() {
    let (backends, folder) = (backends().await, tempfile::tempdir().unwrap());
    let starts = folder.path().join("starts");
    let limits = MemoryRateLimiter::new(Timing::with_permit_ttl(MINUTE));
    let policy = RetryPolicy { give_up_after: Duration::from_secs(1), ..RetryPolicy::SERVER };
    let retries =
        RetryPolicies { servers: BTreeMap::from([("dead".to_owned(), policy)]), ..RetryPolicies::default() };
    let mut turns = 0;
    for name in ["one", "two"] {
        let limits: Arc<dyn RateLimiter> = Arc::new(limits.clone());
        let steps = StepRunner {
            // No second try within the test.
            backoff: Backoff { base: 10 * MINUTE, max: 10 * MINUTE },
            admission: RequestAdmission::new(limits.clone(), None).with_retries(retries.clone()),
            ..steps(&backends, live(dead(&starts, false)), limits, name)
        };
        for _ in 0..2 {
            let (thread, wake) = (start(&backends, "index_builder", "go").await.thread, Notify::new());
            loop {
                match steps.run_job(thread, &wake).await.unwrap() {
                    StepOutcome::Idle => break,
                    StepOutcome::Continue | StepOutcome::NextTurn(_) => (),
                    StepOutcome::Blocked { after, why } => {
                        assert_eq!(turns, 0, "a later turn waits: {why}");
                        assert!(after <= Duration::from_secs(1), "longer than until it gives up: {after:?}");
                        tokio::time::sleep(after).await;
                    }
                    StepOutcome::RetryLater { why, .. } => panic!("{why}"),
                }
            }
            turns += 1;
            let events = log(&backends, thread).await;
            let abandoned = events.iter().find_map(|event| match event {
                Event::Abandoned(abandoned) => Some(abandoned),
                _ => None,
            });
            let reason = &abandoned.unwrap_or_else(|| panic!("{events:#?}")).reason;
            assert!(
                reason.contains("cannot reach MCP server dead: it did not respond within 1s"),
                "{reason}"
            );
            assert_eq!(started(&starts), 1, "turn {turns} started it again");
        }
    }
}

/// A server of which the strategy sees nothing is not started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_waits_for_a_server_that_it_may_not_use() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let graph = strategies::find("probe").unwrap();
    let thread = graph.fold(&[]).unwrap();
    for (hidden, tries) in [(true, 0), (false, 1)] {
        let world = live(dead(&starts, hidden));
        let due = shared::PendingRequest {
            slot: 0,
            asked_seq: 2,
            request: Request::ListTools { server: "dead".to_owned() },
            safety: shared::Safety::Read,
            failures: 0,
            attempts: 0,
            previous_error: None,
            task: None,
            input_responses: None,
            is_read_back: false,
        };
        let context = RequestContext {
            thread: ThreadId::nil(),
            due: &due,
            key: "k",
            node: "equip",
            deltas: &world::DiscardDeltas,
        };
        let outcome = world.perform(&*thread, &context).await;
        assert_eq!(outcome.is_ok(), hidden, "{outcome:?}");
        assert_eq!(started(&starts), tries);
    }
}
