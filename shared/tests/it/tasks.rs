//! Calls that a server carries out as tasks.

use shared::{
    AttemptFailed, Cancelled, DynThread, Event, Forked, Next, OpenTask, PendingRequest, RunStatus,
    TaskStarted,
};

/// Returns a thread whose call became a task.
fn working() -> Box<dyn DynThread> {
    let mut thread = strategies::find("retriever").unwrap().begin();
    let log = include_str!("../../../fixtures/golden/v1/retriever__write_in_doubt.jsonl");
    let events = log.lines().map(|line| serde_json::from_str::<Event>(line).unwrap());
    for event in events.take_while(|event| !matches!(event, Event::InDoubt(_))) {
        thread.apply(&event).unwrap();
    }
    thread.apply(&started("t1")).unwrap();
    thread
}

fn started(task: &str) -> Event {
    TaskStarted { slot: 0, task: task.to_owned() }.into()
}

fn failed(waiting: bool) -> Event {
    let json = serde_json::json!({"slot": 0, "error": "away", "retry_after_ms": 1, "waiting": waiting});
    serde_json::from_value::<AttemptFailed>(json).unwrap().into()
}

fn due(thread: &dyn DynThread) -> PendingRequest {
    let Next::Perform(due) = thread.next().unwrap() else { panic!("it asks nothing") };
    due.into_iter().next().unwrap()
}

fn task() -> OpenTask {
    OpenTask { server: "calendar".to_owned(), task: "t1".to_owned() }
}

#[test]
fn a_task_is_polled_without_a_fence() {
    let mut thread = working();
    assert_eq!(thread.status(), RunStatus::Busy);
    let poll = due(&*thread);
    assert_eq!((poll.task.as_deref(), poll.is_write()), (Some("t1"), false));
    thread.apply(&started("t2")).unwrap_err();
    thread.apply(&failed(true)).unwrap();
    assert_eq!(due(&*thread).task.as_deref(), Some("t1"), "its server is waited for");
    thread.apply(&failed(false)).unwrap();
    let call = due(&*thread);
    assert_eq!((call.task, call.safety != shared::Safety::Read), (None, true), "the task is lost");
}

/// A write that became a task may have taken effect, whatever happens to the task.
#[test]
fn a_task_of_a_write_that_is_given_up_is_in_doubt() {
    let mut thread = working();
    let json = serde_json::json!({"slot": 0, "error": "the task has not ended within 24 h"});
    thread.apply(&serde_json::from_value::<AttemptFailed>(json).unwrap().into()).unwrap();
    let Next::Append(Event::InDoubt(doubt)) = thread.next().unwrap() else { panic!("it is not in doubt") };
    assert!(doubt.reason.contains("has not ended"), "{}", doubt.reason);
}

#[test]
fn a_task_is_abandoned_with_its_turn() {
    let mut thread = working();
    assert_eq!(thread.abandoned_tasks(), []);
    thread.apply(&Cancelled { actor: String::new(), caller: None, rolled_back: false }.into()).unwrap();
    assert_eq!(thread.abandoned_tasks(), [task()]);
    let result = &thread.messages().last().unwrap().content;
    assert!(result.starts_with("it is unknown whether this call took effect"), "{result}");
    let turn = serde_json::json!({"messages": [{"role": "user", "content": "And now?"}]});
    thread.apply(&serde_json::from_value::<shared::TurnStarted>(turn).unwrap().into()).unwrap();
    assert_eq!(thread.abandoned_tasks(), [task()], "a worker that starts the next turn sees the task");
    let Next::Append(asked) = thread.next().unwrap() else { panic!("it asks nothing") };
    thread.apply(&asked).unwrap();
    assert_eq!(thread.abandoned_tasks(), []);
}

/// The task belongs to the source thread: a fork neither polls it nor cancels it.
#[test]
fn a_fork_neither_polls_nor_cancels_a_task() {
    let mut thread = working();
    let json = serde_json::json!({"thread": uuid::Uuid::nil(), "seq": thread.seq() - 1, "hash": ""});
    thread.apply(&serde_json::from_value::<Forked>(json).unwrap().into()).unwrap();
    assert_eq!(thread.unresolved_writes(), [0]);
    thread.apply(&Cancelled { actor: String::new(), caller: None, rolled_back: false }.into()).unwrap();
    assert_eq!(thread.abandoned_tasks(), []);
}
