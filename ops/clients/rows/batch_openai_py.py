# packages: batch-openai==0.4.0
import json
import os
import tempfile

os.environ["HOME"] = tempfile.mkdtemp()
import openai
import pydantic
from batch_openai import BatchRequestBuilder
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, row, weather

client = openai.OpenAI(base_url=BASE, api_key=KEY)
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}


class Place(pydantic.BaseModel):
    city: str
    population: int


def ask(text, **more):
    builder = BatchRequestBuilder()
    for n in range(3):
        builder.add(messages=[{"role": "user", "content": text}], model=MODEL, custom_id=f"doc-{n}", **more)
    result = builder.submit(client).wait(poll_interval=1)
    assert len(result.succeeded) == 3, result.failed
    return result.succeeded[0]


def tools():
    [call] = ask(RAIN, tools=[TOOL]).response_body["choices"][0]["message"]["tool_calls"]
    return weather(**json.loads(call["function"]["arguments"]))


SCHEMA = {"type": "json_schema", "json_schema": {"name": "place", "schema": Place.model_json_schema()}}
row("batch-openai", plain=lambda: ask(PLAIN).content, stream="batches do not stream", tools=tools, typed=lambda: ask(TYPED, response_format=SCHEMA).content)
