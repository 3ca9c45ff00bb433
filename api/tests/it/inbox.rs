//! The inbox: open questions and their answers.

use axum::http::StatusCode;
use serde_json::{Value, json};
use shared::{Answered, Elicitation, Event, InputRequired, InputResponse, Response, ToolOutput, Verdict};
use store::ThreadId;

use crate::{
    approval_strategy::Approval,
    test_api::{Reply, TestApi, id_of, thread_of},
};

async fn api() -> TestApi {
    TestApi::with(|config| config.strategies = config.strategies.clone().with(&Approval)).await
}

/// Starts a thread with this strategy and input, and runs it until it asks.
async fn run_until_question(api: &TestApi, strategy: &str, input: &str) -> ThreadId {
    let turn = api.post("/v1/turns", json!({"strategy": strategy, "input": input})).await.json();
    api.run_until_idle(thread_of(&turn)).await;
    api.ack_all_jobs().await;
    thread_of(&turn)
}

async fn answer(api: &TestApi, thread: ThreadId, body: Value) -> Reply {
    api.post_with(&format!("/v1/inbox/{thread}"), &[("X-Turnfold-User", "Ada")], body).await
}

/// Answers and returns the reply of the thread.
async fn reply(api: &TestApi, thread: ThreadId, body: Value) -> String {
    let taken = answer(api, thread, body).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED, "{taken:?}");
    assert_eq!(api.enqueued().await, [thread]);
    api.run_until_idle(thread).await;
    api.ack_all_jobs().await;
    let turn = api.get(&format!("/v1/turns/{}", id_of(&taken.json()))).await.json();
    turn["output"]["reply"].as_str().unwrap_or_else(|| panic!("no reply in {turn}")).to_owned()
}

async fn inbox(api: &TestApi, query: &str) -> (Vec<String>, bool) {
    let page = api.get(&format!("/v1/inbox{query}")).await.json();
    let threads = page["data"].as_array().unwrap().iter();
    let threads = threads.map(|thread| thread["thread_id"].as_str().unwrap().to_owned()).collect();
    (threads, page["has_more"].as_bool().unwrap())
}

fn allowed(item: &Value) -> Vec<&str> {
    let config = item["interrupt"]["config"].as_object().unwrap();
    config.iter().filter(|(_, may)| **may == json!(true)).map(|(way, _)| way.as_str()).collect()
}

async fn last(api: &TestApi, thread: ThreadId) -> Event {
    api.backends.store.load(thread).await.unwrap().1.pop().unwrap().event
}

#[tokio::test]
async fn every_open_question_is_listed_newest_first() {
    let api = api().await;
    let first = run_until_question(&api, "probe", "ask Which? | red | green").await;
    let open = run_until_question(&api, "probe", "ask Well?").await;
    let approval = run_until_question(&api, "approval", "May I? | yes | no").await;
    let doubt = run_until_question(&api, "two_writes", "go").await;
    for at_rest in ["echo hi", "fail now"] {
        api.run_turn(at_rest).await;
    }
    // It asks again: its new question is the most recent one.
    api.post("/v1/turns", json!({"thread_id": first, "input": "ask And now? | blue", "policy": "replan"}))
        .await;
    api.run_until_idle(first).await;

    let all = [first, doubt, approval, open].map(|thread| thread.to_string());
    assert_eq!(inbox(&api, "").await, (all.to_vec(), false));
    assert_eq!(inbox(&api, "?limit=2").await, (all[..2].to_vec(), true));
    assert_eq!(inbox(&api, &format!("?limit=2&after={}", all[1])).await, (all[2..].to_vec(), false));
    for (kind, thread) in
        [("choice", first), ("slot_fill", open), ("approval", approval), ("in_doubt", doubt)]
    {
        let found = inbox(&api, &format!("?kind={kind}&limit=1")).await;
        assert_eq!(found, (vec![thread.to_string()], false), "{kind}: other kinds are not counted in a page");
    }
    assert_eq!(inbox(&api, "?kind=ambiguity").await, (Vec::new(), false));
    api.get("/v1/inbox?kind=riddle").await.problem(400, "malformed");
    api.get("/v1/inbox?after=019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d").await.problem(404, "unknown-thread");
}

