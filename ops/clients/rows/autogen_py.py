# packages: autogen-ext[openai]==0.7.5 autogen-agentchat==0.7.5
import pydantic
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelFamily, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather

INFO = {"vision": False, "function_calling": True, "json_output": True, "structured_output": True, "family": ModelFamily.UNKNOWN}


class Place(pydantic.BaseModel):
    city: str
    population: int


def model():
    return OpenAIChatCompletionClient(model=MODEL, base_url=BASE, api_key=KEY, model_info=INFO)


async def plain():
    return (await model().create([UserMessage(content=PLAIN, source="user")])).content


async def stream():
    return joined([piece async for piece in model().create_stream([UserMessage(content=PLAIN, source="user")]) if isinstance(piece, str)])


async def tools():
    agent = AssistantAgent("helper", model_client=model(), tools=[weather], reflect_on_tool_use=True)
    return (await agent.run(task=RAIN)).messages[-1].content


async def typed():
    agent = AssistantAgent("helper", model_client=model(), output_content_type=Place)
    return (await agent.run(task=TYPED)).messages[-1].content


row("autogen-ext", plain=plain, stream=stream, tools=tools, typed=typed)
