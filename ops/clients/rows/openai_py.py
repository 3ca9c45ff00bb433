# packages: openai==3.57.0
import json

import openai
import pydantic
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather

client = openai.OpenAI(base_url=BASE, api_key=KEY)
TOOL = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}


class Place(pydantic.BaseModel):
    city: str
    population: int


def messages(text):
    return [{"role": "user", "content": text}]


def tools():
    asked = messages(RAIN)
    offered = [{"type": "function", "function": TOOL}]
    first = client.chat.completions.create(model=MODEL, messages=asked, tools=offered).choices[0].message
    [call] = first.tool_calls
    asked += [first, {"role": "tool", "tool_call_id": call.id, "content": weather(**json.loads(call.function.arguments))}]
    return client.chat.completions.create(model=MODEL, messages=asked, tools=offered).choices[0].message.content


def tools_of_responses():
    offered = [{"type": "function", **TOOL, "strict": True}]
    first = client.responses.create(model=MODEL, input=RAIN, tools=offered)
    call = next(item for item in first.output if item.type == "function_call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": weather(**json.loads(call.arguments))}
    return client.responses.create(model=MODEL, input=[result], tools=offered, previous_response_id=first.id).output_text


row(
    "openai py, chat",
    plain=lambda: client.chat.completions.create(model=MODEL, messages=messages(PLAIN)).choices[0].message.content,
    stream=lambda: joined(
        chunk.choices[0].delta.content for chunk in client.chat.completions.create(model=MODEL, messages=messages(PLAIN), stream=True) if chunk.choices
    ),
    tools=tools,
    typed=lambda: client.chat.completions.parse(model=MODEL, messages=messages(TYPED), response_format=Place).choices[0].message.parsed,
)
row(
    "openai py, responses",
    plain=lambda: client.responses.create(model=MODEL, input=PLAIN).output_text,
    stream=lambda: joined(event.delta for event in client.responses.create(model=MODEL, input=PLAIN, stream=True) if event.type == "response.output_text.delta"),
    tools=tools_of_responses,
    typed=lambda: client.responses.parse(model=MODEL, input=TYPED, text_format=Place).output_parsed,
)
