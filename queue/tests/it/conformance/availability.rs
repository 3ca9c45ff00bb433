//! Checks of the availability of subjects that refuse requests.

use std::{slice::from_ref as one, sync::Arc, time::Duration};

use queue::BlockedBy;
use queue::rate_limits::{
    Demand, MemoryRateLimiter, RateLimit, RateLimiter, RedisRateLimiter, Refusal, Reservation, Standing,
    Subject, Timing,
};
use test_servers::Redis;
use tokio::time::{Instant, sleep};

super::checks! {
    a_subject_that_refuses_nothing_has_no_record,
    a_refusal_is_known_to_all,
    refusals_of_requests_in_flight_together_count_once,
    one_request_per_pause_is_sent_while_nothing_is_answered,
    an_answer_ends_the_outage,
    an_answer_to_an_earlier_request_ends_nothing,
    a_time_out_while_others_are_answered_is_recognised,
    a_pause_that_a_later_refusal_names_is_kept,
    a_forgotten_subject_refuses_nothing,
    a_limit_and_a_refusal_apply_together,
}

const TIMING: Timing = Timing { permit_ttl: Duration::from_millis(800), minute: Duration::from_millis(600) };

/// Longest wait for something that must happen.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Rate limits of either implementation.
enum Backend {
    Memory(MemoryRateLimiter),
    Redis(Redis),
}

impl Backend {
    fn memory() -> Self {
        Self::Memory(MemoryRateLimiter::new(TIMING))
    }

    fn redis() -> Self {
        Self::Redis(Redis::start())
    }

    /// Connects twice, like two processes.
    async fn connect(&self) -> [Arc<dyn RateLimiter>; 2] {
        match self {
            Self::Memory(limiter) => [Arc::new(limiter.clone()), Arc::new(limiter.clone())],
            Self::Redis(redis) => {
                let connect = async || {
                    Arc::new(
                        RedisRateLimiter::connect(&queue::Prefix::default(), &redis.url(), TIMING)
                            .await
                            .unwrap(),
                    )
                };
                [connect().await, connect().await]
            }
        }
    }

    /// Asserts that every key that a check has left in Redis expires.
    async fn assert_clean(&self) {
        let Self::Redis(redis) = self else { return };
        let info = redis.ask("INFO keyspace");
        let count = |name: &str| info.split([':', ',', '\r', '\n']).find_map(|part| part.strip_prefix(name));
        assert_eq!(count("keys="), count("expires="), "a key never expires: {info}");
    }
}

fn model() -> Subject {
    Subject::Model("a/b".to_owned())
}

fn refusal(first_pause: Duration) -> Refusal {
    Refusal {
        subject: model(),
        sent_ago: Duration::ZERO,
        retry_after: None,
        reason: BlockedBy::Provider.because("slow down\nand read this"),
        first_pause,
        max_pause: first_pause * 4,
    }
}

fn demand() -> Demand {
    Demand::unlimited(model(), "acme")
}

async fn refused(limits: &dyn RateLimiter, refusal: &Refusal) -> Standing {
    limits.refused(refusal).await.expect("refused")
}

/// Reserves a request, or returns why the subject takes none.
async fn ask(limits: &dyn RateLimiter, requester: &str) -> Result<(), Standing> {
    match limits.reserve(requester, one(&demand())).await.expect("reserve") {
        Reservation::Granted(_) => Ok(()),
        Reservation::Unavailable(standing) => Err(standing),
        Reservation::Wait { reason, .. } => panic!("{reason}"),
    }
}

/// Waits until a request is granted, and returns how long that took.
async fn granted(limits: &dyn RateLimiter, requester: &str) -> Duration {
    let began = Instant::now();
    while let Err(standing) = ask(limits, requester).await {
        assert!(began.elapsed() < TIMEOUT, "{standing:?}");
        sleep(standing.after.min(Duration::from_millis(20))).await;
    }
    began.elapsed()
}

async fn a_subject_that_refuses_nothing_has_no_record(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    here.answered(&model(), Duration::ZERO);
    there.refresh().await.unwrap();
    assert!(!here.is_refusing(&model()) && !there.is_refusing(&model()));
    for n in 0..50 {
        ask(&**here, &n.to_string()).await.unwrap();
    }
}

async fn a_refusal_is_known_to_all(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    const NAMED: Duration = Duration::from_millis(900);
    let named = Refusal { retry_after: Some(NAMED), ..refusal(Duration::from_millis(1)) };
    let began = Instant::now();
    let standing = refused(&**here, &named).await;
    assert!(NAMED / 2 < standing.after && standing.after <= NAMED, "{standing:?}");
    assert!(here.is_refusing(&model()));
    there.refresh().await.unwrap();
    assert!(there.is_refusing(&model()) && !there.is_refusing(&Subject::Server("a/b".to_owned())));
    let standing = ask(&**there, "x").await.expect_err("it is paused");
    assert!(standing.out_for.is_some(), "{standing:?}");
    let (since, error) = standing.reason.detail.rsplit_once("Z: ").unwrap();
    assert_eq!(error, "slow down", "one line of the error");
    assert!(since.starts_with("model a/b has taken no request since 20"), "{since}");
    granted(&**there, "x").await;
    assert!(NAMED <= began.elapsed() + Duration::from_millis(2), "the pause was too short");
}

