# packages: agno==3.1.10 openai==3.57.0
import pydantic
from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.models.openai.like import OpenAILike
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather


class Place(pydantic.BaseModel):
    city: str
    population: int


for kind in [OpenAILike, OpenAIChat]:

    def ask(text, **more):
        return Agent(model=kind(id=MODEL, base_url=BASE, api_key=KEY), **more).run(text).content

    row(
        f"agno {kind.__name__}",
        plain=lambda: ask(PLAIN),
        stream=lambda: joined(piece.content for piece in Agent(model=kind(id=MODEL, base_url=BASE, api_key=KEY)).run(PLAIN, stream=True) if hasattr(piece, "content")),
        tools=lambda: ask(RAIN, tools=[weather]),
        typed=lambda: ask(TYPED, output_schema=Place),
    )
