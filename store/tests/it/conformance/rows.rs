//! Lists of threads and turns: their order, their pages, and their runnable threads.

use super::{decided, new_turn, of_tenant, opened, queued, turn_started};
use queue::{Lane, Priority};
use shared::{ThreadStatus, TurnStatus};
use store::{
    Error, NewTurn, Opening, PendingFilter, ReadModelUpdate, Runnable, Store, Thread, ThreadFilter, ThreadId,
    Turn, TurnFilter, TurnId, TurnUpdate, WaitReason, Withdrawal,
};

pub(super) async fn queue_in_order(store: &Store) -> Result<(), Error> {
    let (head, first) = opened(store).await?;
    let second = queued(store, first.thread, "second").await?;
    let third = queued(store, first.thread, "third").await?;
    let fourth = queued(store, first.thread, "fourth").await?;
    let next = async || Ok::<_, Error>(store.next_queued(first.thread).await?.map(|queued| queued.id));

    assert_eq!(next().await?, Some(first.id));
    let turn = Some(TurnUpdate { turn: first.id, status: TurnStatus::Running, error: None, outcome: None });
    store
        .append(&head, &[turn_started(&first)], Some(&ReadModelUpdate { status: ThreadStatus::Busy, turn }))
        .await?;
    assert_eq!(next().await?, Some(second.id));

    assert_eq!(store.cancel_queued(second.id).await?, Withdrawal::Withdrawn);
    assert_eq!(store.cancel_queued(second.id).await?, Withdrawal::TooLate(TurnStatus::Cancelled));
    assert_eq!(store.cancel_queued(first.id).await?, Withdrawal::TooLate(TurnStatus::Running));
    assert_eq!(next().await?, Some(third.id));

    assert_eq!(store.refuse_queued(third.id, "no request is pending").await?, Withdrawal::Withdrawn);
    let refused = store.turn(third.id).await?.map(|turn| (turn.status, turn.error, turn.started_seq));
    assert_eq!(refused, Some((TurnStatus::Failed, Some("no request is pending".to_owned()), None)));
    assert_eq!(next().await?, Some(fourth.id));

    let unknown = store.cancel_queued(first.thread).await;
    assert!(matches!(unknown, Err(Error::UnknownTurn(id)) if id == first.thread), "{unknown:?}");
    Ok(())
}

/// Concurrent lookups share a query; each gets its own turn.
pub(super) async fn are_looked_up_together(store: &Store) -> Result<(), Error> {
    let (_, first) = opened(store).await?;
    let mut ids = vec![first.id];
    for nth in 0..100 {
        ids.push(queued(store, first.thread, &format!("turn {nth}")).await?.id);
    }
    let turns = futures::future::try_join_all(ids.iter().map(|id| store.turn(*id))).await?;
    assert_eq!(
        turns.into_iter().map(|it| it.map(|it| it.id)).collect::<Vec<_>>(),
        ids.iter().map(|id| Some(*id)).collect::<Vec<_>>()
    );
    let (known, unknown, again) =
        tokio::join!(store.turn(ids[7]), store.turn(first.thread), store.turn(ids[7]));
    assert_eq!(
        (known?, again?.map(|turn| turn.id), unknown?),
        (store.turn(ids[7]).await?, Some(ids[7]), None)
    );
    Ok(())
}

