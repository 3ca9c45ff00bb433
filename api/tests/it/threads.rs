//! The routes of threads.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{Decided, FORMAT, Goto, Opened};
use store::{NewTurn, Opening};

use crate::test_api::{TestApi, id_of, thread_of};

#[tokio::test]
async fn a_thread_shows_the_fold_of_its_log() {
    let api = TestApi::new().await;
    let turn = api.run_turn("ask Well? | yes | no").await;
    let thread = api.get(&format!("/v1/threads/{}", thread_of(&turn))).await.json();
    assert_eq!(thread["id"], turn["thread_id"]);
    assert_eq!(thread["strategy"], "probe");
    assert_eq!((&thread["status"], &thread["log_status"]), (&json!("interrupted"), &json!("waiting")));
    assert_eq!(thread["interrupt"], turn["interrupt"]);
    assert_eq!(thread["turn_id"], turn["id"]);
    assert_eq!(thread["messages"][0], json!({"role": "user", "content": "ask Well? | yes | no"}));
    assert_eq!(thread["messages"][1], json!({"role": "assistant", "content": "Well?"}));
    assert_eq!(thread["events"].as_u64().unwrap(), turn["ended_seq"].as_u64().unwrap() + 1);
    assert_eq!((&thread["node"], &thread["error"]), (&Value::Null, &Value::Null));

    let failed = api.run_turn("fail now").await;
    let thread = api.get(&format!("/v1/threads/{}", thread_of(&failed))).await.json();
    assert_eq!((&thread["status"], &thread["log_status"]), (&json!("error"), &json!("failed")));
    assert_eq!((&thread["node"], &thread["error"]), (&json!("fail"), &failed["error"]));
}

#[tokio::test]
async fn threads_are_listed_by_status_newest_first_in_pages() {
    let api = TestApi::new().await;
    let mut idle = Vec::new();
    for n in 0..3 {
        idle.insert(0, thread_of(&api.run_turn(&format!("echo {n}")).await).to_string());
    }
    let asking = thread_of(&api.run_turn("ask Well?").await).to_string();
    let of = |page: &Value| page["data"].as_array().unwrap().iter().map(id_of).collect::<Vec<_>>();
    let page = api.get("/v1/threads").await.json();
    assert_eq!(of(&page)[0], asking);
    assert_eq!((of(&page).len(), &page["has_more"]), (4, &json!(false)));
    let of_row = |nth: usize, field: &str| page["data"][nth][field].clone();
    assert_eq!((of_row(0, "input"), of_row(0, "result")), (json!("ask Well?"), json!("Well?")));
    assert_eq!((of_row(0, "outcome"), of_row(1, "outcome")), (json!(null), json!("answered")));
    assert_eq!((of_row(1, "input"), of_row(1, "usage")["usd"].clone()), (json!("echo 2"), json!(0.0)));
    assert!(of_row(1, "result").as_str().unwrap().contains('2'), "{page}");
    let page = api.get("/v1/threads?status=idle&limit=2").await.json();
    assert_eq!((of(&page), &page["has_more"]), (idle[..2].to_vec(), &json!(true)));
    let page = api.get(&format!("/v1/threads?status=idle&after={}", idle[1])).await.json();
    assert_eq!((of(&page), &page["has_more"]), (idle[2..].to_vec(), &json!(false)));
    let page = api.get("/v1/threads?where=status+%3D+interrupted").await.json();
    assert_eq!(of(&page), [asking]);
    api.get("/v1/threads?where=status+is+failed").await.problem(422, "invalid");
    assert!(api.get("/v1/threads?status=asleep").await.problem(400, "malformed").contains("interrupted"));
    assert!(api.get("/v1/threads?limit=5000").await.problem(400, "malformed").contains("1000"));
}

