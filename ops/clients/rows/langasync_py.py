# packages: langasync==0.2.3 langchain-openai==1.7.4
import os

os.environ["LANGASYNC_BATCH_POLL_INTERVAL"] = "0.5"
import pydantic
from cells import KEY, MODEL, PLAIN, RAIN, TYPED, row, weather
from langasync import batch_chain
from langchain_openai import ChatOpenAI


class Place(pydantic.BaseModel):
    """A place."""

    city: str
    population: int


async def results(text, chain):
    import asyncio

    job = await batch_chain(chain).submit([text, text])
    while True:
        done = await job.get_results()
        if done.results is not None or "fail" in str(done.status_info.status).lower():
            return [item.content for item in done.results]
        await asyncio.sleep(0.5)


async def plain():
    return (await results(PLAIN, ChatOpenAI(model=MODEL, api_key=KEY)))[-1]


async def tools():
    calls = (await results(RAIN, ChatOpenAI(model=MODEL, api_key=KEY).bind_tools([weather])))[-1].tool_calls
    return weather(**calls[0]["args"])


async def typed():
    return (await results(TYPED, ChatOpenAI(model=MODEL, api_key=KEY).with_structured_output(Place)))[-1]


row("langasync", plain=plain, stream="batches do not stream", tools=tools, typed=typed)