pub(super) async fn are_listed_by_page(store: &Store) -> Result<(), Error> {
    let (head, first) = opened(store).await?;
    let second = queued(store, first.thread, "second").await?;
    let third = queued(store, first.thread, "third").await?;
    let ids = |turns: Vec<Turn>| turns.into_iter().map(|turn| turn.id).collect::<Vec<TurnId>>();
    let here = TurnFilter { thread: Some(first.thread), ..TurnFilter::default() };
    assert_eq!(ids(store.turns(here, None, 2).await?), [third.id, second.id]);
    assert_eq!(ids(store.turns(here, Some(second.id), 2).await?), [first.id]);
    store.cancel_queued(second.id).await?;
    let cancelled = TurnFilter { status: Some(TurnStatus::Cancelled), ..here };
    assert_eq!(ids(store.turns(cancelled, None, 9).await?), [second.id]);
    assert_eq!(ids(store.turns(TurnFilter::default(), None, 1).await?), [third.id]);
    let unknown = store.turns(here, Some(first.thread), 9).await;
    assert!(matches!(unknown, Err(Error::UnknownTurn(_))), "{unknown:?}");

    let (_, later) = opened(store).await?;
    let ids = |threads: Vec<Thread>| threads.into_iter().map(|thread| thread.id).collect::<Vec<ThreadId>>();
    assert_eq!(ids(store.threads(ThreadFilter::default(), None, 2).await?), [later.thread, first.thread]);
    assert_eq!(ids(store.threads(ThreadFilter::default(), Some(later.thread), 1).await?), [first.thread]);
    let stuck = ReadModelUpdate { status: ThreadStatus::Error, turn: None };
    store.append(&head, &[decided("stuck")], Some(&stuck)).await?;
    let errors = store
        .threads(ThreadFilter { status: Some(ThreadStatus::Error), ..ThreadFilter::default() }, None, 1)
        .await?;
    assert_eq!(ids(errors.clone()), [first.thread]);
    assert_eq!((errors[0].strategy.as_str(), errors[0].status), ("probe", ThreadStatus::Error));
    Ok(())
}

pub(super) async fn tell_who_waits_for_a_person(store: &Store) -> Result<(), Error> {
    let (asks_last, _) = opened(store).await?;
    let (asks_first, _) = opened(store).await?;
    let (is_busy, _) = opened(store).await?;
    let asks = ReadModelUpdate { status: ThreadStatus::Interrupted, turn: None };
    store.append(&asks_first, &[decided("first")], Some(&asks)).await?;
    let busy = ReadModelUpdate { status: ThreadStatus::Busy, turn: None };
    store.append(&is_busy, &[decided("busy")], Some(&busy)).await?;
    store.append(&asks_last, &[decided("last")], Some(&asks)).await?;

    let ids = |threads: &[Thread]| threads.iter().map(|thread| thread.id).collect::<Vec<ThreadId>>();
    let both = store.waiting(None, None, 2).await?;
    assert_eq!(ids(&both), [asks_last.thread, asks_first.thread], "who was asked last comes first");
    let last = &both[0];
    let next = store.waiting(None, Some((last.updated_at, last.id)), 1).await?;
    assert_eq!(ids(&next), [asks_first.thread]);
    assert_eq!(ids(&store.waiting(None, None, 1).await?), [asks_last.thread]);
    Ok(())
}

pub(super) async fn tell_what_can_move(store: &Store) -> Result<(), Error> {
    let (_, waits) = opened(store).await?;
    let (head, moves) = opened(store).await?;
    let (_, rests) = opened(store).await?;
    let turn = Some(TurnUpdate { turn: moves.id, status: TurnStatus::Running, error: None, outcome: None });
    store
        .append(&head, &[turn_started(&moves)], Some(&ReadModelUpdate { status: ThreadStatus::Busy, turn }))
        .await?;
    store.cancel_queued(rests.id).await?;
    queued(store, moves.thread, "both busy and waited for").await?;

    let filter = ThreadFilter::default();
    let before = store.threads(filter, Some(waits.thread), 1).await?.first().map(|thread| thread.id);
    let ids =
        |some: Vec<Runnable>| some.into_iter().map(|runnable| runnable.thread).collect::<Vec<ThreadId>>();
    assert_eq!(ids(store.runnable_after(before, 9).await?), [waits.thread, moves.thread]);
    assert_eq!(ids(store.runnable_after(before, 1).await?), [waits.thread]);
    assert_eq!(ids(store.runnable_after(Some(waits.thread), 9).await?), [moves.thread]);
    assert_eq!(store.runnable_after(None, 1).await?.len(), 1);
    let all = ids(store.runnable_after(None, 100_000).await?);
    assert!(all.contains(&waits.thread) && all.contains(&moves.thread) && !all.contains(&rests.thread));
    Ok(())
}

