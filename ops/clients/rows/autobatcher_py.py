# packages: autobatcher==0.12.0
import pydantic
from autobatcher import BatchOpenAI
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, row, weather

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}


class Place(pydantic.BaseModel):
    city: str
    population: int


for name, settings in [("autobatcher", {}), ("autobatcher, completion_window", {"completion_window": "24h", "batch_window_seconds": 0.1})]:
    client = BatchOpenAI(base_url=BASE, api_key=KEY, poll_interval_seconds=0.5, **settings)

    async def ask(messages, **more):
        messages = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        return (await client.chat.completions.create(model=MODEL, messages=messages, **more)).choices[0].message

    async def plain():
        return (await ask(PLAIN)).content

    async def tools():
        first = await ask(RAIN, tools=[TOOL])
        [call] = first.tool_calls
        result = {"role": "tool", "tool_call_id": call.id, "content": weather("Oslo")}
        return (await ask([{"role": "user", "content": RAIN}, first.model_dump(exclude_none=True), result], tools=[TOOL])).content

    async def typed():
        schema = {"name": "place", "schema": Place.model_json_schema()}
        return (await ask(TYPED, response_format={"type": "json_schema", "json_schema": schema})).content

    row(name, plain=plain, stream="batches do not stream", tools=tools, typed=typed)
