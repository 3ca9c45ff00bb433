//! What every doorbell must do. An implementation passes when [`queue_conformance`] returns.

mod delays;
mod fairness;
mod leases;

use std::{
    collections::BTreeSet,
    slice::from_ref as one,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{
    Depth, HeldBy, Job, LONGEST_WAIT, Lane, Listed, Place, Priority, Queue, Room, WHY_MAX, Weights, When,
};
pub use crate::news::testing::news_conformance;

/// A lease that no check outlives.
const LONG: Duration = Duration::from_secs(60);

/// A lease to be waited for, and long enough to be renewed in time on a busy machine.
const SHORT: Duration = Duration::from_millis(400);

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Checks a doorbell. `make` gives the consumer of that name and lease, for whom tenants weigh so; consumers of one lease
/// share their tokens, and there are none at first. Each check leaves none behind.
///
/// # Panics
///
/// When the doorbell does not keep a promise; the words say which.
pub async fn queue_conformance(make: impl AsyncFn(&str, Duration, Weights) -> Arc<dyn Queue>) {
    let weights = || Weights::new([("heavy".to_owned(), 3)]);
    let (ada, bob) = (make("ada", LONG, weights()).await, make("bob", LONG, weights()).await);
    a_ring_is_taken_and_finished(&*ada).await;
    no_more_is_taken_than_asked_for(&*ada).await;
    a_take_waits_for_room(&*ada).await;
    a_take_without_rings_comes_back(&*ada).await;
    delays::who_is_at_a_thread_puts_its_ring_off(&*ada).await;
    a_finish_may_ring_again(&*ada).await;
    a_head_travels_with_its_ring(&*ada).await;
    many_are_finished_side_by_side(&ada).await;
    delays::delays_fire_in_order_and_not_early(&*ada).await;
    delays::a_waiting_take_hears_a_delay_in_time(Arc::clone(&ada)).await;
    a_waiting_take_hears_a_ring_at_once(&ada, &bob).await;
    delays::the_earlier_of_two_delays_wins(&*ada).await;
    everything_that_was_rung_is_listed(&*ada).await;
    each_token_is_taken_once(&ada, &bob).await;
    many_are_rung_in_order(&*ada).await;
    fairness::the_most_urgent_of_a_tenant_comes_first(&*ada).await;
    fairness::a_flood_delays_others_by_one_turn(&*ada, &*bob).await;
    fairness::tenants_are_served_by_their_weights(&*ada, &*bob).await;
    fairness::many_tenants_take_turns_within_one_take(&*ada).await;
    fairness::a_token_keeps_its_lane(&*ada).await;
    a_token_that_is_finished_twice_at_once_has_one_successor(&ada).await;
    whoever_looks_finds_every_token(&*ada).await;
    let (ada, bob) = (make("ada", SHORT, weights()).await, make("bob", SHORT, weights()).await);
    leases::another_holder_is_seen(&*ada, &*bob).await;
    leases::an_expired_lease_moves_the_token(&*ada, &*bob).await;
    leases::who_waits_for_room_takes_over_first(&*ada, &*bob).await;
    leases::a_renewed_lease_stays(&*ada, &*bob).await;
    leases::live_leases_do_not_hide_expired_ones(&*ada, &*bob).await;
    leases::a_consumer_is_given_its_own_expired_token(&*ada).await;
}

async fn a_ring_is_taken_and_finished(queue: &dyn Queue) {
    let thread = Uuid::now_v7();
    ring(queue, thread, When::Now).await;
    assert_eq!(depth(queue).await, Depth { waiting: 1, ..Depth::default() });
    let job = take_one(queue).await;
    assert_eq!(job.thread, thread, "the token names its thread");
    assert_eq!(depth(queue).await, Depth { in_flight: 1, ..Depth::default() });
    assert_eq!(lost(queue, one(&job)).await, [], "a fresh lease is held");
    finish(queue, &job, None).await;
    assert_eq!(lost(queue, one(&job)).await, one(&job), "a finished token is lost");
    finish(queue, &job, Some(When::Now)).await;
    assert_empty(queue, "a token that is finished twice has no successor").await;
}

async fn many_are_rung_in_order(queue: &dyn Queue) {
    let lane = Lane::new("acme", Priority::Low);
    let threads: Vec<Uuid> = (0..1500).map(|_| Uuid::now_v7()).collect();
    queue.ring_many(&threads, &lane).await.expect("ring");
    queue.ring_many(&[], &lane).await.expect("nobody is nothing");
    let mut taken = Vec::new();
    while taken.len() < threads.len() {
        let jobs = queue.take(1000.into()).await.expect("take");
        assert!(jobs.iter().all(|it| it.lane == lane));
        finish_all(queue, &jobs).await;
        taken.extend(jobs.into_iter().map(|it| it.thread));
    }
    assert_eq!(taken, threads);
}

async fn no_more_is_taken_than_asked_for(queue: &dyn Queue) {
    for _ in 0..5 {
        ring(queue, Uuid::now_v7(), When::Now).await;
    }
    assert_eq!(queue.take(0.into()).await.expect("take nothing"), [], "who has no room is given nothing");
    let mut jobs = queue.take(2.into()).await.expect("take two");
    assert!((1..=2).contains(&jobs.len()), "took {} for 2", jobs.len());
    while jobs.len() < 5 {
        jobs.push(take_one(queue).await);
    }
    finish_all(queue, &jobs).await;
    assert_empty(queue, "all were finished").await;
}

async fn a_take_waits_for_room(queue: &dyn Queue) {
    let thread = Uuid::now_v7();
    ring(queue, thread, When::Now).await;
    let slots = Room::from(1);
    let slot = slots.fill().await;
    let comes_free = async {
        sleep(SHORT).await;
        assert_eq!(depth(queue).await.waiting, 1, "there is no room for it");
        drop(slot);
    };
    let (jobs, ()) = tokio::join!(queue.take(slots.clone()), comes_free);
    let jobs = jobs.expect("take");
    assert_eq!(jobs.iter().map(|it| it.thread).collect::<Vec<_>>(), [thread]);
    finish(queue, &jobs[0], Some(When::Now)).await;

    let slot = slots.fill().await;
    let is_closed = async {
        sleep(SHORT / 4).await;
        slots.close();
        drop(slot);
    };
    let began = Instant::now();
    let (jobs, ()) = tokio::join!(queue.take(slots.clone()), is_closed);
    assert_eq!((jobs.expect("take"), depth(queue).await.waiting), (vec![], 1), "there is no room any more");
    assert!(began.elapsed() < LONGEST_WAIT, "who has closed the room need not wait");
    finish(queue, &take_one(queue).await, None).await;
}

async fn a_take_without_rings_comes_back(queue: &dyn Queue) {
    let began = Instant::now();
    assert_eq!(queue.take(1.into()).await.expect("take"), [], "there is nothing to take");
    let waited = began.elapsed();
    assert!(waited > Duration::from_millis(500), "it waits and does not spin: {waited:?}");
    assert!(waited < PATIENCE, "it comes back: {waited:?}");
}

async fn a_finish_may_ring_again(queue: &dyn Queue) {
    let thread = Uuid::now_v7();
    ring(queue, thread, When::Now).await;
    let first = take_one(queue).await;
    finish(queue, &first, Some(When::Now)).await;
    let second = take_one(queue).await;
    assert_eq!(second.thread, thread);
    assert_ne!(second.token, first.token, "a successor is a new token");
    let began = Instant::now();
    finish(queue, &second, Some(When::After(Duration::from_millis(150)))).await;
    assert_eq!(depth(queue).await, Depth { delayed: 1, ..Depth::default() });
    let third = take_one(queue).await;
    assert_eq!(third.thread, thread);
    assert!(began.elapsed() >= Duration::from_millis(150), "a delayed successor is not early");
    finish(queue, &third, None).await;
    assert_empty(queue, "the last had no successor").await;
}

async fn a_head_travels_with_its_ring(queue: &dyn Queue) {
    let thread = Uuid::now_v7();
    ring(queue, thread, When::NowAt(7)).await;
    let first = take_one(queue).await;
    assert_eq!((first.thread, first.head), (thread, Some(7)));
    finish(queue, &first, Some(When::NowAt(8))).await;
    let second = take_one(queue).await;
    assert_eq!((second.thread, second.head), (thread, Some(8)));
    finish(queue, &second, Some(When::Now)).await;
    let third = take_one(queue).await;
    assert_eq!((third.thread, third.head), (thread, None));
    finish(queue, &third, None).await;
    assert_empty(queue, "the last had no successor").await;
}

async fn many_are_finished_side_by_side(queue: &Arc<dyn Queue>) {
    const MANY: usize = 300;
    let threads: BTreeSet<Uuid> = (0..MANY).map(|_| Uuid::now_v7()).collect();
    for thread in &threads {
        ring(&**queue, *thread, When::Now).await;
    }
    let mut jobs = Vec::new();
    while jobs.len() < MANY {
        jobs.extend(queue.take(MANY.into()).await.expect("take"));
    }
    let finishing = jobs.iter().enumerate().map(|(nth, job)| {
        let next = (nth % 2 == 0).then_some(When::NowAt(nth as u64));
        finish(&**queue, job, next)
    });
    futures::future::join_all(finishing).await;
    assert_eq!(depth(&**queue).await, Depth { waiting: MANY as u64 / 2, ..Depth::default() });
    while depth(&**queue).await.waiting > 0 {
        for job in queue.take(MANY.into()).await.expect("take") {
            let nth = jobs.iter().position(|it| it.thread == job.thread).expect("one of them");
            assert_eq!(job.head, Some(nth as u64), "each has its own successor");
            finish(&**queue, &job, None).await;
        }
    }
    assert_empty(&**queue, "the last had no successor").await;
}

/// Whoever waits already is woken, and not only when the wait is over anyway; and so is who waits beside them.
async fn a_waiting_take_hears_a_ring_at_once(ada: &Arc<dyn Queue>, bob: &Arc<dyn Queue>) {
    const ROUNDS: u32 = 6;
    let mut waited = Duration::ZERO;
    for _ in 0..ROUNDS {
        let taking = [ada, bob].map(|queue| {
            let queue = Arc::clone(queue);
            tokio::spawn(async move {
                let job = take_one(&*queue).await;
                (queue, job)
            })
        });
        // So that they wait by now; if they do not, the check is easier, and no less true.
        sleep(Duration::from_millis(50)).await;
        let began = Instant::now();
        for _ in 0..2 {
            ring(&**ada, Uuid::now_v7(), When::Now).await;
        }
        for taken in taking {
            let (queue, job) = taken.await.expect("a taker");
            finish(&*queue, &job, None).await;
        }
        waited += began.elapsed();
    }
    assert!(waited < ROUNDS * Duration::from_millis(400), "{ROUNDS} times two rings took {waited:?}");
    assert_empty(&**ada, "all were finished").await;
}

async fn everything_that_was_rung_is_listed(queue: &dyn Queue) {
    let [held, waiting, delayed] = [(); 3].map(|()| Uuid::now_v7());
    ring(queue, held, When::Now).await;
    let job = take_one(queue).await;
    ring(queue, waiting, When::Now).await;
    ring(queue, delayed, When::After(Duration::from_millis(200))).await;
    let rung = queue.rung().await.expect("list");
    let all = [held, waiting, delayed];
    assert_eq!(all.map(|it| rung.has(it)), [Some(true); 3]);
    assert_eq!(rung.has(Uuid::now_v7()), Some(false));
    assert_eq!(depth(queue).await, Depth { waiting: 1, in_flight: 1, delayed: 1 });
    finish_all(queue, &[job, take_one(queue).await, take_one(queue).await]).await;
    assert_eq!(queue.rung().await.expect("list").has(held), Some(false));
    assert_empty(queue, "all were finished").await;
}

async fn each_token_is_taken_once(ada: &Arc<dyn Queue>, bob: &Arc<dyn Queue>) {
    const RINGS: usize = 500;
    let threads: BTreeSet<Uuid> = (0..RINGS).map(|_| Uuid::now_v7()).collect();
    let count = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let takers = [ada, bob].map(|queue| {
        let (queue, count) = (Arc::clone(queue), Arc::clone(&count));
        tokio::spawn(async move {
            let mut taken = Vec::new();
            while count.load(Ordering::SeqCst) < RINGS {
                assert!(began.elapsed() < PATIENCE, "not every token was taken: {count:?} of {RINGS}");
                for job in queue.take(7.into()).await.expect("take") {
                    finish(&*queue, &job, None).await;
                    taken.push(job.thread);
                    count.fetch_add(1, Ordering::SeqCst);
                }
            }
            taken
        })
    });
    for thread in &threads {
        ring(&**ada, *thread, When::Now).await;
    }
    let mut taken = Vec::new();
    for taker in takers {
        taken.extend(taker.await.expect("a taker"));
    }
    assert_eq!(taken.len(), RINGS, "no token is taken twice");
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), threads, "and none is forgotten");
    assert_empty(&**ada, "all were finished").await;
}