/// Every turn that has not ended has exactly one wait reason.
pub(super) async fn tell_what_they_wait_for(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "stances";
    let submit = async |thread: Option<ThreadId>, priority, due_at| {
        let new = NewTurn { priority, due_at, ..of_tenant(TENANT, "hello") };
        let new = match thread {
            Some(thread) => NewTurn { thread: Opening::Existing(thread), ..new },
            None => new,
        };
        Ok::<_, Error>(store.submit(new).await?.into_turn())
    };
    let (now, hour) = (queue::clock::now(), 3_600_000_000);
    let running = submit(None, Priority::Normal, None).await?;
    let behind = submit(Some(running.thread), Priority::High, None).await?;
    let mark = |status, turn: &Turn, turn_status| {
        let turn = TurnUpdate { turn: turn.id, status: turn_status, error: None, outcome: None };
        ReadModelUpdate { status, turn: Some(turn) }
    };
    let head = store.head(running.thread).await?;
    let busy = mark(ThreadStatus::Busy, &running, TurnStatus::Running);
    store.append(&head, &[turn_started(&running)], Some(&busy)).await?;
    let low = submit(None, Priority::Low, None).await?;
    let first = submit(Some(low.thread), Priority::High, Some(now - hour)).await?;
    let later = submit(Some(low.thread), Priority::High, Some(now + hour)).await?;
    let mut asked = Vec::new();
    for _ in 0..2 {
        let turn = submit(asked.first().map(|turn: &Turn| turn.thread), Priority::Normal, None).await?;
        let asks = mark(ThreadStatus::Interrupted, &turn, TurnStatus::Interrupted);
        store
            .append(&store.head(turn.thread).await?, &[turn_started(&turn), decided("asks")], Some(&asks))
            .await?;
        asked.push(turn);
    }
    submit(None, Priority::Normal, None).await.map(|turn| turn.id)?;
    let gone = submit(None, Priority::Normal, None).await?;
    store.cancel_queued(gone.id).await?;

    let of_tenant = PendingFilter { tenant: Some(TENANT), thread: None };
    let crowd = store.count_pending(of_tenant).await?;
    let told: Vec<(WaitReason, u64)> = crowd.iter().map(|(stance, group)| (*stance, group.turns)).collect();
    assert_eq!(
        told,
        [
            (WaitReason::Runnable, 3),
            (WaitReason::Behind, 2),
            (WaitReason::NotDue, 1),
            (WaitReason::AwaitingInput, 1)
        ]
    );
    assert!(crowd.values().all(|group| now <= group.since), "{crowd:?}");
    assert_eq!(crowd[&WaitReason::NotDue].due_at, Some(now + hour));
    for (stance, ids) in [
        (WaitReason::Runnable, vec![running.id, first.id]),
        (WaitReason::Behind, vec![behind.id, low.id]),
        (WaitReason::NotDue, vec![later.id]),
        (WaitReason::AwaitingInput, vec![asked[1].id]),
    ] {
        let found = store.pending_turns(stance, of_tenant, 2).await?;
        assert_eq!(found.iter().map(|pending| pending.turn).collect::<Vec<_>>(), ids, "{stance:?}");
        assert!(found.iter().all(|pending| pending.strategy == "probe" && pending.tenant == TENANT));
        assert!(
            found.iter().all(|pending| pending.is_asked == (stance == WaitReason::AwaitingInput)),
            "{found:?}"
        );
    }
    for (thread, ids) in [
        (running.thread, vec![(WaitReason::Runnable, running.id), (WaitReason::Behind, behind.id)]),
        (asked[1].thread, vec![(WaitReason::AwaitingInput, asked[1].id)]),
        (gone.thread, vec![]),
    ] {
        let of_thread = PendingFilter { thread: Some(thread), ..of_tenant };
        let counts: Vec<_> = store
            .count_pending(of_thread)
            .await?
            .into_iter()
            .map(|(reason, group)| (reason, group.turns))
            .collect();
        assert_eq!(counts, ids.iter().map(|(reason, _)| (*reason, 1)).collect::<Vec<_>>());
        for (reason, id) in ids {
            let found = store.pending_turns(reason, of_thread, 2).await?;
            assert_eq!(found.iter().map(|pending| pending.turn).collect::<Vec<_>>(), [id], "{reason:?}");
        }
        let of_other = PendingFilter { tenant: Some("another"), ..of_thread };
        assert!(store.count_pending(of_other).await?.is_empty(), "the thread of another tenant");
    }
    store.submit(new_turn("of another tenant")).await?;
    let all: u64 =
        store.count_pending(PendingFilter::default()).await?.values().map(|group| group.turns).sum();
    assert_eq!(all, 8, "the turns of all tenants");
    assert_eq!(store.queued(Some(TENANT), 100).await?, 5);
    assert_eq!(store.queued(Some(TENANT), 2).await?, 2, "nobody counts on");
    assert_eq!(store.queued(None, 1_000_000).await?, 6);
    Ok(())
}

