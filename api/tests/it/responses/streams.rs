//! Streams of typed events.

use async_openai::types::responses::{ResponseErrorCode, ResponseStreamEvent, Status};
use axum::http::header;
use serde_json::{Value, json};

use super::{RESPONSES, ask, respond, text, typed, with};
use crate::test_api::{Reply, TestApi};

/// Returns the events of a stream, as async-openai reads them, and their data.
fn events(reply: &Reply) -> Vec<(ResponseStreamEvent, Value)> {
    assert_eq!(reply.headers[header::CONTENT_TYPE], "text/event-stream");
    let mut found = Vec::new();
    for frame in reply.text().split("\n\n").filter(|frame| frame.starts_with("event: ")) {
        let (name, data) = frame.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(format!("event: {}", data["type"].as_str().unwrap()), name);
        assert_eq!(data["sequence_number"], found.len(), "{data}");
        found.push((typed(&data), data));
    }
    found
}

#[tokio::test]
async fn a_stream_is_the_response_in_typed_events() {
    let api = TestApi::new().await;
    let long = "one two three four five six seven eight nine ten eleven twelve thirteen";
    let reply = respond(&api, with(ask(format!("echo {long}")), json!({"stream": true}))).await;
    let found = events(&reply);
    let kinds: Vec<&str> = found.iter().map(|(_, data)| data["type"].as_str().unwrap()).collect();
    let begin = [
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
    ];
    let end = [
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert!(kinds.starts_with(&begin) && kinds.ends_with(&end), "{kinds:?}");
    let delta = |(event, data): &(ResponseStreamEvent, Value)| {
        matches!(event, ResponseStreamEvent::ResponseOutputTextDelta(_))
            .then(|| data["delta"].as_str().unwrap().to_owned())
    };
    let deltas: String = found.iter().filter_map(delta).collect();
    assert_eq!(deltas, format!("Done: {long}."));
    let (_, last) = found.last().unwrap();
    assert_eq!(text(&last["response"]), deltas);
    let item = &found[found.len() - 2].1["item"];
    assert_eq!(item, &last["response"]["output"][0]);
    assert_eq!(found[0].1["response"]["id"], last["response"]["id"]);

    // The same response again, from its first event.
    let place = format!("{RESPONSES}/{}?stream=true", last["response"]["id"].as_str().unwrap());
    let again = events(&api.get(&place).await);
    assert_eq!(text(&again.last().unwrap().1["response"]), deltas);
    assert_eq!(again[0].1["response"]["output"], json!([]));
    let shown = |(_, data): &(ResponseStreamEvent, Value)| {
        let mut data = data.clone();
        data["response"] = Value::Null;
        data
    };
    assert_eq!(again.iter().map(shown).collect::<Vec<_>>(), found.iter().map(shown).collect::<Vec<_>>());

    // And from the event after each one.
    for after in 0..found.len() {
        let rest = api.get(&format!("{place}&starting_after={after}")).await;
        let numbers: Vec<u64> = rest
            .text()
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str::<Value>(data).unwrap()["sequence_number"].as_u64().unwrap())
            .collect();
        assert_eq!(numbers, (after as u64 + 1..found.len() as u64).collect::<Vec<_>>());
    }
    let place = place.replace("?stream=true", "?starting_after=1");
    api.get(&place).await.openai_error(400, "malformed");

    let reply = respond(&api, with(ask("fail out of paper"), json!({"stream": true}))).await;
    let found = events(&reply);
    let [
        ..,
        (ResponseStreamEvent::ResponseFailed(failed), _),
        (ResponseStreamEvent::ResponseError(error), data),
    ] = &found[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!(failed.response.status, Status::Failed);
    let code = &failed.response.error.as_ref().unwrap().code;
    assert_eq!(*code, ResponseErrorCode::InvalidPrompt, "clients repeat, and pay again, after server_error");
    assert!(error.message.contains("out of paper") && error.code.as_deref() == Some("turn_failed"));
    assert_eq!(data["error"]["code"], "turn_failed", "OpenAI's clients raise an event with this field");
}
