# packages: litellm==1.110.2
import json

import litellm
import pydantic
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}


class Place(pydantic.BaseModel):
    city: str
    population: int


def ask(messages, **more):
    messages = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    return litellm.completion(model=f"openai/{MODEL}", api_base=BASE, api_key=KEY, messages=messages, **more)


def tools():
    first = ask(RAIN, tools=[TOOL]).choices[0].message
    [call] = first.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": weather(**json.loads(call.function.arguments))}
    return ask([{"role": "user", "content": RAIN}, first, result], tools=[TOOL]).choices[0].message.content


row(
    "litellm",
    plain=lambda: ask(PLAIN).choices[0].message.content,
    stream=lambda: joined(chunk.choices[0].delta.content for chunk in ask(PLAIN, stream=True)),
    tools=tools,
    typed=lambda: ask(TYPED, response_format=Place).choices[0].message.content,
)
row(
    "litellm responses",
    plain=lambda: litellm.responses(model=f"openai/{MODEL}", api_base=BASE, api_key=KEY, input=PLAIN).output[0].content[0].text,
    stream=lambda: joined(
        getattr(event, "delta", None) for event in litellm.responses(model=f"openai/{MODEL}", api_base=BASE, api_key=KEY, input=PLAIN, stream=True)
    ),
    typed=lambda: litellm.responses(model=f"openai/{MODEL}", api_base=BASE, api_key=KEY, input=TYPED, text_format=Place).output[0].content[0].text,
)