/// A turn that is not due does not start, does not make its thread runnable, and does not block other turns of the
/// thread.
pub(super) async fn pass_over_what_is_not_due(store: &Store) -> Result<(), Error> {
    let (now, hour) = (queue::clock::now(), 3_600_000_000);
    let at =
        |due_at| NewTurn { due_at: Some(due_at), priority: Priority::High, ..of_tenant("acme", "later") };
    let late = store.submit(at(now + hour)).await?.into_turn();
    let thread = late.thread;
    assert_eq!(store.turn(late.id).await?.and_then(|turn| turn.due_at), Some(now + hour));
    let before = thread.as_u128().checked_sub(1).map(ThreadId::from_u128);
    let next = async || Ok::<_, Error>(store.next_queued(thread).await?.map(|queued| queued.id));
    let swept = async || {
        let swept = store.runnable_after(before, 1).await?.pop();
        Ok::<_, Error>(
            swept.filter(|runnable| runnable.thread == thread).map(|runnable| runnable.lane.priority),
        )
    };
    assert_eq!((next().await?, swept().await?), (None, None));
    let lane = store.lane(thread).await?.map(|lane| lane.priority);
    assert_eq!(lane, Some(Priority::Normal), "what is not due is not urgent");

    let soon = queued(store, thread, "at once").await?;
    assert_eq!((next().await?, swept().await?), (Some(soon.id), Some(Priority::Normal)));
    store.cancel_queued(soon.id).await?;
    let past = NewTurn { thread: Opening::Existing(thread), ..at(now - 1) };
    let past = store.submit(past).await?.into_turn();
    assert_eq!((next().await?, swept().await?), (Some(past.id), Some(Priority::High)));
    store.cancel_queued(past.id).await?;
    assert_eq!(store.cancel_queued(late.id).await?, Withdrawal::Withdrawn);
    assert_eq!((next().await?, swept().await?), (None, None));
    Ok(())
}