#[tokio::test]
async fn a_question_has_the_format_of_agent_inboxes() {
    let api = api().await;
    let thread = run_until_question(&api, "probe", "ask Which? | red | green").await;
    let item = api.get(&format!("/v1/inbox/{thread}")).await.json();
    let view = api.get(&format!("/v1/threads/{thread}")).await.json();
    assert_eq!(
        item,
        json!({
            "thread_id": thread, "turn_id": view["turn_id"], "strategy": "probe", "asked_at": view["updated_at"],
            "interrupt": {
                "action_request": {"action": "choice", "args": {"question": "Which?", "options": ["red", "green"]}},
                "config": {"allow_accept": false, "allow_edit": false, "allow_respond": true, "allow_ignore": true},
                "description": "Which?",
            },
            "kind": "choice", "question": "Which?", "options": ["red", "green"], "seq": 5,
        })
    );
    assert_eq!(api.get("/v1/inbox").await.json()["data"], json!([item]));

    let idle = thread_of(&api.run_turn("echo hi").await);
    api.get(&format!("/v1/inbox/{idle}")).await.problem(409, "nothing-asked");
    let nowhere = "/v1/inbox/019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
    api.get(nowhere).await.problem(404, "unknown-thread");
    api.post(nowhere, json!({"type": "ignore"})).await.problem(404, "unknown-thread");
}

#[tokio::test]
async fn an_option_is_chosen_by_number_or_text() {
    let api = api().await;
    for args in [json!("green"), json!("GREEN"), json!("2"), json!(2)] {
        let thread = run_until_question(&api, "probe", "ask Which? | red | green").await;
        let detail = answer(&api, thread, json!({"type": "respond", "args": "blue"})).await;
        assert!(detail.problem(422, "not-an-option").contains("red, green"));
        let answer = reply(&api, thread, json!({"type": "respond", "args": args})).await;
        assert_eq!(answer, "Done: answered \"green\".", "{args}");
    }
}

#[tokio::test]
async fn a_number_names_an_option_before_it_counts_one() {
    let api = api().await;
    for args in [json!("3"), json!(3), json!("3.")] {
        let thread = run_until_question(&api, "probe", "ask How many? | 2 | 3 | 4").await;
        let detail = answer(&api, thread, json!({"type": "respond", "args": 1})).await;
        assert!(detail.problem(422, "not-an-option").contains("may mean several"));
        let answer = reply(&api, thread, json!({"type": "respond", "args": args})).await;
        assert_eq!(answer, "Done: answered \"3\".", "{args}");
    }
}

#[tokio::test]
async fn a_question_without_options_accepts_text_or_json() {
    let api = api().await;
    for (body, received) in [
        (json!({"type": "respond", "args": "a cat"}), "a cat"),
        (json!({"type": "response", "args": "a cat"}), "a cat"),
        (json!({"type": "edit", "args": "a cat"}), "a cat"),
        (json!({"type": "edit", "args": {"city": "Rome"}}), "{\"city\":\"Rome\"}"),
        (
            json!({"type": "edit", "args": {"action": "slot_fill", "args": {"city": "Rome"}}}),
            "{\"city\":\"Rome\"}",
        ),
    ] {
        let thread = run_until_question(&api, "probe", "ask Well?").await;
        let answer = reply(&api, thread, body.clone()).await;
        assert_eq!(answer, format!("Done: answered {received:?}."), "{body}");
    }
    let thread = run_until_question(&api, "probe", "ask Well?").await;
    for nonsense in [
        json!({"type": "respond"}),
        json!({"type": "respond", "args": ""}),
        json!({"type": "respond", "args": {"city": "Rome"}}),
        json!({"type": "edit"}),
        json!({"type": "ignore", "args": "because"}),
        json!({"type": "shrug"}),
        json!({"args": "a cat"}),
    ] {
        answer(&api, thread, nonsense).await.problem(422, "invalid");
    }
}

#[tokio::test]
async fn an_approval_is_given_by_accepting() {
    let api = api().await;
    let accept = json!({"type": "accept"});
    let thread = run_until_question(&api, "approval", "May I? | go ahead | stop").await;
    assert_eq!(reply(&api, thread, accept.clone()).await, "answered \"go ahead\"");
    let thread = run_until_question(&api, "approval", "May I?").await;
    let as_inboxes_do = json!({"type": "accept", "args": {"action": "approval", "args": {}}});
    assert_eq!(reply(&api, thread, as_inboxes_do).await, "answered \"yes\"");
    let thread = run_until_question(&api, "approval", "May I? | go ahead | stop").await;
    assert_eq!(reply(&api, thread, json!({"type": "respond", "args": 2})).await, "answered \"2\"");
}