async fn refusals_of_requests_in_flight_together_count_once(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    const FIRST: Duration = Duration::from_millis(2_000);
    let together = Refusal { sent_ago: Duration::from_secs(5), ..refusal(FIRST) };
    for n in 0..20 {
        let standing = refused(&**[here, there][n % 2], &together).await;
        assert!(standing.after <= FIRST, "the pause grows with the number in flight: {standing:?}");
    }
}

async fn a_pause_that_a_later_refusal_names_is_kept(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    const NAMED: Duration = Duration::from_secs(600);
    refused(&**here, &refusal(Duration::from_millis(1))).await;
    let in_flight =
        Refusal { sent_ago: Duration::from_secs(5), retry_after: Some(NAMED), ..refusal(TIMEOUT) };
    let standing = refused(&**there, &in_flight).await;
    assert!(NAMED - TIMEOUT < standing.after && standing.after <= NAMED, "{standing:?}");
    if let Backend::Redis(redis) = backend {
        // Its record, and the set of those that have one.
        for _ in 0..20 {
            let key = redis.ask("RANDOMKEY");
            let left: u128 = redis.ask(&format!("PTTL {key}")).parse().unwrap();
            assert!(standing.after.as_millis() < left, "{key} is forgotten after {left} ms");
        }
    }
}

async fn a_forgotten_subject_refuses_nothing(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    refused(&**here, &Refusal { retry_after: Some(TIMEOUT), ..refusal(Duration::ZERO) }).await;
    ask(&**there, "x").await.expect_err("it is paused");
    there.forget(&model()).await.unwrap();
    here.refresh().await.unwrap();
    assert!(!here.is_refusing(&model()) && !there.is_refusing(&model()));
    ask(&**here, "x").await.expect("its pause is forgotten");
    there.forget(&model()).await.expect("it can be repeated");
}

/// Makes the subject refuse two requests in a row.
async fn two_in_a_row(limits: &dyn RateLimiter, first_pause: Duration) -> Standing {
    refused(limits, &refusal(first_pause)).await;
    granted(limits, "first").await;
    refused(limits, &refusal(first_pause)).await
}

async fn one_request_per_pause_is_sent_while_nothing_is_answered(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    const FIRST: Duration = Duration::from_millis(600);
    let second = two_in_a_row(&**here, FIRST).await;
    assert!(FIRST < second.after && second.after <= FIRST * 2, "it doubles: {second:?}");
    granted(&**there, "probe").await;
    let standing = ask(&**here, "another").await.expect_err("one tries for all");
    assert!(FIRST < standing.after && standing.after <= FIRST * 4, "{standing:?}");
    let third = refused(&**there, &refusal(FIRST)).await;
    assert!(third.after <= FIRST * 4, "the longest pause: {third:?}");
    assert!(FIRST < third.out_for.unwrap_or_default(), "{third:?}");
}

async fn an_answer_ends_the_outage(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    const FIRST: Duration = Duration::from_secs(1);
    refused(&**here, &refusal(FIRST)).await;
    granted(&**here, "first").await;
    refused(&**here, &Refusal { max_pause: FIRST * 1_000, ..refusal(FIRST) }).await;
    granted(&**there, "probe").await;
    there.refresh().await.unwrap();
    there.answered(&model(), Duration::ZERO);
    let began = Instant::now();
    loop {
        match ask(&**here, "next").await {
            Ok(()) => break,
            Err(standing) => {
                let known = standing.out_for.is_none();
                assert!(!known || standing.after <= Duration::from_secs(3), "{standing:?}");
                assert!(!known || standing.reason.detail == "model a/b limits its requests: slow down");
            }
        }
        assert!(began.elapsed() < TIMEOUT, "the outage does not end");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn an_answer_to_an_earlier_request_ends_nothing(backend: &Backend) {
    let [here, _] = &backend.connect().await;
    two_in_a_row(&**here, Duration::from_millis(500)).await;
    here.answered(&model(), Duration::from_secs(60));
    sleep(Duration::from_millis(200)).await;
    let standing = ask(&**here, "next").await.expect_err("it was sent before");
    assert!(standing.out_for.is_some(), "{standing:?}");
}

async fn a_time_out_while_others_are_answered_is_recognised(backend: &Backend) {
    let [here, _] = &backend.connect().await;
    let slow = Refusal { sent_ago: Duration::from_secs(120), ..refusal(Duration::from_millis(1)) };
    assert!(!refused(&**here, &slow).await.answers_others, "nothing else is known");
    granted(&**here, "other").await;
    here.answered(&model(), Duration::ZERO);
    let began = Instant::now();
    while !refused(&**here, &slow).await.answers_others {
        assert!(began.elapsed() < TIMEOUT);
        sleep(Duration::from_millis(20)).await;
    }
    assert!(!refused(&**here, &refusal(Duration::from_millis(1))).await.answers_others, "that was before");
}

async fn a_limit_and_a_refusal_apply_together(backend: &Backend) {
    let [here, _] = &backend.connect().await;
    let limit = RateLimit { concurrency: Some(1), ..RateLimit::default() };
    let both = [Demand { limit, ..demand() }];
    let reserve = async |requester: &str| here.reserve(requester, &both).await.unwrap();
    let Reservation::Granted(_permit) = reserve("a").await else { panic!("nothing is in use") };
    assert!(matches!(reserve("b").await, Reservation::Wait { .. }));
    refused(&**here, &Refusal { retry_after: Some(TIMEOUT), ..refusal(Duration::ZERO) }).await;
    assert!(matches!(reserve("b").await, Reservation::Unavailable(_)), "the longer one counts");
}
