# packages: haystack-ai==3.4.1
import pydantic
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret


class Place(pydantic.BaseModel):
    city: str
    population: int


tool = create_tool_from_function(weather)
for name, kind, typed in [
    ("haystack OpenAIChatGenerator", OpenAIChatGenerator, {"response_format": Place}),
    ("haystack OpenAIResponsesChatGenerator", OpenAIResponsesChatGenerator, {"text_format": Place}),
]:

    def model(**more):
        return kind(model=MODEL, api_base_url=BASE, api_key=Secret.from_token(KEY), **more)

    def ask(text, **more):
        return model(**more).run([ChatMessage.from_user(text)])["replies"][0].text

    def stream():
        pieces = []
        ask(PLAIN, streaming_callback=lambda chunk: pieces.append(chunk.content))
        return joined(pieces)

    row(
        name,
        plain=lambda: ask(PLAIN),
        stream=stream,
        tools=lambda: Agent(chat_generator=model(), tools=[tool]).run(messages=[ChatMessage.from_user(RAIN)])["last_message"].text,
        typed=lambda: ask(TYPED, generation_kwargs=typed),
    )
