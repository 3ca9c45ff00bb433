"""turnfold through OpenAI's own client for Python: `client.py BASE_URL chat|again|batches|bulk KIND COUNT|hook SECRET`."""

import json
import sys
import time

import openai

BASE, WHAT, REST = sys.argv[1], sys.argv[2], sys.argv[3:]
client = openai.OpenAI(base_url=BASE + "/v1", api_key="any", max_retries=2)


def said(words, **more):
    return client.chat.completions.create(
        model="turnfold/probe", messages=[{"role": "user", "content": words}], **more
    )


def raised(kind, what):
    try:
        what()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} is raised")


def models():
    ids = [it.id for it in client.models.list()]
    assert "turnfold/probe" in ids and "turnfold/planner" in ids, ids
    assert client.models.retrieve("turnfold/planner").owned_by == "turnfold"
    error = raised(openai.NotFoundError, lambda: client.models.retrieve("turnfold/nobody"))
    assert error.code == "model_not_found" and error.param == "model", error


def whole_and_streamed():
    answer = said("echo hello there", temperature=0.1, metadata={"order": "17"}, user="ada")
    assert answer.choices[0].message.content == "Done: hello there.", answer
    assert answer.choices[0].finish_reason == "stop" and answer.usage.total_tokens == 0, answer
    assert answer.turnfold["status"] == "completed", answer

    words, usage, done = "", None, None
    for chunk in said("echo one two three four five six seven eight", stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            words += choice.delta.content or ""
            done = choice.finish_reason or done
    assert words == "Done: one two three four five six seven eight.", words
    assert done == "stop" and usage.total_tokens == 0

    raw = client.chat.completions.with_raw_response.create(
        model="probe", messages=[{"role": "user", "content": "echo hi"}], extra_body={"turnfold": {"priority": "high"}}
    )
    assert raw.parse().turnfold["thread_id"] == raw.headers["x-turnfold-thread"]


def a_question_is_answered():
    asked = said("ask Which colour? | red | green")
    assert asked.choices[0].message.content == "Which colour?\n1. red\n2. green", asked
    assert asked.turnfold["interrupt"]["options"] == ["red", "green"], asked
    thread = asked.turnfold["thread_id"]
    answered = client.chat.completions.create(
        model="turnfold/probe",
        messages=[
            {"role": "user", "content": "ask Which colour? | red | green"},
            asked.choices[0].message,
            {"role": "user", "content": "green"},
        ],
        metadata={"thread_id": thread},
    )
    assert answered.choices[0].message.content == 'Done: answered "green".', answered
    assert answered.turnfold["thread_id"] == thread


def responses():
    answer = client.responses.create(
        model="turnfold/probe", input="echo hello there", instructions="Be brief.", temperature=0.1, metadata={"order": "17"}
    )
    assert answer.output_text == "Done: hello there." and answer.status == "completed", answer
    assert client.responses.retrieve(answer.id).output_text == answer.output_text
    items = [item.content[0].text for item in client.responses.input_items.list(answer.id, order="asc")]
    assert items == ["Be brief.", "echo hello there"], items

    asked = client.responses.create(model="turnfold/probe", input="ask Which colour? | red | green")
    assert asked.output[0].turnfold["interrupt"]["options"] == ["red", "green"], asked
    answered = client.responses.create(model="turnfold/probe", input="green", previous_response_id=asked.id)
    assert answered.output_text == 'Done: answered "green".', answered
    # The question again, with another answer.
    other = client.responses.create(model="turnfold/probe", input="red", previous_response_id=asked.id)
    assert other.output_text == 'Done: answered "red".', other

    with client.responses.stream(model="turnfold/probe", input="echo one two three four five six seven eight") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert text == stream.get_final_response().output_text == "Done: one two three four five six seven eight.", text
    error = raised(openai.APIError, lambda: list(client.responses.create(model="probe", input="fail no ink", stream=True)))
    assert "no ink" in str(error), error

    later = client.responses.create(model="turnfold/probe", input="echo later", background=True)
    until = time.time() + 60
    while later.status in ("queued", "in_progress"):
        assert time.time() < until, later
        time.sleep(0.1)
        later = client.responses.retrieve(later.id)
    assert later.output_text == "Done: later.", later
    slow = client.responses.create(model="turnfold/probe", input="wait 60; echo never", background=True)
    assert client.responses.cancel(slow.id).status == "cancelled"
    client.responses.delete(later.id)
    raised(openai.NotFoundError, lambda: client.responses.retrieve(later.id))
    error = raised(openai.BadRequestError, lambda: client.responses.create(model="probe", input="x", max_tool_calls=3))
    assert error.param == "max_tool_calls" and "max_tool_calls" in str(error), error


def conversations():
    talk = client.conversations.create(metadata={"topic": "demo"}, items=[{"role": "user", "content": "I am Ada."}])
    assert client.conversations.retrieve(talk.id).metadata == {"topic": "demo"}
    first = client.responses.create(model="turnfold/probe", conversation=talk.id, input="echo hello")
    assert first.output_text == "Done: hello." and first.conversation.id == talk.id, first
    said = [item.content[0].text for item in client.conversations.items.list(talk.id, order="asc")]
    assert said == ["I am Ada.", "echo hello", "Done: hello."], said
    assert client.conversations.update(talk.id, metadata={"topic": "other"}).metadata == {"topic": "other"}
    assert client.conversations.delete(talk.id).deleted


def completions():
    answer = client.completions.create(model="turnfold/probe", prompt="echo hello", max_tokens=50)
    assert answer.choices[0].text == "Done: hello.", answer
    chunks = client.completions.create(model="turnfold/probe", prompt="echo hello", stream=True)
    text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    assert text == "Done: hello.", text
    error = raised(openai.NotFoundError, lambda: client.embeddings.create(model="small", input="hello"))
    assert "embedding_model" in str(error), error
    error = raised(openai.NotFoundError, lambda: client.images.generate(prompt="a boat"))
    assert "turnfold has chat completions" in str(error), error


def errors():
    error = raised(openai.BadRequestError, lambda: said("echo hi", n=2))
    assert error.code == "unsupported_parameter" and error.param == "n" and "only 1" in str(error), error
    # Not tried again by the client itself, which would be another turn each time.
    error = raised(openai.UnprocessableEntityError, lambda: said("fail out of paper"))
    assert error.code == "turn_failed" and "out of paper" in str(error), error
    turns = client.get("/turns?status=failed", cast_to=object)["data"]
    assert len([it for it in turns if "out of paper" in it["input"][0]["content"]]) == 1, turns
    error = raised(openai.APIError, lambda: list(said("fail no ink", stream=True)))
    assert "no ink" in str(error), error
    key = {"Idempotency-Key": "python"}
    assert said("echo once", extra_headers=key).id == said("echo once", extra_headers=key).id


def planner():
    answer = client.chat.completions.create(
        model="turnfold/planner",
        messages=[{"role": "user", "content": "Add Nora Quist with the address nora.quist@example.org to my contacts"}],
    )
    assert "Nora Quist" in answer.choices[0].message.content, answer
    assert answer.turnfold["usage"]["ms"] >= 0, answer


def batches():
    line = lambda n: {
        "custom_id": f"line-{n}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {
            "model": "turnfold/probe",
            "messages": [{"role": "user", "content": "fail on purpose" if n == 7 else f"echo {n}"}],
        },
    }
    lines = "\n".join(json.dumps(line(n)) for n in range(20)).encode()
    file = client.files.create(file=("lines.jsonl", lines), purpose="batch")
    assert file.purpose == "batch" and file.bytes == len(lines), file
    batch = client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"from": "python"}
    )
    assert batch.object == "batch" and batch.metadata == {"from": "python"}, batch
    until = time.time() + 120
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        assert time.time() < until, batch
        time.sleep(0.1)
        batch = client.batches.retrieve(batch.id)
    assert batch.status == "completed", batch
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (20, 19, 1), batch
    assert batch.usage.total_tokens == 0 and batch.model is None, "the probe asks no model"
    results = [json.loads(it) for it in client.files.content(batch.output_file_id).text.splitlines()]
    answers = {it["custom_id"]: it["response"]["body"]["choices"][0]["message"]["content"] for it in results}
    assert answers["line-3"] == "Done: 3." and len(answers) == 19, answers
    errors = [json.loads(it) for it in client.files.content(batch.error_file_id).text.splitlines()]
    assert [it["custom_id"] for it in errors] == ["line-7"], errors
    assert batch.id in [it.id for it in client.batches.list(limit=5)]
    raised(openai.NotFoundError, lambda: client.batches.retrieve("batch_nobody"))


