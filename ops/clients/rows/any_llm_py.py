# packages: any-llm-sdk[openai]==1.40.2
import json

import pydantic
from any_llm import completion
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather


class Place(pydantic.BaseModel):
    city: str
    population: int


def ask(messages, **more):
    messages = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    return completion(model=MODEL, provider="openai", api_base=BASE, api_key=KEY, messages=messages, **more)


def tools():
    first = ask(RAIN, tools=[weather]).choices[0].message
    [call] = first.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": weather(**json.loads(call.function.arguments))}
    return ask([{"role": "user", "content": RAIN}, first.model_dump(exclude_none=True), result], tools=[weather]).choices[0].message.content


row(
    "any-llm-sdk",
    plain=lambda: ask(PLAIN).choices[0].message.content,
    stream=lambda: joined(chunk.choices[0].delta.content for chunk in ask(PLAIN, stream=True) if chunk.choices),
    tools=tools,
    typed=lambda: ask(TYPED, response_format=Place).choices[0].message.content,
)
