//! Schedules on every engine: due in turn, advanced once, and stopped.

use queue::clock;
use shared::{MissedFirings, ScheduleTarget};

use store::{
    Error, Store,
    schedules::{Firing, Holder, MOST_SCHEDULES, Schedule, Stopped},
};

pub(super) fn due(tenant: &str, ago: i64) -> Schedule {
    Schedule {
        id: clock::new_id(),
        tenant: tenant.to_owned(),
        holder: Holder { key: Some("tf_0".to_owned()), is_operator: false },
        author: "me".to_owned(),
        name: String::new(),
        cron: "* * * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed: MissedFirings::All,
        target: ScheduleTarget::Turn,
        body: "{\"input\": 1}".to_owned(),
        created_at: clock::now(),
        next_at: clock::now() - ago,
        stopped: None,
        last: None,
    }
}

pub(super) async fn many_of_one_tenant_do_not_delay_those_of_others(store: &Store) -> Result<(), Error> {
    for _ in 0..MOST_SCHEDULES {
        assert!(store.add_schedule(&due("many", 9_000_000), "ada").await?);
    }
    assert!(!store.add_schedule(&due("many", 9_000_000), "ada").await?, "the limit is reached");
    let few = due("few", 1_000_000);
    assert!(store.add_schedule(&few, "ada").await?);
    assert!(store.add_schedule(&due("later", -60_000_000), "ada").await?);
    let first = store.due_schedules(2).await?;
    assert!(first.contains(&few), "{first:?}");
    assert_eq!(store.due_schedules(1_000).await?.len() as u64, MOST_SCHEDULES + 1);
    assert_eq!(store.schedules(Some("few"), None, 10).await?, [few]);
    Ok(())
}

pub(super) async fn a_firing_is_recorded_by_the_first_process(store: &Store) -> Result<(), Error> {
    let schedule = due("a", 1_000_000);
    assert!(store.add_schedule(&schedule, "ada").await?);
    let next = schedule.next_at + 60_000_000;
    let fired = |id: &str| Some(Firing { at: schedule.next_at, outcome: Ok(id.to_owned()) });
    store.retry_schedule(&schedule, clock::now() + 60_000_000).await?;
    assert!(store.due_schedules(10).await?.is_empty(), "it waits for its next attempt");
    store.advance_schedule(&schedule, fired("first"), next).await?;
    store.advance_schedule(&schedule, fired("second"), next + 60_000_000).await?;
    let now = store.schedule(schedule.id).await?.expect("it is stored");
    assert_eq!((now.next_at, &now.last), (next, &fired("first")));

    store.pause_schedule(schedule.id, "ada").await?;
    let failed = Some(Firing { at: next, outcome: Err("refused".to_owned()) });
    store.advance_schedule(&now, failed.clone(), 1).await?;
    let paused = store.schedule(schedule.id).await?.expect("it is stored");
    assert_eq!((&paused.stopped, &paused.last), (&Some(Stopped::Paused), &failed));
    assert!(store.due_schedules(10).await?.is_empty(), "a paused schedule stays paused");

    let holder = Holder { key: None, is_operator: true };
    store.resume_schedule(schedule.id, &holder, 2, "ada").await?;
    let resumed = store.due_schedules(10).await?;
    assert_eq!((resumed[0].next_at, &resumed[0].holder), (2, &holder));
    assert!(store.remove_schedule(schedule.id, "ada").await?);
    assert!(!store.remove_schedule(schedule.id, "ada").await?);
    Ok(())
}

on_databases!(many_of_one_tenant_do_not_delay_those_of_others, a_firing_is_recorded_by_the_first_process);
