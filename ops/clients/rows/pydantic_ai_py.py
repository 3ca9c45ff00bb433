# packages: pydantic-ai-slim[openai]==2.68.0
import pydantic
from cells import MODEL, PLAIN, RAIN, TYPED, joined, row, weather
from pydantic_ai import Agent


class Place(pydantic.BaseModel):
    city: str
    population: int


for provider in ["openai", "openai-chat"]:
    model = f"{provider}:{MODEL}"

    async def stream():
        async with Agent(model).run_stream(PLAIN) as result:
            return joined([piece async for piece in result.stream_text(delta=True, debounce_by=None)])

    row(
        f"pydantic-ai {provider}:",
        plain=lambda: Agent(model).run_sync(PLAIN).output,
        stream=stream,
        tools=lambda: Agent(model, tools=[weather]).run_sync(RAIN).output,
        typed=lambda: Agent(model, output_type=Place).run_sync(TYPED).output,
    )
