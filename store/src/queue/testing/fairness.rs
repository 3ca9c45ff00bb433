//! Whose token is taken next.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{Depth, Job, Lane, Priority, Queue, When, assert_empty, depth, finish, finish_all, take_one};
use crate::queue::lane::is_tenant;

/// How many tokens a flood has.
const FLOOD: usize = 10_000;

/// Lets every earlier wait come to its end: what is rung from now on waits in lanes.
async fn nobody_waits(queue: &dyn Queue) {
    assert_eq!(queue.take(1.into()).await.expect("take"), [], "there is nothing to take");
}

async fn flood(queue: &dyn Queue, tenant: &str, priority: Priority, tokens: usize) {
    let lane = Lane::new(tenant, priority);
    for _ in 0..tokens {
        queue.ring(Uuid::now_v7(), &lane, When::Now).await.expect("ring");
    }
}

/// Takes one token at a time, and says whose they were.
async fn tenants_of(queue: &dyn Queue, tokens: usize) -> Vec<String> {
    let mut tenants = Vec::new();
    for _ in 0..tokens {
        let job = take_one(queue).await;
        tenants.push(job.lane.tenant.to_string());
        finish(queue, &job, None).await;
    }
    tenants
}

async fn empty(queue: &dyn Queue) {
    while depth(queue).await != Depth::default() {
        finish_all(queue, &queue.take(1000.into()).await.expect("take")).await;
    }
}

pub(super) async fn the_most_urgent_of_a_tenant_comes_first(queue: &dyn Queue) {
    nobody_waits(queue).await;
    let [low, normal, high] = [Priority::Low, Priority::Normal, Priority::High];
    let mut threads = Vec::new();
    for priority in [low, normal, high, low, normal, high] {
        let thread = Uuid::now_v7();
        queue.ring(thread, &Lane::new("acme", priority), When::Now).await.expect("ring");
        threads.push(thread);
    }
    let mut jobs = Vec::new();
    while jobs.len() < 6 {
        let job = take_one(queue).await;
        finish(queue, &job, None).await;
        jobs.push(job);
    }
    let order: Vec<Uuid> = jobs.iter().map(|it| it.thread).collect();
    assert_eq!(
        order,
        [2, 5, 1, 4, 0, 3].map(|nth: usize| threads[nth]),
        "by priority, then as they were rung"
    );
    let urgency: Vec<Priority> = jobs.iter().map(|it| it.lane.priority).collect();
    assert_eq!(urgency, [high, high, normal, normal, low, low]);
    assert_empty(queue, "all were finished").await;
}

pub(super) async fn a_flood_delays_others_by_one_turn(ada: &dyn Queue, bob: &dyn Queue) {
    nobody_waits(ada).await;
    flood(ada, "flood", Priority::High, FLOOD).await;
    let under_way = [take_one(ada).await, take_one(ada).await];
    flood(ada, "lone", Priority::Low, 1).await;
    // All workers share the turns.
    let next = [take_one(bob).await, take_one(ada).await];
    let lone = next.iter().filter(|it| &*it.lane.tenant == "lone").count();
    assert_eq!(lone, 1, "the lone token is one of the next two: {next:?}");
    finish_all(ada, &under_way).await;
    finish(bob, &next[0], None).await;
    finish(ada, &next[1], None).await;
    assert_eq!(depth(ada).await, Depth { waiting: FLOOD as u64 - 3, ..Depth::default() });
    empty(ada).await;
}

pub(super) async fn tenants_are_served_by_their_weights(ada: &dyn Queue, bob: &dyn Queue) {
    nobody_waits(ada).await;
    flood(ada, "light", Priority::Normal, 50).await;
    flood(ada, "heavy", Priority::Normal, 50).await;
    let mut served: Vec<String> = Vec::new();
    for nth in 0..20 {
        served.extend(tenants_of(if nth % 2 == 0 { ada } else { bob }, 2).await);
    }
    let turn = ["light", "heavy", "heavy", "heavy"];
    assert!(served.chunks(4).all(|it| it == turn), "1 : 3, whoever takes: {served:?}");
    // In larger takes too, which end in the middle of a turn.
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for room in [3, 5, 6, 2] {
        let jobs = ada.take(room.into()).await.expect("take");
        assert_eq!(jobs.len(), room);
        for job in &jobs {
            *count.entry(job.lane.tenant.to_string()).or_default() += 1;
        }
        finish_all(ada, &jobs).await;
    }
    assert_eq!(count, BTreeMap::from([("light".to_owned(), 4), ("heavy".to_owned(), 12)]));
    empty(ada).await;
}

pub(super) async fn many_tenants_take_turns_within_one_take(queue: &dyn Queue) {
    const TENANTS: usize = 40;
    nobody_waits(queue).await;
    let names: Vec<String> = (0..TENANTS).map(|nth| format!("tenant-{nth:02}")).collect();
    assert!(names.iter().all(|it| is_tenant(it)));
    for name in &names {
        flood(queue, name, Priority::Normal, 3).await;
    }
    let count = |jobs: &[Job], name: &String| jobs.iter().filter(|it| *it.lane.tenant == **name).count();
    // Fewer than there are tenants, then more: the second goes on where the first left off.
    let first = queue.take((TENANTS / 4).into()).await.expect("take");
    assert!(names.iter().enumerate().all(|(nth, it)| count(&first, it) == usize::from(nth < TENANTS / 4)));
    let second = queue.take((TENANTS / 4 * 3 + 5).into()).await.expect("take");
    let both: Vec<Job> = first.iter().chain(&second).cloned().collect();
    assert_eq!(both.len(), TENANTS + 5);
    assert!(names.iter().enumerate().all(|(nth, it)| count(&both, it) == 1 + usize::from(nth < 5)));
    finish_all(queue, &both).await;
    empty(queue).await;
}

pub(super) async fn a_token_keeps_its_lane(queue: &dyn Queue) {
    let lane = Lane::new("acme", Priority::Low);
    let thread = Uuid::now_v7();
    let soon = || When::After(std::time::Duration::from_millis(5));
    queue.ring(thread, &lane, soon()).await.expect("ring");
    for next in [Some(When::Now), Some(When::NowAt(4)), Some(soon()), None] {
        let job = take_one(queue).await;
        assert_eq!((job.thread, &job.lane), (thread, &lane));
        finish(queue, &job, next).await;
    }
    // Whoever holds it may say that it has become more urgent.
    queue.ring(thread, &lane, When::Now).await.expect("ring");
    let job = take_one(queue).await;
    let urgent = Job { lane: lane.at(Priority::High), ..job };
    finish(queue, &urgent, Some(When::Now)).await;
    let job = take_one(queue).await;
    assert_eq!(job.lane, urgent.lane);
    finish(queue, &job, None).await;
    assert_empty(queue, "all were finished").await;
}