#[tokio::test]
async fn lists_are_ordered_and_their_pages_fit_together() {
    let api = TestApi::new().await;
    let long = api.submit("wait 1; echo long").await;
    // Longer than the other turn takes on a busy machine.
    tokio::time::sleep(Duration::from_secs(1)).await;
    api.run_until_idle(thread_of(&long)).await;
    let short = api.run_turn("echo short").await;
    let of = |page: &Value| page["data"].as_array().unwrap().iter().map(id_of).collect::<Vec<_>>();
    let [first, second] = [id_of(&long), id_of(&short)];
    let page = api.get("/v1/turns?order=took&limit=1").await.json();
    assert_eq!((of(&page), &page["has_more"]), (vec![first.clone()], &json!(true)));
    let page = api.get(&format!("/v1/turns?order=took&limit=1&after={first}")).await.json();
    assert_eq!((of(&page), &page["has_more"]), (vec![second.clone()], &json!(false)));
    let page = api.get(&format!("/v1/turns?order=took_asc&limit=1&after={second}")).await.json();
    assert_eq!((of(&page), &page["has_more"]), (vec![first.clone()], &json!(false)));
    for (order, expected) in [
        ("updated", [&second, &first]),
        ("updated_asc", [&first, &second]),
        ("took_asc", [&second, &first]),
        ("newest", [&second, &first]),
        ("oldest", [&first, &second]),
    ] {
        let page = api.get(&format!("/v1/turns?order={order}")).await.json();
        assert_eq!(of(&page), expected.map(ToString::to_string), "{order}");
    }
    let threads = [thread_of(&short).to_string(), thread_of(&long).to_string()];
    let page = api.get("/v1/threads?order=updated&limit=1").await.json();
    assert_eq!((of(&page), &page["has_more"]), (threads[..1].to_vec(), &json!(true)));
    let page = api.get(&format!("/v1/threads?order=updated&after={}", threads[0])).await.json();
    assert_eq!((of(&page), &page["has_more"]), (threads[1..].to_vec(), &json!(false)));
    assert_eq!(of(&api.get("/v1/threads?order=took").await.json())[0], threads[1]);
    assert_eq!(of(&api.get("/v1/threads?order=took_asc").await.json())[0], threads[0]);
    let page = api.get("/v1/threads?order=oldest&limit=1").await.json();
    assert_eq!((of(&page), &page["has_more"]), (threads[1..].to_vec(), &json!(true)));
    let page = api.get(&format!("/v1/threads?order=oldest&after={}", threads[1])).await.json();
    assert_eq!((of(&page), &page["has_more"]), (threads[..1].to_vec(), &json!(false)));
    for path in ["turns", "threads"] {
        assert!(
            api.get(&format!("/v1/{path}?order=dearest")).await.problem(400, "malformed").contains("usd")
        );
        let unknown = uuid::Uuid::now_v7();
        assert_eq!(api.get(&format!("/v1/{path}?order=updated&after={unknown}")).await.status, 404);
    }
}

#[tokio::test]
async fn an_unknown_thread_is_not_found() {
    let api = TestApi::new().await;
    let nowhere = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
    for tail in ["", "/events", "/state", "/verify", "/replay"] {
        let detail = api.get(&format!("/v1/threads/{nowhere}{tail}")).await.problem(404, "unknown-thread");
        assert!(detail.contains(nowhere), "{detail}");
        api.get(&format!("/v1/threads/nowhere{tail}")).await.problem(400, "malformed");
    }
    let body = json!({"slot": 0, "verdict": "skip"});
    api.post(&format!("/v1/threads/{nowhere}/reconcile"), body).await.problem(404, "unknown-thread");
}

#[tokio::test]
async fn a_state_is_the_fold_up_to_an_event() {
    let api = TestApi::new().await;
    let turn = api.run_turn("echo a; echo b").await;
    let path = format!("/v1/threads/{}/state", thread_of(&turn));
    let start = api.get(&format!("{path}?at=0")).await.json();
    assert_eq!(
        (&start["seq"], &start["messages"], &start["log_status"], &start["config"]),
        (&json!(0), &json!([]), &json!("idle"), &json!({"padding": 0}))
    );
    assert_eq!(start["state"]["done"], json!([]));
    let received = api.get(&format!("{path}?at=1")).await.json();
    assert_eq!((&received["log_status"], &received["node"]), (&json!("busy"), &json!("read")));
    let end = api.get(&path).await.json();
    assert_eq!(end["seq"], turn["ended_seq"]);
    assert_eq!(end["state"]["done"], json!(["a", "b"]));
    assert_eq!(end["log_status"], "idle");
    let beyond = turn["ended_seq"].as_u64().unwrap() + 1;
    let detail = api.get(&format!("{path}?at={beyond}")).await.problem(422, "invalid");
    assert!(detail.contains(&turn["ended_seq"].to_string()), "{detail}");
    api.get(&format!("{path}?at=-1")).await.problem(400, "malformed");
}

