# packages: smolagents[openai]==1.26.0
from cells import BASE, KEY, MODEL, PLAIN, RAIN, joined, row, weather
from smolagents import OpenAIModel, ToolCallingAgent, tool

model = OpenAIModel(model_id=MODEL, api_base=BASE, api_key=KEY)
MESSAGES = [{"role": "user", "content": [{"type": "text", "text": PLAIN}]}]
row(
    "smolagents",
    plain=lambda: model(MESSAGES).content,
    stream=lambda: joined(piece.content for piece in model.generate_stream(MESSAGES)),
    tools=lambda: ToolCallingAgent(tools=[tool(weather)], model=model).run(RAIN),
    typed="has no typed output",
)
