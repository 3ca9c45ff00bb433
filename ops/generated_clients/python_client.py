"""Ten operations with the client of openapi-python-client."""

import sys

sys.path.insert(0, ".")

from one import Client
from one.api.bulk import list_batches
from one.api.inbox import list_inbox
from one.api.openai import create_chat_completion, list_models
from one.api.strategies import list_strategies
from one.api.threads import get_thread, list_threads
from one.api.turns import get_turn, list_turns, submit_turn
from one.models import ChatCompletionBody, ChatMessageBody, ChatRoleBody, NewTurn, Turn

client = Client(base_url=sys.argv[1])


def ok(operation, **arguments):
    name = operation.__name__.rsplit(".", 1)[-1]
    reply = operation.sync_detailed(client=client, **arguments)
    assert reply.status_code < 300 and reply.parsed is not None, (name, reply)
    print("  ok", name)
    return reply.parsed


turn = ok(submit_turn, body=NewTurn(strategy="probe", input_="echo hello"), wait=20)
assert isinstance(turn, Turn), turn
ok(get_turn, id=turn.id)
assert isinstance(ok(list_turns).data[0], Turn), "items of lists have the type of one"
ok(list_threads)
ok(get_thread, id=turn.thread_id)
ok(list_strategies)
ok(list_batches)
ok(list_inbox)
ok(list_models)
message = ChatMessageBody(role=ChatRoleBody.USER, content="echo hello")
chat = ok(create_chat_completion, body=ChatCompletionBody(model="turnfold/probe", messages=[message]))
assert chat.choices[0].message.content == "Done: hello.", chat
