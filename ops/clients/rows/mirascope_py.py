# packages: mirascope[openai]==2.8.2
import pydantic
from cells import MODEL, PLAIN, RAIN, TYPED, joined, row, weather
from mirascope import llm


class Place(pydantic.BaseModel):
    city: str
    population: int


def tools(model):
    response = llm.call(model, tools=[llm.tool(weather)])(lambda: RAIN)()
    while response.tool_calls:
        response = response.resume(response.execute_tools())
    return response.text()


for name, model in [("mirascope openai/", f"openai/{MODEL}"), ("mirascope :completions", f"openai/{MODEL}:completions")]:
    row(
        name,
        plain=lambda: llm.call(model)(lambda: PLAIN)().text(),
        stream=lambda: joined(llm.call(model)(lambda: PLAIN).stream().text_stream()),
        tools=lambda: tools(model),
        typed=lambda: llm.call(model, format=Place)(lambda: TYPED)().parse(),
    )
