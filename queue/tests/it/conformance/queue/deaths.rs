//! Deaths: consumers that lost a job are counted, until it is acknowledged.

use queue::{Deaths, EntryState, Job, Queue, Schedule};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{
    Backend, SHORT, TIMEOUT, ack, assert_empty, claim_one, depth, enqueue, leases::while_renewing, renew,
};

crate::conformance::checks! {
    every_lost_lease_is_counted_until_the_job_is_acknowledged,
    jobs_that_two_consumers_lost_are_held_one_at_a_time,
}

async fn every_lost_lease_is_counted_until_the_job_is_acknowledged(backend: &Backend) {
    let thread = Uuid::now_v7();
    let observer = backend.consumer("observer", SHORT).await;
    enqueue(&*observer, thread, Schedule::NowAtSeq(7)).await;
    let mut before: Option<Job> = None;
    for (count, name) in (0..).zip(["ada", "bob", "cid", "dan"]) {
        let consumer = backend.consumer(name, SHORT).await;
        let job = claim_one(&*consumer).await;
        let last = before.as_ref().map(|_| ["ada", "bob", "cid"][count - 1].to_owned());
        let deaths = last.map(|last| Deaths { count: count as u64, last });
        assert_eq!(job.deaths, deaths, "claimed by {name}");
        assert_eq!((job.thread, job.head), (thread, Some(7)));
        assert!(before.is_none_or(|earlier| earlier.token == job.token));
        let EntryState::InFlight { consumer, deaths, .. } = &observer.list(1).await.expect("list")[0].state
        else {
            panic!("not in flight")
        };
        assert_eq!((consumer.as_str(), *deaths), (name, count as u64));
        before = Some(job);
    }
    let dan = backend.consumer("dan", SHORT).await;
    let held = before.expect("dan's job");
    for _ in 0..6 {
        sleep(SHORT / 4).await;
        assert_eq!(renew(&*dan, std::slice::from_ref(&held)).await, [], "a renewed lease is not a death");
    }
    ack(&*dan, &held, Some(Schedule::Now)).await;
    let successor = claim_one(&*dan).await;
    assert_eq!(successor.thread, thread);
    assert_eq!(successor.deaths, None, "a successor starts without deaths");
    ack(&*dan, &successor, None).await;
    assert_empty(&*observer).await;
}

/// Of several jobs that died together twice, one killed its consumers. The others must not die with it a third time.
async fn jobs_that_two_consumers_lost_are_held_one_at_a_time(backend: &Backend) {
    const JOBS: usize = 3;
    let ada = backend.consumer("ada", SHORT).await;
    for _ in 0..JOBS {
        enqueue(&*ada, Uuid::now_v7(), Schedule::Now).await;
    }
    for (name, deaths) in [("ada", 0), ("bob", 1)] {
        let consumer = backend.consumer(name, SHORT).await;
        let jobs = claim_all(&*consumer, JOBS).await;
        assert!(jobs.iter().all(|it| it.deaths.as_ref().map_or(0, |it| it.count) == deaths), "{jobs:?}");
    }
    let cid = backend.consumer("cid", SHORT).await;
    let mut held = claim_one(&*cid).await;
    for left in (1..JOBS as u64).rev() {
        assert_eq!(held.deaths, Some(Deaths { count: 2, last: "bob".to_owned() }));
        let more = while_renewing(&*cid, std::slice::from_ref(&held), cid.claim(9.into())).await;
        assert_eq!(more.expect("claim"), [], "cid holds one of these jobs already");
        ack(&*cid, &held, None).await;
        held = claim_one(&*cid).await;
        assert_eq!(depth(&*cid).await.in_flight, left);
    }
    ack(&*cid, &held, None).await;
    assert_empty(&*cid).await;
}

async fn claim_all(consumer: &dyn Queue, count: usize) -> Vec<Job> {
    let (began, mut jobs) = (Instant::now(), Vec::new());
    while jobs.len() < count {
        jobs.extend(consumer.claim((count - jobs.len()).into()).await.expect("claim"));
        assert!(began.elapsed() < TIMEOUT, "{} of {count} jobs", jobs.len());
    }
    jobs
}
