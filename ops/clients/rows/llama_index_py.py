# packages: llama-index-llms-openai-like==0.8.1 llama-index-core==0.14.25
import pydantic
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike


class Place(pydantic.BaseModel):
    city: str
    population: int


def model(**more):
    return OpenAILike(model=MODEL, api_base=BASE, api_key=KEY, **more)


async def tools():
    agent = FunctionAgent(tools=[weather], llm=model(is_chat_model=True, is_function_calling_model=True))
    return await agent.run(RAIN)


row(
    "llama-index OpenAILike",
    plain=lambda: model().complete(PLAIN).text,
    stream=lambda: joined(piece.delta for piece in model().stream_complete(PLAIN)),
    tools="needs is_chat_model and is_function_calling_model",
    typed="needs is_chat_model",
)
row(
    "llama-index OpenAILike, is_chat_model",
    plain=lambda: model(is_chat_model=True).complete(PLAIN).text,
    stream=lambda: joined(piece.delta for piece in model(is_chat_model=True).stream_complete(PLAIN)),
    tools=tools,
    typed=lambda: model(is_chat_model=True, is_function_calling_model=True).as_structured_llm(Place).complete(TYPED).raw,
)