async fn a_token_that_is_finished_twice_at_once_has_one_successor(queue: &Arc<dyn Queue>) {
    ring(&**queue, Uuid::now_v7(), When::Now).await;
    let job = take_one(&**queue).await;
    let finishing = (0..8).map(|nth| {
        let next = if nth % 2 == 0 { When::Now } else { When::NowAt(nth) };
        finish(&**queue, &job, Some(next))
    });
    futures::future::join_all(finishing).await;
    assert_eq!(depth(&**queue).await, Depth { waiting: 1, ..Depth::default() });
    finish(&**queue, &take_one(&**queue).await, None).await;
    assert_empty(&**queue, "there was one successor").await;
}

async fn whoever_looks_finds_every_token(queue: &dyn Queue) {
    assert_eq!(queue.list(9).await.expect("list"), []);
    let [held, first, second, delayed, held_back] = [(); 5].map(|()| Uuid::now_v7());
    let lane = Lane::new("acme", Priority::High);
    queue.ring(held, &lane, When::NowAt(3)).await.expect("ring");
    let job = take_one(queue).await;
    for thread in [first, second] {
        queue.ring(thread, &lane, When::Now).await.expect("ring");
    }
    let hour = Duration::from_secs(3600);
    ring(queue, delayed, When::After(hour)).await;
    // Cut where a letter ends.
    let why = format!("{}ü and more", "w".repeat(WHY_MAX - 1));
    let late = When::Held { after: 2 * hour, why: HeldBy::Limit.because("a later one does not count") };
    let soon = When::Held { after: hour + Duration::from_secs(60), why: HeldBy::Pause.because(why) };
    for when in [late.clone(), soon, late] {
        queue.ring(held_back, &lane, when).await.expect("ring");
    }
    let listed = queue.list(9).await.expect("list");
    let of = |place: &Listed| (place.thread, place.lane.clone());
    let default = Lane::default();
    let wanted = [held, first, second, delayed, held_back]
        .map(|it| (it, if it == delayed { default.clone() } else { lane.clone() }));
    assert_eq!(listed.iter().map(of).collect::<Vec<_>>(), wanted);
    let places: Vec<&Place> = listed.iter().map(|it| &it.place).collect();
    let Place::InFlight { consumer, unrenewed } = places[0] else { panic!("{places:?}") };
    assert!(consumer == "ada" && *unrenewed < PATIENCE, "{places:?}");
    assert_eq!(places[1..3], [&Place::Waiting { position: 0 }, &Place::Waiting { position: 1 }]);
    let Place::Delayed { due_in, why: None } = places[3] else { panic!("{places:?}") };
    // Redis counts whole milliseconds.
    let hour_at_most = hour + Duration::from_millis(5);
    assert!(*due_in <= hour_at_most && hour < *due_in + PATIENCE, "{places:?}");
    let Place::Delayed { due_in, why: Some(why) } = places[4] else { panic!("{places:?}") };
    assert!(hour < *due_in && *due_in < 2 * hour, "the earliest counts: {places:?}");
    assert_eq!(*why, HeldBy::Pause.because("w".repeat(WHY_MAX - 1)), "as much as is kept");
    assert_eq!(queue.list(2).await.expect("list").iter().map(of).collect::<Vec<_>>(), wanted[..2]);
    assert_eq!(queue.list(0).await.expect("list"), []);

    for thread in [delayed, held_back] {
        ring(queue, thread, When::After(Duration::from_millis(1))).await;
    }
    finish(queue, &job, None).await;
    for _ in 0..4 {
        finish(queue, &take_one(queue).await, None).await;
    }
    assert_eq!(queue.list(9).await.expect("list"), []);
    assert_empty(queue, "all were finished").await;
}

async fn ring(queue: &dyn Queue, thread: Uuid, when: When) {
    queue.ring(thread, &Lane::default(), when).await.expect("ring");
}

async fn take_one(queue: &dyn Queue) -> Job {
    let began = Instant::now();
    loop {
        let mut jobs = queue.take(1.into()).await.expect("take");
        assert!(jobs.len() <= 1, "asked for one, given {}", jobs.len());
        if let Some(job) = jobs.pop() {
            return job;
        }
        assert!(began.elapsed() < PATIENCE, "there was nothing to take for {PATIENCE:?}");
    }
}

async fn finish(queue: &dyn Queue, job: &Job, next: Option<When>) {
    queue.finish(job, next).await.expect("finish");
}

async fn finish_all(queue: &dyn Queue, jobs: &[Job]) {
    for job in jobs {
        finish(queue, job, None).await;
    }
}

async fn lost(queue: &dyn Queue, jobs: &[Job]) -> Vec<Job> {
    queue.renew(jobs).await.expect("renew")
}

async fn depth(queue: &dyn Queue) -> Depth {
    queue.len().await.expect("measure")
}

async fn assert_empty(queue: &dyn Queue, why: &str) {
    assert_eq!(depth(queue).await, Depth::default(), "{why}");
}