#[tokio::test]
async fn an_intact_log_passes_verify_and_replay() {
    let api = TestApi::new().await;
    let turn = api.run_turn("call 3; echo hi").await;
    let replay = api.get(&format!("/v1/threads/{}/replay", thread_of(&turn))).await.json();
    assert_eq!(
        (&replay["ok"], &replay["divergences"], &replay["unreadable"]),
        (&json!(true), &json!([]), &Value::Null)
    );
    let audit = api.get(&format!("/v1/threads/{}/verify", thread_of(&turn))).await.json();
    assert_eq!((&audit["ok"], &audit["events"]), (&json!(true), &replay["events"]));
    assert_eq!(audit["events"].as_u64().unwrap(), turn["ended_seq"].as_u64().unwrap() + 1);
    let head = api.backends.store.head(thread_of(&turn)).await.unwrap().hash;
    assert_eq!(
        (&audit["chain"]["intact"], &audit["chain"]["head"]),
        (&json!(true), &json!(hex::encode(head)))
    );
}

#[tokio::test]
async fn a_replay_reports_where_todays_code_decides_differently() {
    let api = TestApi::new().await;
    let turn = api.submit("echo hi").await;
    let thread = thread_of(&turn);
    api.start_turn(thread).await;
    api.push(
        thread,
        Decided {
            node: "read".into(),
            messages: vec![],
            facts: vec![],
            reason: None,
            to: Goto::End,
            budget_exceeded: None,
            outcome: None,
        },
    )
    .await;
    let verified = api.get(&format!("/v1/threads/{thread}/verify")).await.json();
    assert_eq!((&verified["ok"], &verified["chain"]["intact"]), (&json!(true), &json!(true)));
    let replay = api.get(&format!("/v1/threads/{thread}/replay")).await.json();
    assert_eq!(replay["ok"], false, "{replay}");
    assert_eq!(replay["divergences"][0]["seq"], 2);
    assert!(replay["divergences"][0]["replayed"].as_str().unwrap().contains("step"), "{replay}");
}

#[tokio::test]
async fn a_log_of_a_newer_version_is_reported() {
    let api = TestApi::new().await;
    let opened = Opened {
        format: FORMAT + 1,
        strategy: "probe".to_owned(),
        version: 1,
        config: Value::Null,
        servers: [].into(),
        budget: shared::Budget::default(),
        context: shared::ContextSettings::default(),
        actor: String::new(),
        tenant: shared::DEFAULT_TENANT.to_owned(),
        caller: None,
    };
    let new = NewTurn::of(Opening::New(opened), vec![shared::Message::user("hi")], String::new());
    let thread = api.backends.store.submit(new).await.unwrap().into_turn().thread;
    for tail in ["", "/events", "/state"] {
        let detail = api.get(&format!("/v1/threads/{thread}{tail}")).await.problem(500, "damaged");
        assert!(detail.contains("newer version of turnfold"), "{detail}");
    }
    let verified = api.get(&format!("/v1/threads/{thread}/verify")).await.json();
    assert_eq!((&verified["ok"], &verified["chain"]["intact"]), (&json!(true), &json!(true)));
    let replay = api.get(&format!("/v1/threads/{thread}/replay")).await.json();
    assert_eq!(replay["ok"], false, "{replay}");
    assert!(replay["unreadable"].as_str().unwrap().contains("newer version of turnfold"), "{replay}");
}
