//! The order in which waiting jobs are claimed.

use std::{collections::BTreeMap, time::Duration};

use queue::{Depth, Job, Lane, Priority, Queue, Schedule, is_valid_tenant};
use uuid::Uuid;

use super::{Backend, LONG, ack, ack_all, assert_empty, claim_one, depth};

crate::conformance::checks! {
    high_priority_comes_first_within_a_tenant,
    a_flood_delays_other_tenants_by_one_turn,
    tenants_are_served_by_weight,
    many_tenants_take_turns_within_one_claim,
    a_job_keeps_its_lane,
}

const FLOOD: usize = 10_000;

/// Waits until no consumer is registered as waiting, so that jobs enqueued from now on wait in lanes.
async fn end_earlier_waits(queue: &dyn Queue) {
    assert_eq!(queue.claim(1.into()).await.expect("claim"), [], "the queue is empty");
}

async fn flood(queue: &dyn Queue, tenant: &str, priority: Priority, jobs: usize) {
    let lane = Lane::new(tenant, priority);
    for _ in 0..jobs {
        queue.enqueue(Uuid::now_v7(), &lane, Schedule::Now).await.expect("enqueue");
    }
}

/// Claims jobs one by one and returns their tenants.
async fn claim_tenants(queue: &dyn Queue, jobs: usize) -> Vec<String> {
    let mut tenants = Vec::new();
    for _ in 0..jobs {
        let job = claim_one(queue).await;
        tenants.push(job.lane.tenant.to_string());
        ack(queue, &job, None).await;
    }
    tenants
}

async fn drain(queue: &dyn Queue) {
    while depth(queue).await != Depth::default() {
        ack_all(queue, &queue.claim(1000.into()).await.expect("claim")).await;
    }
}

async fn high_priority_comes_first_within_a_tenant(backend: &Backend) {
    let queue = &*backend.ada().await;
    end_earlier_waits(queue).await;
    let [low, normal, high] = [Priority::Low, Priority::Normal, Priority::High];
    let mut threads = Vec::new();
    for priority in [low, normal, high, low, normal, high] {
        let thread = Uuid::now_v7();
        queue.enqueue(thread, &Lane::new("acme", priority), Schedule::Now).await.expect("enqueue");
        threads.push(thread);
    }
    let mut jobs = Vec::new();
    while jobs.len() < 6 {
        let job = claim_one(queue).await;
        ack(queue, &job, None).await;
        jobs.push(job);
    }
    let order: Vec<Uuid> = jobs.iter().map(|job| job.thread).collect();
    assert_eq!(order, [2, 5, 1, 4, 0, 3].map(|nth: usize| threads[nth]), "by priority, then by age");
    let priorities: Vec<Priority> = jobs.iter().map(|job| job.lane.priority).collect();
    assert_eq!(priorities, [high, high, normal, normal, low, low]);
    assert_empty(queue).await;
}

async fn a_flood_delays_other_tenants_by_one_turn(backend: &Backend) {
    let (ada, bob) = backend.ada_and_bob(LONG).await;
    end_earlier_waits(&*ada).await;
    flood(&*ada, "flood", Priority::High, FLOOD).await;
    let claimed = [claim_one(&*ada).await, claim_one(&*ada).await];
    flood(&*ada, "lone", Priority::Low, 1).await;
    // All consumers share the turns.
    let next = [claim_one(&*bob).await, claim_one(&*ada).await];
    let lone = next.iter().filter(|job| &*job.lane.tenant == "lone").count();
    assert_eq!(lone, 1, "the lone job is one of the next two: {next:?}");
    ack_all(&*ada, &claimed).await;
    ack(&*bob, &next[0], None).await;
    ack(&*ada, &next[1], None).await;
    assert_eq!(depth(&*ada).await, Depth { waiting: FLOOD as u64 - 3, ..Depth::default() });
    drain(&*ada).await;
}

async fn tenants_are_served_by_weight(backend: &Backend) {
    let (ada, bob) = backend.ada_and_bob(LONG).await;
    end_earlier_waits(&*ada).await;
    flood(&*ada, "light", Priority::Normal, 50).await;
    flood(&*ada, "heavy", Priority::Normal, 50).await;
    let mut served: Vec<String> = Vec::new();
    for nth in 0..20 {
        served.extend(claim_tenants(if nth % 2 == 0 { &*ada } else { &*bob }, 2).await);
    }
    let turns = ["light", "heavy", "heavy", "heavy"];
    assert!(served.chunks(4).all(|round| round == turns), "1 : 3, whichever consumer claims: {served:?}");
    // Larger claims, too, which end in the middle of a turn.
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for slots in [3, 5, 6, 2] {
        let jobs = ada.claim(slots.into()).await.expect("claim");
        assert_eq!(jobs.len(), slots);
        for job in &jobs {
            *count.entry(job.lane.tenant.to_string()).or_default() += 1;
        }
        ack_all(&*ada, &jobs).await;
    }
    assert_eq!(count, BTreeMap::from([("light".to_owned(), 4), ("heavy".to_owned(), 12)]));
    drain(&*ada).await;
}

async fn many_tenants_take_turns_within_one_claim(backend: &Backend) {
    const TENANTS: usize = 40;
    let queue = &*backend.ada().await;
    end_earlier_waits(queue).await;
    let names: Vec<String> = (0..TENANTS).map(|nth| format!("tenant-{nth:02}")).collect();
    assert!(names.iter().all(|name| is_valid_tenant(name)));
    for name in &names {
        flood(queue, name, Priority::Normal, 3).await;
    }
    let count = |jobs: &[Job], name: &String| jobs.iter().filter(|job| *job.lane.tenant == **name).count();
    // First fewer jobs than tenants, then more: the second claim continues where the first stopped.
    let first = queue.claim((TENANTS / 4).into()).await.expect("claim");
    assert!(
        names.iter().enumerate().all(|(nth, name)| count(&first, name) == usize::from(nth < TENANTS / 4))
    );
    let second = queue.claim((TENANTS / 4 * 3 + 5).into()).await.expect("claim");
    let both: Vec<Job> = first.iter().chain(&second).cloned().collect();
    assert_eq!(both.len(), TENANTS + 5);
    assert!(names.iter().enumerate().all(|(nth, name)| count(&both, name) == 1 + usize::from(nth < 5)));
    ack_all(queue, &both).await;
    drain(queue).await;
}

async fn a_job_keeps_its_lane(backend: &Backend) {
    let queue = &*backend.ada().await;
    let lane = Lane::new("acme", Priority::Low);
    let thread = Uuid::now_v7();
    let soon = || Schedule::After(Duration::from_millis(5));
    queue.enqueue(thread, &lane, soon()).await.expect("enqueue");
    for next in [Some(Schedule::Now), Some(Schedule::NowAtSeq(4)), Some(soon()), None] {
        let job = claim_one(queue).await;
        assert_eq!((job.thread, &job.lane), (thread, &lane));
        ack(queue, &job, next).await;
    }
    // The holder may move the successor to another lane.
    queue.enqueue(thread, &lane, Schedule::Now).await.expect("enqueue");
    let job = claim_one(queue).await;
    let urgent = Job { lane: Lane::new("acme", Priority::High), ..job };
    ack(queue, &urgent, Some(Schedule::Now)).await;
    let job = claim_one(queue).await;
    assert_eq!(job.lane, urgent.lane);
    ack(queue, &job, None).await;
    assert_empty(queue).await;
}
