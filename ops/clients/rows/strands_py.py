# packages: strands-agents[openai]==1.62.0
import pydantic
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather
from strands import Agent, tool
from strands.models.openai import OpenAIModel


class Place(pydantic.BaseModel):
    """A place."""

    city: str
    population: int


def agent(**more):
    model = OpenAIModel(client_args={"base_url": BASE, "api_key": KEY}, model_id=MODEL)
    return Agent(model=model, callback_handler=None, **more)


async def stream():
    return joined([event.get("data") async for event in agent().stream_async(PLAIN)])


row(
    "strands-agents",
    plain=lambda: str(agent()(PLAIN)),
    stream=stream,
    tools=lambda: str(agent(tools=[tool(weather)])(RAIN)),
    typed=lambda: agent()(TYPED, structured_output_model=Place).structured_output,
)
