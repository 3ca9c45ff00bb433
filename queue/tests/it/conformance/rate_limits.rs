//! Checks of the rate limits.

use std::{
    slice::from_ref as one,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use queue::rate_limits::{
    ActualUsage, Demand, MAX_PAUSE, MemoryRateLimiter, MoneyPart, Permit, RateLimit, RateLimiter,
    RedisRateLimiter, Reservation, Subject, Timing,
};
use test_servers::Redis;
use tokio::time::{Instant, sleep};

super::checks! {
    demands_without_limits_are_granted,
    concurrency_never_exceeds_its_limit,
    no_minute_has_more_requests_than_the_limit,
    no_minute_has_more_tokens_than_the_limit,
    all_demands_are_reserved_or_none,
    settling_returns_unused_tokens,
    settling_twice_returns_once,
    a_permit_that_is_not_renewed_loses_its_place,
    money_per_day_never_exceeds_its_limit,
    a_demand_larger_than_its_limit_is_granted_alone,
    a_large_demand_is_not_starved_by_small_ones,
    pauses_grow_with_the_number_of_waiting_requests,
    a_tenant_does_not_wait_behind_the_crowd_of_another,
    no_tenant_spends_the_part_of_another,
    a_part_that_is_not_used_returns_to_its_tenant,
    a_running_turn_is_counted_once_and_freed_by_any_process,
    no_tokens_are_kept_for_a_request_that_waits_for_something_else,
}

/// Short enough to wait for, and long enough for a busy machine.
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

async fn demands_without_limits_are_granted(backend: &Backend) {
    let [limits, _] = &backend.connect().await;
    let limits = &**limits;
    let none = Demand { tokens: u64::MAX, micro_usd: u64::MAX, ..demand("free", RateLimit::default()) };
    for _ in 0..50 {
        granted(limits, "a", one(&none)).await;
    }
    granted(limits, "a", &[]).await;
}

async fn concurrency_never_exceeds_its_limit(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    const MOST: u64 = 3;
    let demands = [demand("crowded", RateLimit { concurrency: Some(MOST), ..RateLimit::default() })];
    let (running, most) = (AtomicU64::new(0), AtomicU64::new(0));
    let task = |n: usize| {
        let (limits, demands, running, most) = ([here, there][n % 2], &demands, &running, &most);
        async move {
            let permit = granted_eventually(&**limits, &format!("crowded {n}"), demands).await;
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(10)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            settle(&**limits, &permit, ActualUsage::default()).await;
        }
    };
    join_all((0..30).map(task)).await;
    assert_eq!(most.into_inner(), MOST, "the limit is reached and never exceeded");
    let all = join_all((0..3).map(|n| granted_eventually(&**here, ["x", "y", "z"][n], &demands))).await;
    let why = rejected(&**there, "w", &demands).await;
    assert!(why.contains("MCP server crowded is at its limit of 3 concurrent requests"), "{why}");
    for permit in all {
        settle(&**there, &permit, ActualUsage::default()).await;
    }
}

async fn no_minute_has_more_requests_than_the_limit(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    const MOST: usize = 4;
    let demands =
        [demand("asked", RateLimit { requests_per_minute: Some(MOST as u64), ..RateLimit::default() })];
    grant_within_limit(here, there, &demands, 12, MOST).await;
}

async fn no_minute_has_more_tokens_than_the_limit(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    let cap = RateLimit { tokens_per_minute: Some(100), ..RateLimit::default() };
    // Three of them fit, a fourth does not.
    let demands = [Demand { tokens: 30, ..demand("read", cap) }];
    grant_within_limit(here, there, &demands, 9, 3).await;
}

/// Makes many requests over both connections; no minute may grant more than `most` of them.
async fn grant_within_limit(
    here: &Arc<dyn RateLimiter>,
    there: &Arc<dyn RateLimiter>,
    demands: &[Demand],
    many: usize,
    most: usize,
) {
    let task = |n: usize| async move {
        let limits = &**[here, there][n % 2];
        let began = Instant::now();
        loop {
            let before = Instant::now();
            match limits.reserve(&format!("{:?} {n}", demands[0].subject), demands).await.expect("reserve") {
                Reservation::Granted(permit) => {
                    settle(limits, &permit, ActualUsage::default()).await;
                    return (before, Instant::now());
                }
                Reservation::Unavailable(refused) => panic!("{}", refused.reason),
                Reservation::Wait { after, .. } => {
                    assert!(after <= limits.timing().minute, "the pause is longer than a minute: {after:?}");
                    sleep(after).await;
                }
            }
            assert!(began.elapsed() < TIMEOUT, "no permit within {TIMEOUT:?}");
        }
    };
    let mut given = join_all((0..many).map(task)).await;
    given.sort_by_key(|(_, after)| *after);
    for (first, last) in given.iter().zip(given.iter().skip(most)) {
        // Each was granted between its two times; Redis counts whole milliseconds.
        let apart = last.1 - first.0 + Duration::from_millis(2);
        assert!(here.timing().minute <= apart, "{} were granted within {apart:?}", most + 1);
    }
}

async fn all_demands_are_reserved_or_none(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    let (here, there) = (&**here, &**there);
    let cap = RateLimit { concurrency: Some(1), requests_per_minute: Some(1), ..RateLimit::default() };
    let (full, free) = (demand("full", cap), demand("untouched", cap));
    let held = granted(here, "a", one(&full)).await;
    let why = rejected(there, "b", &[free.clone(), full.clone()]).await;
    assert!(why.contains("full"), "the exhausted subject is named: {why}");
    let other = granted(there, "c", &[free]).await;
    settle(here, &held, ActualUsage::default()).await;
    settle(here, &other, ActualUsage::default()).await;
}

async fn settling_returns_unused_tokens(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    let (here, there) = (&**here, &**there);
    let cap = RateLimit { tokens_per_minute: Some(100), concurrency: Some(2), ..RateLimit::default() };
    let demands = [Demand { tokens: 80, ..demand("settled", cap) }];
    let first = granted(here, "a", &demands).await;
    rejected(there, "b", &demands).await;
    settle(there, &first, ActualUsage { tokens: Some(10), micro_usd: None }).await;
    let second = granted(there, "b", &demands).await;
    settle(here, &second, ActualUsage { tokens: Some(100), micro_usd: None }).await;
    let why = rejected(here, "c", &[Demand { tokens: 1, ..demands[0].clone() }]).await;
    assert!(why.contains("100 tokens per minute"), "actual usage counts: {why}");
    let third = granted_eventually(here, "c", &demands).await;
    settle(here, &third, ActualUsage::default()).await;
    rejected(there, "d", &demands).await;
}

async fn settling_twice_returns_once(backend: &Backend) {
    let [limits, _] = &backend.connect().await;
    let limits = &**limits;
    let cap = RateLimit { micro_usd_per_day: Some(100), ..RateLimit::default() };
    let of = |micro_usd| [Demand { micro_usd, ..demand("twice", cap) }];
    let (first, _second) = (granted(limits, "a", &of(40)).await, granted(limits, "b", &of(40)).await);
    for _ in 0..3 {
        settle(limits, &first, ActualUsage::NONE).await;
    }
    rejected(limits, "c", &of(61)).await;
    granted(limits, "c", &of(60)).await;
}

async fn a_permit_that_is_not_renewed_loses_its_place(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    let (here, there) = (&**here, &**there);
    let demands = [demand("haunted", RateLimit { concurrency: Some(2), ..RateLimit::default() })];
    let (_dead, live) = (granted(here, "dead", &demands).await, granted(here, "live", &demands).await);
    let began = Instant::now();
    let renewing = async {
        loop {
            here.renew(&live).await.expect("renew");
            sleep(TIMING.permit_ttl / 4).await;
        }
    };
    let inherited = tokio::select! {
        inherited = granted_eventually(there, "heir", &demands) => inherited,
        () = renewing => unreachable!("the renewal never ends"),
    };
    assert!(
        TIMING.permit_ttl <= began.elapsed() + Duration::from_millis(2),
        "the place was lost too early: {:?}",
        began.elapsed()
    );
    rejected(there, "another", &demands).await;
    settle(here, &live, ActualUsage::default()).await;
    let last = granted(there, "another", &demands).await;
    here.renew(&live).await.expect("renew");
    rejected(here, "yet another", &demands).await;
    settle(there, &inherited, ActualUsage::default()).await;
    settle(there, &last, ActualUsage::default()).await;
}

async fn money_per_day_never_exceeds_its_limit(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    let (here, there) = (&**here, &**there);
    let cap = RateLimit { micro_usd_per_day: Some(1_000_000), ..RateLimit::default() };
    let of = |micro_usd| [Demand { micro_usd, ..demand("paid", cap) }];
    let first = granted(here, "a", &of(600_000)).await;
    let Reservation::Wait { after, reason: why } = there.reserve("b", &of(600_000)).await.expect("reserve")
    else {
        panic!("the limit was exceeded");
    };
    assert!(why.contains("limit of $1 per day") && why.contains("is reset at 20"), "{why}");
    assert!(why.ends_with("T00:00:00.000000Z"), "{why}");
    assert!(after <= MAX_PAUSE, "an operator may raise the limit before the day ends: {after:?}");
    settle(there, &first, ActualUsage { tokens: None, micro_usd: Some(400_000) }).await;
    let second = granted(there, "b", &of(600_000)).await;
    rejected(here, "c", &of(1)).await;
    settle(here, &second, ActualUsage::NONE).await;
    granted(here, "c", &of(600_000)).await;
}

async fn a_demand_larger_than_its_limit_is_granted_alone(backend: &Backend) {
    let [limits, _] = &backend.connect().await;
    let limits = &**limits;
    let cap = RateLimit { tokens_per_minute: Some(10), micro_usd_per_day: Some(10), ..RateLimit::default() };
    let demands = [Demand { tokens: 1_000, micro_usd: 1_000, ..demand("small", cap) }];
    let first = granted(limits, "a", &demands).await;
    rejected(limits, "b", &demands).await;
    settle(limits, &first, ActualUsage::NONE).await;
    granted(limits, "b", &demands).await;
}

async fn a_large_demand_is_not_starved_by_small_ones(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    let (here, there) = (&**here, &**there);
    let cap = RateLimit { tokens_per_minute: Some(100), ..RateLimit::default() };
    let of = |tokens| [Demand { tokens, ..demand("nibbled at", cap) }];
    let (few, many) = (of(9), of(95));
    granted(here, "a", &of(60)).await;
    sleep(TIMING.minute / 3).await;
    granted(here, "b", &of(40)).await;
    rejected(there, "patient", &many).await;
    // The small demand would fit long before the large one.
    let granted_before = async |first: &str, demands: &[Demand], other: &str, others: &[Demand]| {
        let began = Instant::now();
        loop {
            rejected(here, other, others).await;
            if let Reservation::Granted(_) = there.reserve(first, demands).await.expect("reserve") {
                break;
            }
            sleep(Duration::from_millis(20)).await;
            assert!(began.elapsed() < TIMEOUT, "no permit within {TIMEOUT:?}");
        }
    };
    granted_before("patient", &many, "nibbler", &few).await;
    // The request that has waited longer precedes the one that asked again first.
    rejected(here, "newcomer", &many).await;
    rejected(there, "nibbler", &few).await;
    granted_before("nibbler", &few, "newcomer", &many).await;
}

async fn pauses_grow_with_the_number_of_waiting_requests(backend: &Backend) {
    let [limits, _] = &backend.connect().await;
    let limits = &**limits;
    let demands = [demand("besieged", RateLimit { concurrency: Some(1), ..RateLimit::default() })];
    let permit = granted(limits, "inside", &demands).await;
    let mut pauses = Vec::new();
    for n in 0..200 {
        limits.renew(&permit).await.expect("renew");
        pauses.push(pause(limits, &format!("outside {n}"), &demands).await);
    }
    assert!(
        pauses[0] < Duration::from_millis(500),
        "a single waiting request soon asks again: {:?}",
        pauses[0]
    );
    assert!(Duration::from_millis(900) < pauses[199], "a crowd asks too often: {:?}", pauses[199]);
    assert!(pause(limits, "outside 199", &demands).await <= pauses[199], "a request is counted once");
    settle(limits, &permit, ActualUsage::default()).await;
}

async fn a_tenant_does_not_wait_behind_the_crowd_of_another(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    const CROWD: usize = 500;
    let cap = RateLimit { concurrency: Some(1), ..RateLimit::default() };
    let of = |tenant: &str| [Demand { tenant: tenant.to_owned(), ..demand("shared out", cap) }];
    let (many, few) = (of("many"), of("few"));
    let permit = granted(&**here, "inside", &many).await;
    let mut pauses = Vec::new();
    for n in 0..CROWD {
        here.renew(&permit).await.expect("renew");
        pauses.push(pause(&**here, &format!("many {n} 0"), &many).await);
    }
    let other = pause(&**there, "few 1 0", &few).await;
    assert!(other < Duration::from_millis(500), "it waits behind the crowd of another tenant: {other:?}");
    let again = pause(&**here, "many 0 0", &many).await;
    assert!(pauses[CROWD - 1] < again, "two tenants share the rate of one: {again:?}");
    settle(&**here, &permit, ActualUsage::default()).await;

    let granted_count = AtomicU64::new(0);
    let one_after_another = |n: usize, demands: [Demand; 1], times: usize, first: Duration| {
        let (limits, granted_count) = ([here, there][n % 2], &granted_count);
        async move {
            sleep(first).await;
            for time in 0..times {
                let requester = format!("{} {n} {time}", demands[0].tenant);
                let permit = loop {
                    match limits.reserve(&requester, &demands).await.expect("reserve") {
                        Reservation::Granted(permit) => break permit,
                        Reservation::Wait { after, .. } => sleep(after).await,
                        Reservation::Unavailable(refused) => panic!("{}", refused.reason),
                    }
                };
                granted_count.fetch_add(1, Ordering::SeqCst);
                sleep(Duration::from_millis(10)).await;
                settle(&**limits, &permit, ActualUsage::default()).await;
            }
        }
    };
    let crowd = join_all((0..CROWD).map(|n| one_after_another(n, many.clone(), 1, pauses[n])));
    tokio::select! {
        _ = crowd => panic!("a whole crowd was served before three requests of another tenant"),
        () = one_after_another(1, few.clone(), 3, other) => {}
    }
    assert!(granted_count.into_inner() < CROWD as u64, "the other tenant waited for the whole crowd");
}

/// The demand of a tenant on $100, half of which is divided: 30 for one tenant, 20 for all others.
fn divided(tenant: &str, micro_usd: u64) -> [Demand; 1] {
    let (owner, own) = if tenant == "large" { ("large", 30) } else { ("", 20) };
    let part = Some(MoneyPart { owner: owner.to_owned(), own, all: 50 });
    let cap = RateLimit { micro_usd_per_day: Some(100), ..RateLimit::default() };
    [Demand { tenant: tenant.to_owned(), micro_usd, part, ..demand("divided", cap) }]
}

async fn no_tenant_spends_the_part_of_another(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    let (here, there) = (&**here, &**there);
    // Its own part, and everything that belongs to no tenant.
    granted(here, "a", &divided("large", 80)).await;
    let why = rejected(there, "b", &divided("large", 1)).await;
    assert!(why.contains("limit of $0.0001 per day, of which $0.00002 is kept for other tenants"), "{why}");
    granted(there, "c", &divided("small", 15)).await;
    rejected(here, "d", &divided("other", 6)).await;
    granted(here, "d", &divided("other", 5)).await;
    rejected(there, "e", &divided("small", 1)).await;
}

async fn a_part_that_is_not_used_returns_to_its_tenant(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    let (here, there) = (&**here, &**there);
    let used = |micro_usd| ActualUsage { tokens: None, micro_usd: Some(micro_usd) };
    let first = granted(here, "a", &divided("large", 70)).await;
    rejected(there, "b", &divided("small", 31)).await;
    // 40 of the 70 came from what belongs to no tenant. 35 of them return.
    settle(there, &first, used(35)).await;
    let second = granted(there, "b", &divided("small", 65)).await;
    rejected(here, "c", &divided("large", 1)).await;
    settle(here, &second, ActualUsage::NONE).await;
    granted(here, "c", &divided("large", 45)).await;
    // More than was reserved counts as well.
    let third = granted(here, "d", &divided("small", 10)).await;
    settle(here, &third, used(20)).await;
    rejected(there, "e", &divided("small", 1)).await;
}

async fn a_running_turn_is_counted_once_and_freed_by_any_process(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    let (here, there) = (&**here, &**there);
    let [first, second] = [1, 2].map(uuid::Uuid::from_u128);
    let permit = |thread| Permit::of_turn(thread, "acme", 1);
    let take = async |limits: &dyn RateLimiter, thread: uuid::Uuid| {
        limits.take(&thread.to_string(), permit(thread)).await.expect("take")
    };
    for limits in [here, there] {
        assert!(matches!(take(limits, first).await, Reservation::Granted(_)), "the turn already runs");
    }
    let Reservation::Wait { reason, .. } = take(there, second).await else {
        panic!("the limit was exceeded")
    };
    assert_eq!(reason, "tenant acme is at its limit of 1 running turns");
    // A turn may wait for longer than a request's permit lives.
    sleep(TIMING.permit_ttl + Duration::from_millis(50)).await;
    assert!(matches!(take(here, second).await, Reservation::Wait { .. }), "the place was lost");
    settle(there, &permit(first), ActualUsage::NONE).await;
    assert!(matches!(take(here, second).await, Reservation::Granted(_)), "the place is free");
    settle(there, &permit(second), ActualUsage::NONE).await;
}

async fn no_tokens_are_kept_for_a_request_that_waits_for_something_else(backend: &Backend) {
    let [here, there] = &backend.connect().await;
    let (here, there) = (&**here, &**there);
    let shared = RateLimit { tokens_per_minute: Some(100), ..RateLimit::default() };
    let own = RateLimit { micro_usd_per_day: Some(10), ..RateLimit::default() };
    let own = |micro_usd| Demand { micro_usd, ..Demand::of(Subject::Tenant("acme".to_owned()), "acme", own) };
    let of = |tokens| Demand { tokens, ..demand("kept", shared) };
    granted(here, "a", &[of(60)]).await;
    rejected(there, "large", &[of(90), own(0)]).await;
    rejected(here, "small", &[of(30)]).await;
    granted(here, "b", &[own(10)]).await;
    let why = rejected(there, "large", &[of(90), own(1)]).await;
    assert!(why.starts_with("tenant acme is near its limit of $0.00001 per day"), "{why}");
    granted(here, "small", &[of(30)]).await;
}

fn demand(server: &str, cap: RateLimit) -> Demand {
    Demand::of(Subject::Server(server.to_owned()), "acme", cap)
}

async fn granted(limits: &dyn RateLimiter, requester: &str, demands: &[Demand]) -> Permit {
    match limits.reserve(requester, demands).await.expect("reserve") {
        Reservation::Granted(permit) => permit,
        Reservation::Wait { reason: why, .. } => panic!("rejected although there is capacity: {why}"),
        Reservation::Unavailable(refused) => {
            panic!("rejected although there is capacity: {}", refused.reason)
        }
    }
}

async fn rejected(limits: &dyn RateLimiter, requester: &str, demands: &[Demand]) -> String {
    match limits.reserve(requester, demands).await.expect("reserve") {
        Reservation::Granted(_) => panic!("granted although the limit was reached: {demands:?}"),
        Reservation::Wait { reason: why, .. } => why,
        Reservation::Unavailable(refused) => panic!("{}", refused.reason),
    }
}

async fn pause(limits: &dyn RateLimiter, requester: &str, demands: &[Demand]) -> Duration {
    match limits.reserve(requester, demands).await.expect("reserve") {
        Reservation::Granted(_) => panic!("granted although the limit was reached"),
        Reservation::Wait { after, .. } => after,
        Reservation::Unavailable(refused) => panic!("{}", refused.reason),
    }
}

async fn granted_eventually(limits: &dyn RateLimiter, requester: &str, demands: &[Demand]) -> Permit {
    let began = Instant::now();
    loop {
        match limits.reserve(requester, demands).await.expect("reserve") {
            Reservation::Granted(permit) => return permit,
            Reservation::Wait { after, .. } => sleep(after.min(Duration::from_millis(20))).await,
            Reservation::Unavailable(refused) => panic!("{}", refused.reason),
        }
        assert!(began.elapsed() < TIMEOUT, "no permit within {TIMEOUT:?}");
    }
}

async fn settle(limits: &dyn RateLimiter, permit: &Permit, used: ActualUsage) {
    limits.settle(permit, used).await.expect("settle");
}