#[tokio::test]
async fn an_approval_lists_its_calls_and_takes_a_text() {
    let api = api().await;
    let thread = run_until_question(&api, "approval", "book lunch? | yes | no").await;
    let calls =
        json!([{"server": "calendar", "tool": "book", "description": "lunch", "arguments": {"hour": 12}}]);
    let item = api.get(&format!("/v1/inbox/{thread}")).await.json();
    let interrupt = &api.get(&format!("/v1/threads/{thread}")).await.json()["interrupt"];
    for shown in [&item, interrupt] {
        assert_eq!((&shown["calls"], &shown["open_ended"]), (&calls, &json!(true)), "{shown}");
    }
    assert_eq!(interrupt["schema"], json!({"type": "string", "examples": ["yes", "no"]}));
    for number in [json!(1), json!("2.")] {
        let detail = answer(&api, thread, json!({"type": "respond", "args": number})).await;
        let detail = detail.problem(422, "not-an-option");
        assert!(detail.contains("the number of a step or of an option"), "{detail}");
    }
    let message = json!({"type": "respond", "args": "Yes, please"});
    assert_eq!(reply(&api, thread, message).await, "answered \"Yes, please\"");
    let other = run_until_question(&api, "approval", "May I? | yes").await;
    let item = api.get(&format!("/v1/inbox/{other}")).await.json();
    assert_eq!((&item["calls"], &item["open_ended"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn an_answer_of_a_kind_that_is_not_accepted_lists_the_accepted_kinds() {
    let api = api().await;
    for (strategy, input, ways, refused) in [
        ("probe", "ask Which? | red", "respond, ignore", vec!["accept", "edit"]),
        ("probe", "ask Well?", "edit, respond, ignore", vec!["accept"]),
        ("approval", "May I? | yes", "accept, respond, ignore", vec!["edit"]),
        ("approval", "May I?", "accept, edit, respond, ignore", vec![]),
        ("two_writes", "go", "accept, respond, ignore", vec!["edit"]),
    ] {
        let thread = run_until_question(&api, strategy, input).await;
        let item = api.get(&format!("/v1/inbox/{thread}")).await.json();
        let mut names: Vec<&str> = ways.split(", ").collect();
        names.sort_unstable();
        assert_eq!(
            allowed(&item),
            names.iter().map(|name| format!("allow_{name}")).collect::<Vec<_>>(),
            "{input}"
        );
        for way in refused {
            let detail = answer(&api, thread, json!({"type": way, "args": "red"})).await;
            let detail = detail.problem(409, "not-this-way");
            assert!(detail.contains(&format!("accepts {ways}, but not {way}")), "{detail}");
        }
        assert_eq!(api.get(&format!("/v1/threads/{thread}")).await.json()["log_status"], "waiting");
    }
}

#[tokio::test]
async fn ignoring_a_question_cancels_its_turn() {
    let api = api().await;
    for (strategy, input) in [("probe", "ask Well?"), ("approval", "May I? | yes"), ("two_writes", "go")] {
        let thread = run_until_question(&api, strategy, input).await;
        let ignored = answer(&api, thread, json!({"type": "ignore"})).await;
        assert_eq!((ignored.status, &ignored.json()["status"]), (StatusCode::OK, &json!("cancelled")));
        let Event::Cancelled(event) = last(&api, thread).await else { panic!("no cancellation") };
        assert_eq!(event.actor, "Ada");
        assert_eq!(api.get(&format!("/v1/threads/{thread}")).await.json()["status"], "idle");
        for way in ["ignore", "accept", "respond"] {
            answer(&api, thread, json!({"type": way, "args": "1"})).await.problem(409, "nothing-asked");
        }
        api.ack_all_jobs().await;
    }
    assert_eq!(inbox(&api, "").await, (Vec::new(), false));
}

#[tokio::test]
async fn an_answer_is_not_used_for_a_later_question() {
    let api = api().await;
    let thread = run_until_question(&api, "probe", "ask One?; ask Two?").await;
    let item = api.get(&format!("/v1/inbox/{thread}")).await.json();
    let bodies = ["turn_id", "seq"].map(|name| json!({"type": "respond", "args": "1", name: item[name]}));
    // Both answers arrive in time and one is used. The question of the other has been answered then.
    for body in &bodies {
        assert_eq!(answer(&api, thread, body.clone()).await.status, StatusCode::ACCEPTED);
    }
    let asked_at = api.backends.store.head(thread).await.unwrap().seq;
    let queued = api.backends.store.next_queued(thread).await.unwrap().unwrap();
    assert_eq!((queued.answers_seq, json!(asked_at)), (Some(asked_at), item["seq"].clone()));
    let second =
        api.get(&format!("/v1/turns?thread_id={thread}&limit=1")).await.json()["data"][0]["id"].clone();
    let second = second.as_str().unwrap();
    api.post(&format!("/v1/turns/{second}/cancel"), json!({})).await;
    api.run_until_idle(thread).await;
    for body in bodies {
        assert!(answer(&api, thread, body).await.problem(409, "stale").contains("was answered"));
    }
    assert_eq!(api.get(&format!("/v1/inbox/{thread}")).await.json()["question"], "Two?");
}

#[tokio::test]
async fn a_repeated_answer_is_the_same_turn() {
    let api = api().await;
    for (path, body) in
        [("inbox/", json!({"type": "respond", "args": "x"})), ("threads/", json!({"text": "x"}))]
    {
        let thread = run_until_question(&api, "probe", "ask Well?").await;
        let path = format!("/v1/{path}{thread}{}", if path == "threads/" { "/answer" } else { "" });
        let key = [("Idempotency-Key", path.as_str())];
        let first = api.post_with(&path, &key, body.clone()).await;
        api.run_until_idle(thread).await;
        let again = api.post_with(&path, &key, body.clone()).await;
        assert_eq!(again.status, StatusCode::OK, "the thread has moved on because of it: {again:?}");
        assert_eq!(again.json()["id"], first.json()["id"]);
        assert_eq!(again.headers["idempotency-replayed"], "true");
        let other = api.post_with(&path, &key, json!({"type": "respond", "args": "y"})).await;
        assert!([409, 422].contains(&other.status.as_u16()), "{other:?}");
        api.ack_all_jobs().await;
    }
}

/// Returns the last recorded verdict and its slot.
async fn last_verdict(api: &TestApi, thread: ThreadId) -> (usize, Verdict) {
    let Event::Reconciled(event) = last(api, thread).await else { panic!("no verdict") };
    assert_eq!(event.actor, "Ada");
    (event.slot, event.verdict)
}

#[tokio::test]
async fn a_call_in_doubt_is_settled_from_the_inbox() {
    let api = api().await;
    let thread = run_until_question(&api, "two_writes", "go").await;
    let item = api.get(&format!("/v1/inbox/{thread}")).await.json();
    assert_eq!(item["interrupt"]["action_request"], json!({"action": "send", "args": {"n": 0}}));
    assert_eq!((&item["kind"], &item["slot"]), (&json!("in_doubt"), &json!(0)));
    let text = answer(&api, thread, json!({"type": "respond", "args": "perhaps"})).await;
    assert!(text.problem(422, "not-an-option").contains("happened, did not, skip"));
    answer(&api, thread, json!({"type": "respond", "args": {"verdict": "perhaps"}}))
        .await
        .problem(422, "invalid");

    let settled = answer(&api, thread, json!({"type": "accept", "args": "sent"})).await;
    assert_eq!((settled.status, &settled.json()["status"]), (StatusCode::OK, &json!("interrupted")));
    assert_eq!(last_verdict(&api, thread).await, (0, Verdict::Happened { result: "sent".to_owned() }));
    let item = api.get(&format!("/v1/inbox/{thread}")).await.json();
    assert_eq!(item["interrupt"]["action_request"]["args"], json!({"n": 1}), "the other is still in doubt");
    let body = json!({"type": "respond", "args": {"slot": 0, "verdict": "skip"}});
    answer(&api, thread, body).await.problem(409, "not-in-doubt");

    let settled = answer(&api, thread, json!({"type": "respond", "args": {"verdict": "skip"}})).await;
    assert_eq!((settled.status, &settled.json()["status"]), (StatusCode::ACCEPTED, &json!("running")));
    assert_eq!(last_verdict(&api, thread).await, (1, Verdict::Skip));
    api.run_until_idle(thread).await;
    let turn = api.get(&format!("/v1/turns/{}", id_of(&settled.json()))).await.json();
    assert!(turn["output"]["reply"].as_str().unwrap().starts_with("sent / "), "{turn}");
}

#[tokio::test]
async fn a_text_can_be_a_verdict_on_a_call_in_doubt() {
    let api = api().await;
    for (args, verdict) in [
        (json!("did not"), Verdict::DidNotHappen),
        (json!(2), Verdict::DidNotHappen),
        (json!("Skip"), Verdict::Skip),
        (
            json!({"slot": 0, "verdict": {"happened": {"result": "ok"}}}),
            Verdict::Happened { result: "ok".to_owned() },
        ),
    ] {
        let thread = run_until_question(&api, "two_writes", "go").await;
        answer(&api, thread, json!({"type": "respond", "args": args})).await;
        assert_eq!(last_verdict(&api, thread).await, (0, verdict), "{args}");
    }
    for body in [json!({"type": "accept"}), json!({"type": "respond", "args": "happened"})] {
        let thread = run_until_question(&api, "two_writes", "go").await;
        answer(&api, thread, body).await;
        let (0, Verdict::Happened { result }) = last_verdict(&api, thread).await else {
            panic!("not happened")
        };
        assert!(result.contains("confirmed by a person"), "{result}");
    }
}

/// Returns a thread whose tool requests input; the other call is answered.
async fn thread_with_form(api: &TestApi) -> ThreadId {
    let turn = api.post("/v1/turns", json!({"strategy": "two_writes", "input": "go"})).await.json();
    let thread = thread_of(&turn);
    assert!(api.start_turn(thread).await && api.step(thread).await, "it asks");
    let schema = json!({
        "type": "object", "required": ["guests"],
        "properties": {"guests": {"type": "integer", "default": 2}, "note": {"type": "string"}},
    });
    let form = Elicitation { question: "For how many?".to_owned(), schema, url: None };
    api.push(
        thread,
        InputRequired { slot: 0, input_requests: [("guests".to_owned(), form)].into(), request_state: None },
    )
    .await;
    let response = Response::Output(ToolOutput::Ok("sent".to_owned()));
    api.push(thread, Answered { slot: 1, response, usage: None, extras: None }).await;
    api.ack_all_jobs().await;
    thread
}

#[tokio::test]
async fn a_form_accepts_every_kind_of_answer() {
    let api = api().await;
    let thread = thread_with_form(&api).await;
    let item = api.get(&format!("/v1/inbox/{thread}")).await.json();
    assert_eq!((&item["kind"], &item["schema"]["required"]), (&json!("input"), &json!(["guests"])));
    assert_eq!(
        item["interrupt"]["action_request"],
        json!({"action": "input", "args": {"guests": 2, "note": null}})
    );
    assert_eq!(allowed(&item), ["allow_accept", "allow_edit", "allow_ignore", "allow_respond"]);
    assert_eq!(inbox(&api, "?kind=input").await.0, [thread.to_string()]);
    for (wrong, why) in [
        (json!({"type": "respond", "args": "many"}), "guests must be integer"),
        (json!({"type": "edit", "args": {"guest": 3}}), "guest is not a field of the form"),
    ] {
        assert!(answer(&api, thread, wrong).await.problem(422, "unfit").contains(why), "{why}");
    }
    let edited = json!({"action": "input", "args": {"guests": 4, "note": null}});
    for (body, supplied) in [
        (json!({"type": "accept"}), InputResponse::Accept(json!({"guests": 2}))),
        (
            json!({"type": "edit", "args": {"guests": 3, "note": "by the window"}}),
            InputResponse::Accept(json!({"guests": 3, "note": "by the window"})),
        ),
        (json!({"type": "edit", "args": edited}), InputResponse::Accept(json!({"guests": 4}))),
        (json!({"type": "respond", "args": 5}), InputResponse::Accept(json!({"guests": 5}))),
        (json!({"type": "respond", "args": "decline"}), InputResponse::Decline),
        (json!({"type": "ignore"}), InputResponse::Cancel),
    ] {
        let thread = thread_with_form(&api).await;
        let taken = answer(&api, thread, body.clone()).await;
        assert_eq!(taken.status, StatusCode::ACCEPTED, "{body}: {taken:?}");
        assert_eq!(api.enqueued().await, [thread]);
        assert!(api.start_turn(thread).await, "{body}");
        let Event::InputProvided(event) = last(&api, thread).await else {
            panic!("no input was provided: {body}")
        };
        assert_eq!((event.response, event.actor.as_str()), (supplied, "Ada"), "{body}");
        let turn = api.get(&format!("/v1/turns/{}", id_of(&taken.json()))).await.json();
        assert_eq!((&turn["status"], event.turn.to_string()), (&json!("running"), id_of(&turn)));
        api.ack_all_jobs().await;
    }
}
