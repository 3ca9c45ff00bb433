"""Ten operations with the Python client of openapi-generator."""

import sys

import two
from two import ChatCompletionBody, ChatMessageBody, ChatRoleBody, Input, NewContent, NewTurn, Turn

client = two.ApiClient(two.Configuration(host=sys.argv[1]))
turns, threads, openai = two.TurnsApi(client), two.ThreadsApi(client), two.OpenaiApi(client)


def ok(operation, *arguments, **named):
    reply = operation(*arguments, **named)
    print("  ok", operation.__name__)
    return reply


turn = ok(turns.submit_turn, NewTurn(strategy="probe", input=Input("echo hello")), wait=20)
ok(turns.get_turn, turn.id)
assert isinstance(ok(turns.list_turns).data[0], Turn), "items of lists have the type of one"
ok(threads.list_threads)
ok(threads.get_thread, turn.thread_id)
ok(two.StrategiesApi(client).list_strategies)
ok(two.BulkApi(client).list_batches)
ok(two.InboxApi(client).list_inbox)
ok(openai.list_models)
message = ChatMessageBody(role=ChatRoleBody.USER, content=NewContent("echo hello"))
chat = ok(openai.create_chat_completion, ChatCompletionBody(model="turnfold/probe", messages=[message]))
assert chat.choices[0].message.content == "Done: hello.", chat