def again():
    """Asks for what takes a while of a server that is killed meanwhile, and comes back."""
    patient = client.with_options(max_retries=50)
    answer = patient.chat.completions.create(
        model="turnfold/probe", messages=[{"role": "user", "content": "wait 3; echo python"}]
    )
    assert answer.choices[0].message.content.endswith("python."), answer


def chat():
    for part in (models, whole_and_streamed, a_question_is_answered, responses, conversations, completions, errors, planner):
        part()


def body(kind, n):
    words = f"echo {n}"
    if kind == "planner":
        words = f"Add Nora Quist{n} with the address nora{n}@example.org to my contacts"
    return {"model": f"turnfold/{kind}", "messages": [{"role": "user", "content": words}]}


def bulk():
    """A batch of so many lines of a kind: uploaded, made, watched, downloaded; every line once, and well."""
    kind, count = REST[0], int(REST[1])
    line = lambda n: {
        "custom_id": f"{kind}-{n}", "method": "POST", "url": "/v1/chat/completions", "body": body(kind, n)
    }
    lines = "\n".join(json.dumps(line(n)) for n in range(count)).encode()
    file = client.files.create(file=("lines.jsonl", lines), purpose="batch")
    batch = client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    until = time.time() + 280
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        assert time.time() < until, batch
        time.sleep(0.5)
        batch = client.batches.retrieve(batch.id)
    counts = batch.request_counts
    assert batch.status == "completed" and (counts.total, counts.completed, counts.failed) == (count, count, 0), batch
    results = [json.loads(it) for it in client.files.content(batch.output_file_id).text.splitlines()]
    assert sorted(it["custom_id"] for it in results) == sorted(f"{kind}-{n}" for n in range(count))
    assert batch.error_file_id is None, batch
    print("reused", batch.turnfold["reused"])


def hook():
    """What a receiver was sent, on stdin as JSON: signed as the reference library and OpenAI's client have it."""
    import standardwebhooks

    secret, sent = REST[0], json.load(sys.stdin)
    headers, words = sent["headers"], sent["body"]
    told = standardwebhooks.Webhook(secret).verify(words, headers)
    assert told["type"] == "batch.completed" and told["data"]["status"] == "completed", told
    wrong = raised(
        standardwebhooks.WebhookVerificationError,
        lambda: standardwebhooks.Webhook(secret).verify(words.replace("completed", "cancelled"), headers),
    )
    assert "signature" in str(wrong).lower(), wrong
    event = client.webhooks.unwrap(words, headers, secret=secret)
    assert event.type == "batch.completed" and event.data.id == told["data"]["id"], event
    raised(openai.InvalidWebhookSignatureError, lambda: client.webhooks.unwrap(words + " ", headers, secret=secret))


{"chat": chat, "again": again, "batches": batches, "bulk": bulk, "hook": hook}[WHAT]()
print("as expected")