/// The running turn determines the priority of its thread, or else the turn that starts next.
pub(super) async fn tell_in_which_lane_they_wait(store: &Store) -> Result<(), Error> {
    use Priority::{High, Low, Normal};
    let new = |priority| NewTurn { priority, ..of_tenant("acme", "hello") };
    let first = store.submit(new(Low)).await?.into_turn();
    assert_eq!((first.tenant.as_str(), first.priority), ("acme", Low));
    let thread = first.thread;
    let more = async |priority| {
        let more = NewTurn { thread: Opening::Existing(thread), ..new(priority) };
        Ok::<_, Error>(store.submit(more).await?.into_turn())
    };
    let lane = async || {
        let before = thread.as_u128().checked_sub(1).map(ThreadId::from_u128);
        let swept = store.runnable_after(before, 1).await?.pop();
        let lane = store.lane(thread).await?;
        assert_eq!(swept.map(|it| (it.thread, it.lane)), lane.clone().map(|it| (thread, it)));
        Ok::<_, Error>(lane.map(|lane| (lane.tenant.to_string(), lane.priority)))
    };
    let acme = |priority| Some(("acme".to_owned(), priority));
    let next = async || Ok::<_, Error>(store.next_queued(thread).await?.map(|queued| queued.id));
    assert_eq!((lane().await?, next().await?), (acme(Low), Some(first.id)));
    let normal = more(Normal).await?;
    assert_eq!((lane().await?, next().await?), (acme(Normal), Some(normal.id)));
    let (high, last) = (more(High).await?, more(High).await?);
    assert_eq!((lane().await?, next().await?), (acme(High), Some(high.id)), "the older of two");
    assert_eq!((last.tenant.as_str(), last.priority), ("acme", High));

    let turn = Some(TurnUpdate { turn: first.id, status: TurnStatus::Running, error: None, outcome: None });
    let mark = ReadModelUpdate { status: ThreadStatus::Busy, turn };
    store.append(&store.head(thread).await?, &[turn_started(&first)], Some(&mark)).await?;
    assert_eq!(lane().await?, acme(Low), "what is under way is not urgent");
    assert_eq!(store.lane(first.id).await?, None);
    let (_, other) = opened(store).await?;
    assert_eq!(store.lane(other.thread).await?, Some(Lane::default()));
    Ok(())
}

pub(super) async fn are_listed_by_tenant(store: &Store) -> Result<(), Error> {
    let mine = store.submit(of_tenant("ada", "hello")).await?.into_turn();
    let theirs = store.submit(of_tenant("bob", "hello")).await?.into_turn();
    let more = queued(store, mine.thread, "more").await?;
    assert_eq!(more.tenant, "ada", "a turn is its thread's tenant's");
    let asks = ReadModelUpdate { status: ThreadStatus::Interrupted, turn: None };
    for thread in [mine.thread, theirs.thread] {
        store.append(&store.head(thread).await?, &[decided("asks")], Some(&asks)).await?;
    }
    for (tenant, turns, thread) in [
        ("ada", vec![more.id, mine.id], Some(mine.thread)),
        ("bob", vec![theirs.id], Some(theirs.thread)),
        ("nobody", vec![], None),
    ] {
        let filter = TurnFilter { tenant: Some(tenant), ..TurnFilter::default() };
        let found = store.turns(filter, None, 9).await?;
        assert_eq!(found.iter().map(|turn| turn.id).collect::<Vec<_>>(), turns, "{tenant}");
        let filter = ThreadFilter { tenant: Some(tenant), ..ThreadFilter::default() };
        let ids =
            |threads: Vec<Thread>| threads.into_iter().map(|thread| thread.id).collect::<Vec<ThreadId>>();
        let thread = Vec::from_iter(thread);
        assert_eq!(ids(store.threads(filter, None, 9).await?), thread, "{tenant}");
        assert_eq!(ids(store.waiting(Some(tenant), None, 9).await?), thread, "{tenant}");
    }
    Ok(())
}

pub(super) async fn are_counted(store: &Store) -> Result<(), Error> {
    let before = store.counts().await?;
    let (head, turn) = opened(store).await?;
    store.append(&head, &[decided(1), decided(2)], None).await?;
    store.cancel_queued(turn.id).await?;
    let after = store.counts().await?;
    assert_eq!(after.events, before.events + 3);
    let cancelled =
        |counts: &store::Counts| counts.turns.get(&TurnStatus::Cancelled).copied().unwrap_or_default();
    assert_eq!(cancelled(&after), cancelled(&before) + 1);
    Ok(())
}

on_databases! {
    distributed:
    queue_in_order,
    are_looked_up_together,
    are_listed_by_page,
    tell_what_can_move,
    tell_in_which_lane_they_wait,
    pass_over_what_is_not_due,
    tell_what_they_wait_for,
    are_listed_by_tenant,
    tell_who_waits_for_a_person,
    are_counted,
}
