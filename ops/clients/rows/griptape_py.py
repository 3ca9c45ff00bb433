# packages: griptape==1.13.0 openai==3.57.0
import pydantic
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather
from griptape.artifacts import TextArtifact
from griptape.drivers.prompt.openai import OpenAiChatPromptDriver
from griptape.structures import Agent
from griptape.tools import BaseTool
from griptape.utils import Stream
from griptape.utils.decorators import activity
from schema import Schema


class Place(pydantic.BaseModel):
    city: str
    population: int


class Weather(BaseTool):
    @activity(config={"description": "Rain that fell.", "schema": Schema({"city": str})})
    def weather(self, params: dict) -> TextArtifact:
        return TextArtifact(weather(params["values"]["city"]))


def agent(stream=False, **more):
    return Agent(prompt_driver=OpenAiChatPromptDriver(model=MODEL, base_url=BASE, api_key=KEY, stream=stream), **more)


row(
    "griptape",
    plain=lambda: str(agent().run(PLAIN).output),
    stream=lambda: joined(piece.value for piece in Stream(agent(stream=True)).run(PLAIN)),
    tools=lambda: str(agent(tools=[Weather()]).run(RAIN).output),
    typed=lambda: agent(output_schema=Place).run(TYPED).output.value,
)
