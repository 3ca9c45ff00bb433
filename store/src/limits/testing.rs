//! What all limits must do. An implementation passes when [`limits_conformance`] returns.

use std::{
    slice::from_ref as one,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::{Cap, Limits, Pace, Permit, Reserved, Subject, Used, Want};

/// Short enough to be waited for, and long enough for a busy machine.
const PACE: Pace = Pace { hold: Duration::from_millis(800), minute: Duration::from_millis(600) };

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Checks limits. `make` gives another end of the same books, as another process would have it.
///
/// # Panics
///
/// When they do not keep a promise; the words say which.
pub async fn limits_conformance(make: impl AsyncFn(Pace) -> Arc<dyn Limits>) {
    let (here, there) = (make(PACE).await, make(PACE).await);
    nothing_is_limited_that_has_no_limit(&*here).await;
    no_more_are_at_work_than_may_be(&here, &there).await;
    no_minute_holds_more_requests_than_it_may(&here, &there).await;
    no_minute_holds_more_tokens_than_it_may(&here, &there).await;
    all_wants_are_reserved_or_none(&*here, &*there).await;
    settling_gives_back_what_was_not_used(&*here, &*there).await;
    settling_twice_gives_back_once(&*here).await;
    a_dead_holder_loses_its_place_and_a_live_one_does_not(&*here, &*there).await;
    money_stops_at_its_limit(&*here, &*there).await;
    a_want_beyond_its_limit_has_its_turn(&*here).await;
    who_wants_much_is_not_passed_by_for_ever(&*here, &*there).await;
    a_crowd_asks_less_often(&*here).await;
    tenants_take_turns_where_there_is_no_room(&here, &there).await;
}

async fn nothing_is_limited_that_has_no_limit(limits: &dyn Limits) {
    let none = Want { tokens: u64::MAX, micro_usd: u64::MAX, ..want("free", Cap::default()) };
    for _ in 0..50 {
        granted(limits, "a", one(&none)).await;
    }
    granted(limits, "a", &[]).await;
}

async fn no_more_are_at_work_than_may_be(here: &Arc<dyn Limits>, there: &Arc<dyn Limits>) {
    const MOST: u64 = 3;
    let wants = [want("crowded", Cap { concurrency: Some(MOST), ..Cap::default() })];
    let (at_work, most) = (AtomicU64::new(0), AtomicU64::new(0));
    let task = |n: usize| {
        let (limits, wants, at_work, most) = ([here, there][n % 2], &wants, &at_work, &most);
        async move {
            let permit = until_granted(&**limits, &format!("crowded {n}"), wants).await;
            most.fetch_max(at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(10)).await;
            at_work.fetch_sub(1, Ordering::SeqCst);
            settle(&**limits, &permit, Used::default()).await;
        }
    };
    join_all((0..30).map(task)).await;
    assert_eq!(most.into_inner(), MOST, "as many as may be, and never more");
    let all = join_all((0..3).map(|n| until_granted(&**here, ["x", "y", "z"][n], &wants))).await;
    let why = refused(&**there, "w", &wants).await;
    assert!(why.contains("MCP server crowded is at work on 3 requests"), "{why}");
    for permit in all {
        settle(&**there, &permit, Used::default()).await;
    }
}

async fn no_minute_holds_more_requests_than_it_may(here: &Arc<dyn Limits>, there: &Arc<dyn Limits>) {
    const MOST: usize = 4;
    let wants = [want("asked", Cap { requests_per_minute: Some(MOST as u64), ..Cap::default() })];
    given_within_limits(here, there, &wants, 12, MOST).await;
}

async fn no_minute_holds_more_tokens_than_it_may(here: &Arc<dyn Limits>, there: &Arc<dyn Limits>) {
    let cap = Cap { tokens_per_minute: Some(100), ..Cap::default() };
    // Three of them fit, and a fourth does not.
    let wants = [Want { tokens: 30, ..want("read", cap) }];
    given_within_limits(here, there, &wants, 9, 3).await;
}

/// Many ask on both ends for the same; no minute sees more than `most` of them.
async fn given_within_limits(
    here: &Arc<dyn Limits>,
    there: &Arc<dyn Limits>,
    wants: &[Want],
    many: usize,
    most: usize,
) {
    let task = |n: usize| async move {
        let limits = &**[here, there][n % 2];
        let began = Instant::now();
        loop {
            let before = Instant::now();
            match limits.reserve(&format!("{:?} {n}", wants[0].of), wants).await.expect("reserve") {
                Reserved::Granted(permit) => {
                    settle(limits, &permit, Used::default()).await;
                    return (before, Instant::now());
                }
                Reserved::Wait { after, .. } => {
                    assert!(after <= limits.pace().minute, "told to wait longer than a minute: {after:?}");
                    sleep(after).await;
                }
            }
            assert!(began.elapsed() < PATIENCE, "no room within {PATIENCE:?}");
        }
    };
    let mut given = join_all((0..many).map(task)).await;
    given.sort_by_key(|(_, after)| *after);
    for (first, last) in given.iter().zip(given.iter().skip(most)) {
        // Each was given somewhere between its two times; Redis counts in whole milliseconds.
        let apart = last.1 - first.0 + Duration::from_millis(2);
        assert!(here.pace().minute <= apart, "{} were given within {apart:?}", most + 1);
    }
}

async fn all_wants_are_reserved_or_none(here: &dyn Limits, there: &dyn Limits) {
    let cap = Cap { concurrency: Some(1), requests_per_minute: Some(1), ..Cap::default() };
    let (full, free) = (want("full", cap), want("untouched", cap));
    let held = granted(here, "a", one(&full)).await;
    let why = refused(there, "b", &[free.clone(), full.clone()]).await;
    assert!(why.contains("full"), "the one that lacks is named: {why}");
    let other = granted(there, "c", &[free]).await;
    settle(here, &held, Used::default()).await;
    settle(here, &other, Used::default()).await;
}

async fn settling_gives_back_what_was_not_used(here: &dyn Limits, there: &dyn Limits) {
    let cap = Cap { tokens_per_minute: Some(100), concurrency: Some(2), ..Cap::default() };
    let wants = [Want { tokens: 80, ..want("settled", cap) }];
    let first = granted(here, "a", &wants).await;
    refused(there, "b", &wants).await;
    settle(there, &first, Used { tokens: Some(10), micro_usd: None }).await;
    let second = granted(there, "b", &wants).await;
    settle(here, &second, Used { tokens: Some(100), micro_usd: None }).await;
    let why = refused(here, "c", &[Want { tokens: 1, ..wants[0].clone() }]).await;
    assert!(why.contains("100 tokens for a minute"), "more was used than reserved: {why}");
    let third = until_granted(here, "c", &wants).await;
    settle(here, &third, Used::default()).await;
    refused(there, "d", &wants).await;
}

async fn settling_twice_gives_back_once(limits: &dyn Limits) {
    let cap = Cap { micro_usd_per_day: Some(100), ..Cap::default() };
    let of = |micro_usd| [Want { micro_usd, ..want("twice", cap) }];
    let (first, _second) = (granted(limits, "a", &of(40)).await, granted(limits, "b", &of(40)).await);
    for _ in 0..3 {
        settle(limits, &first, Used::NOTHING).await;
    }
    refused(limits, "c", &of(61)).await;
    granted(limits, "c", &of(60)).await;
}

async fn a_dead_holder_loses_its_place_and_a_live_one_does_not(here: &dyn Limits, there: &dyn Limits) {
    let wants = [want("haunted", Cap { concurrency: Some(2), ..Cap::default() })];
    let (_dead, live) = (granted(here, "dead", &wants).await, granted(here, "live", &wants).await);
    let began = Instant::now();
    let renewing = async {
        loop {
            here.renew(&live).await.expect("renew");
            sleep(PACE.hold / 4).await;
        }
    };
    let came = tokio::select! {
        came = until_granted(there, "heir", &wants) => came,
        () = renewing => unreachable!("it renews for ever"),
    };
    assert!(PACE.hold <= began.elapsed() + Duration::from_millis(2), "too early: {:?}", began.elapsed());
    refused(there, "another", &wants).await;
    settle(here, &live, Used::default()).await;
    let last = granted(there, "another", &wants).await;
    here.renew(&live).await.expect("renew");
    refused(here, "yet another", &wants).await;
    settle(there, &came, Used::default()).await;
    settle(there, &last, Used::default()).await;
}

async fn money_stops_at_its_limit(here: &dyn Limits, there: &dyn Limits) {
    let cap = Cap { micro_usd_per_day: Some(1_000_000), ..Cap::default() };
    let of = |micro_usd| [Want { micro_usd, ..want("paid", cap) }];
    let first = granted(here, "a", &of(600_000)).await;
    let Reserved::Wait { after, why } = there.reserve("b", &of(600_000)).await.expect("reserve") else {
        panic!("more was given than there is");
    };
    assert!(why.contains("has $1 for a day") && why.contains("the day ends at 20"), "{why}");
    assert!(why.ends_with("T00:00:00.000000Z"), "{why}");
    assert!(after <= super::LONGEST_PAUSE, "the limit may be raised before the day ends: {after:?}");
    settle(there, &first, Used { tokens: None, micro_usd: Some(400_000) }).await;
    let second = granted(there, "b", &of(600_000)).await;
    refused(here, "c", &of(1)).await;
    settle(here, &second, Used::NOTHING).await;
    granted(here, "c", &of(600_000)).await;
}

async fn a_want_beyond_its_limit_has_its_turn(limits: &dyn Limits) {
    let cap = Cap { tokens_per_minute: Some(10), micro_usd_per_day: Some(10), ..Cap::default() };
    let wants = [Want { tokens: 1_000, micro_usd: 1_000, ..want("small", cap) }];
    let first = granted(limits, "a", &wants).await;
    refused(limits, "b", &wants).await;
    settle(limits, &first, Used::NOTHING).await;
    granted(limits, "b", &wants).await;
}

async fn who_wants_much_is_not_passed_by_for_ever(here: &dyn Limits, there: &dyn Limits) {
    let cap = Cap { tokens_per_minute: Some(100), ..Cap::default() };
    let of = |tokens| [Want { tokens, ..want("nibbled at", cap) }];
    let (few, many) = (of(9), of(95));
    granted(here, "a", &of(60)).await;
    sleep(PACE.minute / 3).await;
    granted(here, "b", &of(40)).await;
    refused(there, "patient", &many).await;
    // There is room for it long before there is for the other.
    let served_before = async |first: &str, wants: &[Want], other: &str, others: &[Want]| {
        let began = Instant::now();
        loop {
            refused(here, other, others).await;
            if let Reserved::Granted(_) = there.reserve(first, wants).await.expect("reserve") {
                break;
            }
            sleep(Duration::from_millis(20)).await;
            assert!(began.elapsed() < PATIENCE, "no room within {PATIENCE:?}");
        }
    };
    served_before("patient", &many, "nibbler", &few).await;
    // Who has waited longer goes before whoever came back first.
    refused(here, "newcomer", &many).await;
    refused(there, "nibbler", &few).await;
    served_before("nibbler", &few, "newcomer", &many).await;
}

async fn a_crowd_asks_less_often(limits: &dyn Limits) {
    let wants = [want("besieged", Cap { concurrency: Some(1), ..Cap::default() })];
    let permit = granted(limits, "inside", &wants).await;
    let mut pauses = Vec::new();
    for n in 0..200 {
        limits.renew(&permit).await.expect("renew");
        pauses.push(pause(limits, &format!("outside {n}"), &wants).await);
    }
    assert!(pauses[0] < Duration::from_millis(500), "who waits alone is soon back: {:?}", pauses[0]);
    assert!(Duration::from_millis(900) < pauses[199], "a crowd would not stop asking: {:?}", pauses[199]);
    assert!(pause(limits, "outside 199", &wants).await <= pauses[199], "nobody is counted twice");
    settle(limits, &permit, Used::default()).await;
}

async fn tenants_take_turns_where_there_is_no_room(here: &Arc<dyn Limits>, there: &Arc<dyn Limits>) {
    const CROWD: usize = 500;
    let cap = Cap { concurrency: Some(1), ..Cap::default() };
    let of = |tenant: &str| [Want { tenant: tenant.to_owned(), ..want("shared out", cap) }];
    let (many, few) = (of("many"), of("few"));
    let permit = granted(&**here, "inside", &many).await;
    let mut pauses = Vec::new();
    for n in 0..CROWD {
        here.renew(&permit).await.expect("renew");
        pauses.push(pause(&**here, &format!("many {n} 0"), &many).await);
    }
    let other = pause(&**there, "few 1 0", &few).await;
    assert!(other < Duration::from_millis(500), "it waits for the crowd of another tenant: {other:?}");
    let again = pause(&**here, "many 0 0", &many).await;
    assert!(pauses[CROWD - 1] < again, "two tenants ask as often as one: {again:?}");
    settle(&**here, &permit, Used::default()).await;

    let gone_in = AtomicU64::new(0);
    let one_after_another = |n: usize, wants: [Want; 1], times: usize, first: Duration| {
        let (limits, gone_in) = ([here, there][n % 2], &gone_in);
        async move {
            sleep(first).await;
            for time in 0..times {
                let asker = format!("{} {n} {time}", wants[0].tenant);
                let permit = loop {
                    match limits.reserve(&asker, &wants).await.expect("reserve") {
                        Reserved::Granted(permit) => break permit,
                        Reserved::Wait { after, .. } => sleep(after).await,
                    }
                };
                gone_in.fetch_add(1, Ordering::SeqCst);
                sleep(Duration::from_millis(10)).await;
                settle(&**limits, &permit, Used::default()).await;
            }
        }
    };
    let crowd = join_all((0..CROWD).map(|n| one_after_another(n, many.clone(), 1, pauses[n])));
    tokio::select! {
        _ = crowd => panic!("all of a crowd went in before another tenant's three"),
        () = one_after_another(1, few.clone(), 3, other) => {}
    }
    assert!(gone_in.into_inner() < CROWD as u64, "it had to wait for the crowd");
}

fn want(server: &str, cap: Cap) -> Want {
    Want { of: Subject::Server(server.to_owned()), tenant: "acme".to_owned(), cap, tokens: 0, micro_usd: 0 }
}

async fn granted(limits: &dyn Limits, asker: &str, wants: &[Want]) -> Permit {
    match limits.reserve(asker, wants).await.expect("reserve") {
        Reserved::Granted(permit) => permit,
        Reserved::Wait { why, .. } => panic!("there is room, and still: {why}"),
    }
}

async fn refused(limits: &dyn Limits, asker: &str, wants: &[Want]) -> String {
    match limits.reserve(asker, wants).await.expect("reserve") {
        Reserved::Granted(_) => panic!("there was no room, and still it was given: {wants:?}"),
        Reserved::Wait { why, .. } => why,
    }
}

async fn pause(limits: &dyn Limits, asker: &str, wants: &[Want]) -> Duration {
    match limits.reserve(asker, wants).await.expect("reserve") {
        Reserved::Granted(_) => panic!("there was no room, and still it was given"),
        Reserved::Wait { after, .. } => after,
    }
}

async fn until_granted(limits: &dyn Limits, asker: &str, wants: &[Want]) -> Permit {
    let began = Instant::now();
    loop {
        match limits.reserve(asker, wants).await.expect("reserve") {
            Reserved::Granted(permit) => return permit,
            Reserved::Wait { after, .. } => sleep(after.min(Duration::from_millis(20))).await,
        }
        assert!(began.elapsed() < PATIENCE, "no room within {PATIENCE:?}");
    }
}

async fn settle(limits: &dyn Limits, permit: &Permit, used: Used) {
    limits.settle(permit, used).await.expect("settle");
}
